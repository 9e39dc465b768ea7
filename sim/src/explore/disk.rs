//! The disk seam over one image: nothing but names. Syncs hand on who asked for them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use broker::disk::{Disk, DiskFile, Entry, Open};

/// The disk, as one run of the broker sees it.
#[derive(Clone, Debug)]
pub struct ImageDisk {
    process: faults::Process,
    boot: Arc<str>,
}

impl ImageDisk {
    /// The disk of this process, on a machine that was started under this name.
    pub fn new(process: faults::Process, boot: Arc<str>) -> Self {
        Self { process, boot }
    }
}

/// An open file of it.
#[derive(Debug)]
pub struct ImageFile(faults::File);

impl Disk for ImageDisk {
    type File = ImageFile;
    type Lock = faults::Lock;

    fn open(&self, path: &Path, open: Open) -> io::Result<ImageFile> {
        let how = match open {
            Open::Read => faults::Open::Read,
            Open::Write => faults::Open::Write,
            Open::Create => faults::Open::Create,
            Open::CreateNew => faults::Open::CreateNew,
        };
        self.process.open(path, how).map(ImageFile)
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
        Some(self.boot.to_string())
    }
}

impl DiskFile for ImageFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buf, position)
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.0.write_at(buf, position)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    #[track_caller]
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
