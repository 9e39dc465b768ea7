//! A hostile disk for testing storage engines: an in-memory file system that tears, fills up, lies about `fsync` and
//! loses power inside any operation.
//!
//! ```
//! use faults::{Config, Cut, Disk, Fault, Kind, Op, Open, Profile};
//!
//! let disk = Disk::new(Config::new(Profile::Strict));
//! let process = disk.process();
//! let log = process.open("/log", Open::CreateNew)?;
//! log.write_at(b"first", 0)?;
//! log.sync_data()?;
//! process.sync_dir("/")?; // without this, the name itself may be gone
//!
//! disk.aim(Fault::new(Op::Write, "log", Kind::PowerLoss { at: Cut::Bytes(3) }))?;
//! assert!(log.write_at(b"second", 5).is_err());
//! assert!(process.is_dead() && disk.unfired().is_empty());
//! assert_eq!(disk.seen("/log").unwrap(), b"firstsec");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The contract
//!
//! **Two halves.** Data, length and directory entries each have a *volatile* half, which processes see, and a *durable*
//! one. What lies between the two is *pending*. [`File::sync_data`] makes a file's data and length durable,
//! [`Process::sync_dir`] a directory's entries, and nothing else makes anything certain. Any pending thing may already
//! be on the medium all the same: kernels write back when they like.
//!
//! **Two crashes.** When a process dies ([`Disk::kill_all`], [`Kind::Crash`]) the volatile half survives; its
//! descriptors and locks go. When power is lost ([`Disk::power_loss`], [`Kind::PowerLoss`]) the durable half survives,
//! and of what was pending a choice that the [`Profile`] allows, drawn from the seed. A crash may strike *inside* an
//! operation: the part that the fault names is done, and from then on every call of that process, from `Drop` too, fails
//! and changes nothing. Who looks at [`Process::is_dead`] learns it at once, and from [`Process::death`] why.
//!
//! **No surprises otherwise.** Without faults, operations give what Linux gives: the same bytes, lengths and error
//! numbers, in the kernel's order of checks; `tests/conformance.rs` compares with a real directory. Listings are sorted.
//! Time, and memory, are linear in what is written. The same seed and the same operations give the same run: nothing
//! reads a clock, starts a thread or sleeps.
//!
//! **No inert faults.** A fault strikes an operation on which it makes a difference, or waits for one;
//! [`Disk::unfired`] names those that never did.
//!
//! # What power loss may leave
//!
//! | | names | length and data of one file |
//! | --- | --- | --- |
//! | [`Strict`](Profile::Strict) | each by itself: any since the durable one | any length and, of each sector, any content it had |
//! | [`Ordered`](Profile::Ordered) | a prefix of the operations, renames whole | a length, and no sector older than that asks for |
//! | [`Writeback`](Profile::Writeback) | as `Ordered` | as `Strict` |
//! | [`Lying`](Profile::Lying) | as `Ordered`, without the last 3 syncs, or [`lies`](field@Config::lies) of them | likewise |
//!
//! Files are independent of each other under every profile, unless something was synced. In detail:
//!
//! - **A sector, 512 bytes, is written whole or not at all.** Devices promise this much, and not more. A tear inside one
//!   is a fault that is asked for: [`Kind::PowerLoss`] at a byte, or [`Cursor::images_inside`].
//! - **A length** moves at the end of each operation, and inside a write at each page, 4096 bytes, that it grows by.
//! - **Missing data** reads as what was there before: zeros behind the old end; after a truncation that was followed by
//!   growth, under `Strict` and `Writeback`, the old bytes. Other files' old blocks are never exposed: ext4 has kept
//!   fresh blocks marked unwritten until their data came since `dioread_nolock` became its default, in Linux 5.6.
//! - **A truncation** zeroes the rest of its last block, and the zeros may come before the shorter length.
//! - **Overwrites in place** of bytes that were synced before are never ordered, not by `Ordered` either: its order
//!   holds for bytes that the length makes visible.
//! - **What a sync covers.** Under `Strict`, what POSIX says: `fdatasync` the file's data and the length needed to read
//!   it back, not its name; syncing a directory its own entries, not its parent's. Under the others there is one
//!   journal: syncing a directory commits it, and so does syncing a file that is new or whose length is pending, with
//!   all names in it. Programs that need only this pass on ext4 and lose files elsewhere: test with `Strict`.
//! - **A slow sync**, of a file and in a job ([`Disk::begin_job`]), covers what was there when the job was handed over and what the
//!   job itself has written, and none of it before it has ended. One that has begun before the file system turns read-only
//!   has its answer already, and ends well; one that begins after that fails if it covers anything.
//! - **A directory with two names**, which `Strict` can leave of a rename, keeps the first that a repair would meet.
//!   Where a rename lost both, what it named is gone.
//!
//! Where these come from: POSIX.1-2024, `fsync`, `fdatasync` and `rename`, which promise nothing about order or about
//! names; the Linux manual, `fsync(2)`, which says that a directory must be synced by itself; the kernel's
//! `admin-guide/ext4` on `data=ordered` and `data=writeback`; Pillai et al., *All File Systems Are Not Created Equal*
//! (OSDI 2014), whose table of persistence properties is what tells `Strict` from `Ordered`. Two places where `Ordered`
//! is not ext4: real ext4 may commit the length of an append inside an already allocated block before its data, so that
//! a log ends in zeros (use `Writeback` for it), and it flushes a file's data before it is renamed over another, a
//! kindness (`auto_da_alloc`) that no program should need. Truncations are in order within their file only.
//!
//! # Failures of the device
//!
//! - **A failed sync** is Linux's ([`Kind::SyncFailure`]): dirty pages stay readable and count as clean; they reach the
//!   medium only if somebody changes them again, and what came after the sync began stays dirty; the length becomes durable
//!   all the same with the next sync; each descriptor open at the time is told once, and if nobody was told, the next to open
//!   the file is. From Rebello et al., *Can Applications Recover from fsync Failures?* (ATC 2020) on ext4, and the kernel's
//!   `errseq`.
//! - **A full disk** counts in blocks of 4096 bytes: a write keeps the part that fitted and says how much; one that
//!   fits nothing is `ENOSPC`. Truncating and deleting give room back, an open file's blocks when it is closed.
//! - **A read-only file system** refuses every change, `EROFS`, and keeps nothing that was pending when it became so: also a sync
//!   of that is refused.
//! - **Lost, torn and misdirected writes** hide behind the page cache, until power is lost or [`Disk::drop_caches`].
//! - **A sector that cannot be read** ends a read before it, `EIO` at its start; a write of the whole sector mends it.
//!
//! # What is not modelled
//!
//! Links of both kinds, permissions, times, attributes, sparse-file calls, memory maps, `O_DIRECT` and `O_APPEND`;
//! cursors (positions only); damage to the file system's own structures; names that are not UTF-8 (`EILSEQ`). An
//! operation happens at one instant, but for a sync that takes its time: two threads never see half of another's write. `..` is
//! resolved by the text of the path. Blocks freed by a deletion can be used at once, before the deletion is durable.
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | [`Disk`] | survives everything: crashes, faults, surgery at rest ([`Disk::corrupt`] …), the three [`View`]s of a file |
//! | [`Process`], [`File`], [`Dir`], [`Lock`] | one run of a program, and what dies with it |
//! | [`Fault`], [`Kind`] | what goes wrong, and where it is aimed |
//! | [`History`], [`Cursor`] | recorded once, applied again to any prefix, syncs left out or added ([`History::without_syncs`]) |
//! | [`Limits`] | what keeps a disk from taking changes: part of each step of a history, to be put on what is made of an image |
//! | [`Images`], [`Image`] | what a power loss may leave: counted, numbered, drawn; each a [`Disk`] for the asking |
//! | [`Moment`], [`AtWork`], [`Unfinished`] | jobs whose syncs take their time |
//! | [`Event`] | what happened, for a trace |
//!
//! Every sync knows its place in the program's source: [`Disk::barriers`] lists them, [`Disk::disable_barrier`] makes one a
//! lie, and a test suite that does not notice has a hole.

mod config;
mod content;
mod dir;
mod disk;
mod errno;
mod event;
mod fault;
mod file;
mod glob;
mod hash;
mod history;
mod image;
mod legal;
mod limits;
mod machine;
mod node;
mod path;
mod process;
mod profile;
mod slow;
mod state;
mod surgery;
mod view;

pub use config::Config;
pub use content::{PAGE, SECTOR};
pub use dir::Dir;
pub use disk::Disk;
pub use errno::Errno;
pub use event::{Death, Event, Op, Progress, Site, Struck};
pub use fault::{Cut, Fault, FaultError, FaultId, Keep, Kind, Trigger};
pub use file::File;
pub use history::{Cursor, History, Step};
pub use image::{Image, Images};
pub use limits::Limits;
pub use process::{Entry, Lock, Open, Process};
pub use profile::{Profile, UnknownProfile};
pub use slow::{AtWork, Moment, Unfinished};
pub use view::{Pending, View};
