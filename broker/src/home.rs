//! The data directory that a broker has locked. Files in it are reached by name, and the name can become another directory's:
//! somebody moves it away while the broker runs, and starts another broker in its place. Then nothing may be read or written by
//! name any more, since it would be the other's.
//!
//! Also, where all threads of a broker can reach it: to take back, once, what its run has said of itself.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::disk::Disk;
use crate::markers;

/// A data directory, locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Home<D: Disk> {
    disk: D,
    data: PathBuf,
    lock: D::Lock,
    is_run_forgotten: Mutex<bool>,
}

impl<D: Disk> Home<D> {
    pub fn new(disk: D, data: PathBuf, lock: D::Lock) -> Self {
        Self { disk, data, lock, is_run_forgotten: Mutex::new(false) }
    }

    /// An error where it no longer has its name.
    pub fn check(&self) -> io::Result<()> {
        match self.disk.is_locked(&self.lock, &self.data) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.lost("another has its name")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(self.lost("it was moved or removed")),
            // Whoever cannot be asked is not doubted: what is done next meets the same trouble.
            Err(_) => Ok(()),
        }
    }

    /// Durably takes back what this run has said of itself. Once is enough.
    pub fn forget_run(&self) -> io::Result<()> {
        let mut is_forgotten = self.is_run_forgotten.lock().unwrap_or_else(|e| e.into_inner());
        if !*is_forgotten {
            markers::forget_run(&self.disk, &self.data)?;
            *is_forgotten = true;
        }
        Ok(())
    }

    fn lost(&self, how: &str) -> io::Error {
        let data = self.data.display();
        io::Error::other(format!(
            "{data} is not the data directory that was opened ({how}): stop the broker, and put it back"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsDisk;

    #[test]
    fn what_could_not_be_taken_back_is_taken_back_the_next_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let lock = OsDisk.lock_dir(dir.path()).expect("nobody else has it");
        let home = Home::new(OsDisk, dir.path().to_owned(), lock);
        let [_, _, running] = markers::MARKERS.map(|name| dir.path().join(name));
        // Which cannot be removed as a file.
        std::fs::create_dir(&running).expect("it is made");
        assert!(home.forget_run().is_err());
        std::fs::remove_dir(&running).expect("it is removed");
        std::fs::write(&running, "").expect("it is written");
        home.forget_run().expect("it can be removed");
        assert!(!running.exists());
    }
}
