//! A hostile disk: an in-memory file system with a volatile and a durable half, that tears, fills, lies and crashes.

mod config;
mod content;
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
mod machine;
mod node;
mod path;
mod process;
mod profile;
mod state;
mod surgery;
mod view;

pub use config::Config;
pub use content::{PAGE, SECTOR};
pub use disk::Disk;
pub use errno::Errno;
pub use event::{Death, Event, Op, Progress, Site, Struck};
pub use fault::{Cut, Fault, FaultError, FaultId, Kind, Trigger};
pub use file::File;
pub use history::{Cursor, History, Step};
pub use image::{Image, Images};
pub use process::{Entry, Lock, Open, Process};
pub use profile::{Profile, UnknownProfile};
pub use view::{Pending, View};
