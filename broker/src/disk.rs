//! The disk seam: what the log needs of a file system, and no more.
//!
//! [`OsDisk`] is the real file system; a simulation gives its own. Dispatch is static, so the real path costs what
//! `std::fs` costs. I/O is positional only: there is no cursor to get out of step after a failed write.
//!
//! Every method that changes something, or makes it durable, is `#[track_caller]`: a test disk can tell the places in the
//! broker that sync apart, switch one off, and show that something then breaks; and it can name the place of a change
//! that lacks a sync.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;

#[cfg(unix)]
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// How [`Disk::open`] treats a file that is or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading only; `NotFound` where there is none.
    Read,
    /// For reading and writing; `NotFound` where there is none.
    Write,
    /// For reading and writing; made, empty, where there is none.
    Create,
    /// For reading and writing; made, and `AlreadyExists` where there is one.
    CreateNew,
}

/// What a directory holds under one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, without its directory. A name that is not UTF-8 is shown with replacement characters.
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub is_dir: bool,
}

/// What tells a directory from every other: its device, and its number there.
pub type Identity = (u64, u64);

/// A file system. Cheap to clone; clones are the same file system.
pub trait Disk: Clone + Debug + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// An open directory.
    type Dir: Debug;
    /// Held for as long as this process owns a directory.
    type Lock: Debug + Send + Sync + 'static;

    /// Opens a file. The entry of a new file is durable only after [`Disk::sync_dir`] on its directory.
    #[track_caller]
    fn open(&self, path: &Path, how: Open) -> io::Result<Self::File>;
    /// Makes one directory; `AlreadyExists` where there is one, `NotFound` where the parent is missing.
    #[track_caller]
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// What a directory holds, sorted by name.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// Whether this name is that of a link, wherever that leads; not where there is none.
    fn is_link(&self, path: &Path) -> io::Result<bool>;
    /// What tells the directory of this name from every other, whatever names it has; `None` where each has one name only.
    fn identity(&self, dir: &Path) -> io::Result<Option<Identity>>;
    /// How many names (hard links) the file of this name has; 1 where each has one name only.
    fn links(&self, path: &Path) -> io::Result<u64>;
    /// Gives a file or directory another name, in the place of what had it. Atomic; durable after `sync_dir` on both.
    #[track_caller]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Whoever has it open can go on reading.
    #[track_caller]
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    #[track_caller]
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens a directory, to be synced.
    #[track_caller]
    fn open_dir(&self, dir: &Path) -> io::Result<Self::Dir>;
    /// Makes a directory's entries durable.
    #[track_caller]
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()>;
    /// Takes an exclusive lock on a directory, which ends with the process at the latest. `WouldBlock` where another
    /// process holds it. Writes nothing: it works on a read-only file system.
    fn lock_dir(&self, dir: &Path) -> io::Result<Self::Lock>;
    /// Whether the directory of this name is the one that is locked. Its name can be another's by now.
    fn is_locked(&self, lock: &Self::Lock, dir: &Path) -> io::Result<bool>;
    /// A value that changes whenever the machine starts anew, and only then; `None` where that is not known.
    ///
    /// What was in the page cache survives the death of a process, but not of the machine: recovery reads a hole
    /// in a log differently after each.
    fn boot_id(&self) -> Option<String>;
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// Reads at a byte position. Fewer bytes than asked for are legal; 0 is the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes at a byte position. Fewer bytes than given are legal.
    #[track_caller]
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts the file off, or extends it with zeros.
    #[track_caller]
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the data and the length durable (`fdatasync`).
    #[track_caller]
    fn sync_data(&self) -> io::Result<()>;
    /// Asks for the disk's blocks for these bytes, also behind the end, and changes neither the bytes nor the length. Nothing but the
    /// speed of a write may hang on it: a disk that has nothing of the kind does nothing.
    fn reserve(&self, _bytes: Range<u64>) -> io::Result<()> {
        Ok(())
    }
    /// Gives back the blocks behind the end. Nothing may be written meanwhile.
    fn give_back(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads until `buf` is full or the file ends; gives the number of bytes read. Retries `EINTR`.
pub fn read_full_at(file: &impl DiskFile, buf: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], position + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all of `buf`. Retries `EINTR` and goes on after a short write; after an error an unknown part is written.
#[track_caller]
pub fn write_full_at(file: &impl DiskFile, buf: &[u8], position: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.write_at(&buf[done..], position + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Whether an error says that there is no room.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// How often a sync or a cut that a signal interrupted is tried again. Any other failure of a sync is final: the kernel may
/// have dropped the dirty pages, and a second try would answer "yes" about data that is gone.
const INTERRUPTED_TRIES: usize = 3;

/// What a call says that is made again where a signal interrupted it. A macro, since a closure would be the caller that
/// `#[track_caller]` sees.
macro_rules! retried {
    ($call:expr) => {{
        let mut result = $call;
        for _ in 0..INTERRUPTED_TRIES {
            match &result {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => result = $call,
                _ => break,
            }
        }
        result
    }};
}

/// Makes a file's data durable; retries `EINTR` only.
#[track_caller]
pub fn sync_file(file: &impl DiskFile) -> io::Result<()> {
    retried!(file.sync_data())
}

/// Cuts a file off, or extends it with zeros; retries `EINTR` only.
#[track_caller]
pub fn set_len(file: &impl DiskFile, len: u64) -> io::Result<()> {
    retried!(file.set_len(len))
}

/// Makes a directory's entries durable; retries `EINTR` only.
///
/// Whoever changes entries opens the directory before: where no descriptor is left for it, nothing has happened yet. After
/// the change, a directory that cannot be synced leaves it in doubt.
#[track_caller]
pub fn sync_dir<D: Disk>(disk: &D, dir: &D::Dir) -> io::Result<()> {
    retried!(disk.sync_dir(dir))
}

/// The real file system.
#[derive(Clone, Debug, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    type File = File;
    type Dir = File;
    type Lock = File;

    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => &mut options,
            Open::Write => options.write(true),
            Open::Create => options.write(true).create(true),
            Open::CreateNew => options.write(true).create_new(true),
        };
        // A named pipe would be waited for until somebody opens its other end.
        match options.custom_flags(flag(OFlags::NONBLOCK)).open(path) {
            Ok(file) => no_special_file(&file.metadata()?).map(|()| file),
            // A socket cannot be opened at all, and what the system says of that is no help.
            Err(e) if e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                Err(fs::metadata(path).and_then(|found| no_special_file(&found)).err().unwrap_or(e))
            }
            // A regular file that another program has a lease of: to wait is to let it give that back.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => options.custom_flags(0).open(path),
            Err(e) => Err(e),
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // What was moved to another disk is where a link says.
            let kind = entry.file_type()?;
            let is_dir =
                kind.is_dir() || (kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|m| m.is_dir()));
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), is_dir });
        }
        entries.sort();
        Ok(entries)
    }

    fn is_link(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(named) => Ok(named.is_symlink()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn identity(&self, dir: &Path) -> io::Result<Option<Identity>> {
        Ok(Some(identity(&fs::metadata(dir)?)))
    }

    fn links(&self, path: &Path) -> io::Result<u64> {
        let found = fs::metadata(path)?;
        // The links of a directory are those within it.
        Ok(if found.is_dir() { 1 } else { found.nlink() })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn open_dir(&self, dir: &Path) -> io::Result<File> {
        open_dir(dir)
    }

    fn sync_dir(&self, dir: &File) -> io::Result<()> {
        dir.sync_all()
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<File> {
        let handle = open_dir(dir)?;
        match handle.try_lock() {
            Ok(()) => Ok(handle),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn is_locked(&self, lock: &File, dir: &Path) -> io::Result<bool> {
        Ok(identity(&lock.metadata()?) == identity(&fs::metadata(dir)?))
    }

    fn boot_id(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    }
}

/// Where something else has the name, it is not waited for either.
fn open_dir(dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flag(OFlags::DIRECTORY)).open(dir)
}

/// As the standard library takes it.
fn flag(flag: OFlags) -> i32 {
    flag.bits().cast_signed()
}

/// Refuses what is neither a file nor a directory: nothing of ours lies in it, and to read it might take for ever.
fn no_special_file(found: &fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_file() || kind.is_dir() => return Ok(()),
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, and no regular file")))
}

fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

impl DiskFile for File {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, position)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        FileExt::write_at(self, buf, position)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, bytes: Range<u64>) -> io::Result<()> {
        // What has its blocks in memory finds them no faster when it is asked ahead, and takes memory for them.
        const TMPFS: u32 = 0x0102_1994;
        if u32::try_from(rustix::fs::fstatfs(self)?.f_type).is_ok_and(|kind| kind == TMPFS) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let len = bytes.end - bytes.start;
        Ok(rustix::fs::fallocate(self, rustix::fs::FallocateFlags::KEEP_SIZE, bytes.start, len)?)
    }

    /// To cut a file off at its end is what frees the blocks behind it.
    #[cfg(target_os = "linux")]
    fn give_back(&self) -> io::Result<()> {
        File::set_len(self, self.metadata()?.len())
    }
}

#[cfg(test)]
pub(crate) mod counted;

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that takes so many bytes at a time.
    #[derive(Debug)]
    struct Takes(usize);

    impl DiskFile for Takes {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            unreachable!("it is only written")
        }
        fn write_at(&self, buf: &[u8], _: u64) -> io::Result<usize> {
            Ok(buf.len().min(self.0))
        }
        fn len(&self) -> io::Result<u64> {
            unreachable!("it is only written")
        }
        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("it is only written")
        }
        fn sync_data(&self) -> io::Result<()> {
            unreachable!("it is only written")
        }
    }

    /// What waits for somebody at the other end of a pipe waits for ever.
    #[test]
    #[allow(clippy::disallowed_methods)] // a thread of its own, for what might not end
    fn what_is_no_regular_file_is_refused_and_not_waited_for() {
        use std::os::unix::net::UnixListener;
        let dir = tempfile::tempdir().unwrap();
        let [fifo, socket] = ["fifo", "socket"].map(|name| dir.path().join(name));
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let (told, tells) = std::sync::mpsc::channel();
        let directory = dir.path().to_owned();
        std::thread::spawn(move || {
            let of = |path: &Path| {
                let opened = [Open::Read, Open::Write, Open::Create].map(|how| OsDisk.open(path, how).err());
                let directories = [OsDisk.open_dir(path).err(), OsDisk.lock_dir(path).err()];
                (opened.map(|e| e.map(|e| e.to_string())), directories.map(|e| e.map(|e| e.kind())))
            };
            let made = OsDisk.open(&fifo, Open::CreateNew).unwrap_err().kind();
            let dirs =
                [Open::Read, Open::Write].map(|how| OsDisk.open(&directory, how).err().map(|e| e.kind()));
            told.send((of(&fifo), of(&socket), of(Path::new("/dev/null")), made, dirs)).unwrap();
        });
        let (fifo, socket, device, made, dirs) =
            tells.recv_timeout(std::time::Duration::from_secs(20)).expect("nothing is waited for");
        let is = |what: &str| {
            [const { None::<()> }; 3].map(|_| Some(format!("it is {what}, and no regular file")))
        };
        let not_a_directory = [Some(io::ErrorKind::NotADirectory); 2];
        assert_eq!(fifo, (is("a named pipe"), not_a_directory));
        assert_eq!(socket, (is("a socket"), not_a_directory));
        assert_eq!(device, (is("a device"), not_a_directory));
        assert_eq!(made, io::ErrorKind::AlreadyExists);
        assert_eq!(dirs, [None, Some(io::ErrorKind::IsADirectory)], "as ever");
    }

    #[test]
    fn what_is_not_taken_is_not_written() {
        assert!(write_full_at(&Takes(2), b"hello", 0).is_ok());
        assert!(write_full_at(&Takes(0), b"", 0).is_ok());
        assert_eq!(write_full_at(&Takes(0), b"hello", 0).unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
