//! The disk seam in the world: the broker's `Disk` over one process of the simulated disk.
//!
//! It adds nothing but names: what fails, tears and crashes is the business of the crate `faults`. Syncs hand on who
//! called them, so that one place of the broker can be switched off.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::disk::{Disk, DiskFile, Entry, Open};

use super::phase::Phases;
use super::stall::Stalls;

/// The disk, as one run of the broker sees it.
#[derive(Clone, Debug)]
pub struct WorldDisk {
    process: faults::Process,
    phases: Phases,
    stalls: Stalls,
}

impl WorldDisk {
    /// The disk of this process. `phases` is told what the broker seems to be at, `stalls` how often it waits.
    pub fn new(process: faults::Process, phases: Phases, stalls: Stalls) -> Self {
        Self { process, phases, stalls }
    }
}

/// An open file of it.
#[derive(Debug)]
pub struct WorldFile {
    file: faults::File,
    phases: Phases,
    stalls: Stalls,
    is_log: bool,
    /// How far it was written to by this handle.
    end: AtomicU64,
}

fn how(open: Open) -> faults::Open {
    match open {
        Open::Read => faults::Open::Read,
        Open::Write => faults::Open::Write,
        Open::Create => faults::Open::Create,
        Open::CreateNew => faults::Open::CreateNew,
    }
}

impl Disk for WorldDisk {
    type File = WorldFile;
    type Lock = faults::Lock;

    fn open(&self, path: &Path, open: Open) -> io::Result<WorldFile> {
        let is_log = path.extension().is_some_and(|e| e == "log");
        if is_log && open == Open::CreateNew {
            self.phases.log_made();
        }
        let file = self.process.open(path, how(open))?;
        let (phases, stalls) = (self.phases.clone(), self.stalls.clone());
        Ok(WorldFile { file, phases, stalls, is_log, end: AtomicU64::new(0) })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.process.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let entries = self.process.list(dir)?;
        Ok(entries.into_iter().map(|e| Entry { name: e.name, is_dir: e.is_dir }).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.process.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.process.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.process.remove_dir(path)
    }

    #[track_caller]
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.process.sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<faults::Lock> {
        self.process.lock_dir(dir)
    }

    fn boot_id(&self) -> Option<String> {
        Some(self.process.boot_id())
    }
}

impl DiskFile for WorldFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.stalls.read_or_write();
        self.file.read_at(buf, position)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        if self.is_log {
            self.phases.log_written();
            self.end.fetch_max(position + buf.len() as u64, Ordering::Relaxed);
        }
        self.stalls.read_or_write();
        self.file.write_at(buf, position)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    #[track_caller]
    fn sync_data(&self) -> io::Result<()> {
        if self.is_log {
            self.phases.log_synced(self.end.load(Ordering::Relaxed));
        }
        self.file.sync_data()
    }
}
