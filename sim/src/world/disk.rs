//! The disk seam in the world: the broker's `Disk` over one process of the simulated disk.
//!
//! It adds nothing but names: what fails, tears and crashes is the business of the crate `faults`. Changes and syncs hand on
//! who called them, so that one place of the broker can be named, or switched off. In a run, the world watches what is done;
//! the explorer's recoveries are nobody's run, and choose under which start of the machine they happen.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker::disk::{Disk, DiskFile, Entry, Identity, Open};

use super::phase::Phases;
use super::stall::Stalls;

/// The disk, as one run of the broker sees it.
#[derive(Clone, Debug)]
pub struct WorldDisk {
    process: faults::Process,
    watch: Option<(Phases, Stalls)>,
    boot: Option<Arc<str>>,
}

impl WorldDisk {
    /// The disk of this process. `phases` is told what the broker seems to be at, `stalls` how often it waits.
    pub fn new(process: faults::Process, phases: Phases, stalls: Stalls) -> Self {
        Self { process, watch: Some((phases, stalls)), boot: None }
    }

    /// The disk of this process, watched by nobody, on a machine that was started under this name.
    pub fn unwatched(process: faults::Process, boot: Arc<str>) -> Self {
        Self { process, watch: None, boot: Some(boot) }
    }
}

/// An open file of it.
#[derive(Debug)]
pub struct WorldFile {
    file: faults::File,
    watch: Option<Watch>,
}

/// What a watched file tells the world.
#[derive(Debug)]
struct Watch {
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
    type Dir = faults::Dir;
    type Lock = faults::Lock;

    #[track_caller]
    fn open(&self, path: &Path, open: Open) -> io::Result<WorldFile> {
        let is_log = self.watch.is_some() && path.extension().is_some_and(|e| e == "log");
        if let Some((phases, _)) = self.watch.as_ref().filter(|_| is_log && open == Open::CreateNew) {
            phases.log_made();
        }
        let file = self.process.open(path, how(open))?;
        let watch = self.watch.clone();
        let watch = watch.map(|(phases, stalls)| Watch { phases, stalls, is_log, end: AtomicU64::new(0) });
        Ok(WorldFile { file, watch })
    }

    #[track_caller]
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.process.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let entries = self.process.list(dir)?;
        Ok(entries.into_iter().map(|e| Entry { name: e.name, is_dir: e.is_dir }).collect())
    }

    /// There are no links on it.
    fn is_link(&self, _: &Path) -> io::Result<bool> {
        Ok(false)
    }

    /// Nor anything else that would give a directory a second name.
    fn identity(&self, _: &Path) -> io::Result<Option<Identity>> {
        Ok(None)
    }

    fn links(&self, _: &Path) -> io::Result<u64> {
        Ok(1)
    }

    #[track_caller]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.process.rename(from, to)
    }

    #[track_caller]
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.process.remove_file(path)
    }

    #[track_caller]
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.process.remove_dir(path)
    }

    #[track_caller]
    fn open_dir(&self, dir: &Path) -> io::Result<faults::Dir> {
        self.process.open_dir(dir)
    }

    #[track_caller]
    fn sync_dir(&self, dir: &faults::Dir) -> io::Result<()> {
        dir.sync()
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<faults::Lock> {
        self.process.lock_dir(dir)
    }

    fn is_locked(&self, lock: &faults::Lock, dir: &Path) -> io::Result<bool> {
        lock.is_on(dir)
    }

    fn boot_id(&self) -> Option<String> {
        Some(self.boot.as_ref().map_or_else(|| self.process.boot_id(), ToString::to_string))
    }
}

impl DiskFile for WorldFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        if let Some(watch) = &self.watch {
            watch.stalls.read_or_write();
        }
        self.file.read_at(buf, position)
    }

    #[track_caller]
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        if let Some(watch) = &self.watch {
            if watch.is_log {
                watch.phases.log_written();
                watch.end.fetch_max(position + buf.len() as u64, Ordering::Relaxed);
            }
            watch.stalls.read_or_write();
        }
        self.file.write_at(buf, position)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    #[track_caller]
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    #[track_caller]
    fn sync_data(&self) -> io::Result<()> {
        if let Some(watch) = self.watch.as_ref().filter(|watch| watch.is_log) {
            watch.phases.log_synced(watch.end.load(Ordering::Relaxed));
        }
        self.file.sync_data()
    }
}
