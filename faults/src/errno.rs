//! The errors a Linux kernel gives, by number, so that `std` maps them to the same `ErrorKind` as on a real disk.

use std::fmt;
use std::io;

/// A Linux error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $number:literal, $what:literal;)*) => {
        impl Errno {
            $(#[doc = $what] pub const $name: Errno = Errno($number);)*

            /// Every error this crate knows by name.
            pub const ALL: &'static [(&'static str, Errno)] = &[$((stringify!($name), Errno::$name)),*];
        }
    };
}

errnos! {
    ENOENT = 2, "No such file or directory.";
    EINTR = 4, "A signal came first; nothing was done.";
    EIO = 5, "The device failed.";
    EBADF = 9, "The descriptor is closed, or not open for this.";
    EAGAIN = 11, "Somebody else holds the lock.";
    EACCES = 13, "Permission denied.";
    EBUSY = 16, "In use.";
    EEXIST = 17, "There is one already.";
    ENOTDIR = 20, "A component of the path is not a directory.";
    EISDIR = 21, "It is a directory.";
    EINVAL = 22, "An argument makes no sense.";
    ENFILE = 23, "The machine has no descriptor left.";
    EMFILE = 24, "The process has no descriptor left.";
    EFBIG = 27, "The file would be larger than a file can be.";
    ENOSPC = 28, "The disk is full.";
    EROFS = 30, "The file system is read-only.";
    ENAMETOOLONG = 36, "A name of more than 255 bytes.";
    ENOTEMPTY = 39, "The directory holds something.";
    EILSEQ = 84, "A name that is not UTF-8.";
    ETIMEDOUT = 110, "The device did not answer.";
    EDQUOT = 122, "The quota is used up.";
}

impl Errno {
    /// The name, where this crate knows it.
    pub fn name(self) -> Option<&'static str> {
        Errno::ALL.iter().find(|(_, errno)| *errno == self).map(|(name, _)| *name)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0)
    }
}
