//! Files that are written anew, as copies, before they are believed or written to: a log whose last sync has failed, and what another
//! name leads to as well.

use std::io;
use std::path::Path;

use super::{Recovery, name_of};
use crate::disk::{self, Disk, Open};
use crate::files::{self, Kind};
use crate::synced::{self, Noted};
use crate::units::Offset;

impl<D: Disk> Recovery<'_, D> {
    /// After a failed sync the page cache can hold what the disk does not, marked as written. Copying the log writes
    /// it again; only then may it be believed.
    pub(super) fn redo_unsynced(&mut self) -> io::Result<()> {
        if self.told.read_only.is_some() {
            return Ok(());
        }
        for base in self.found.unsynced.clone() {
            let log = self.path(base, Kind::Log);
            match self.disk.open(&log, Open::Read) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                opened => {
                    self.copy_anew(&opened?, &log)?;
                    self.note(format!("{} was copied: its last sync had failed", name_of(&log)));
                }
            }
            // What it says of the syncs before it must outlive it.
            let before = synced::read_unsynced(self.disk, self.told.dir, base);
            let noted = match synced::read_synced(self.disk, self.told.dir) {
                Noted::Nothing => None,
                Noted::To(noted) => Some(noted),
                // It may have said more. What this says does not stand in for that: the mark stays.
                Noted::Lost => continue,
            };
            let both = noted.map_or(before, |noted| noted.and(before));
            if noted.map_or(base, |to| to.end) < before.end
                && let Err(e) = synced::write_synced(self.disk, self.told.dir, both)
            {
                self.note(format!("what is synced could not be noted: {e}"));
                continue;
            }
            // Where the mark comes back, the log is copied once more, and nothing else.
            self.disk.remove_file(&files::unsynced_path(self.told.dir, base))?;
        }
        Ok(())
    }

    /// In a copy of a data directory that was made of links (`cp -al`), and in the one that it was made of, a file that is
    /// written to has two writers. So the last segment's indexes and the note of syncs are copied first, and its log before
    /// it is cut or appended to. A sealed segment never changes: it may be shared.
    pub(super) fn stop_sharing(&mut self, logs: &[Offset]) -> io::Result<()> {
        if self.told.read_only.is_some() {
            return Ok(());
        }
        for kind in [Kind::Index, Kind::TimeIndex] {
            let Some(path) = logs.last().map(|last| self.path(*last, kind)) else { continue };
            match self.own(&path) {
                // It is built anew from the log.
                Err(e) if !disk::is_full(&e) => files::remove_if_there(self.disk, &path)?,
                owned => owned?,
            }
        }
        self.own(&self.told.dir.join(files::SYNCED))
    }

    /// Copies a file that has another name, too: it is about to be written to.
    pub(super) fn own(&mut self, path: &Path) -> io::Result<()> {
        // One that is not there, or cannot be asked for, cannot be written to either, and whoever tries says why.
        let is_shared = || self.disk.links(path).is_ok_and(|names| names > 1);
        if !is_shared() {
            return Ok(());
        }
        let copied = (|| {
            // After a power loss it may be one of our own that it shares the file with: see `files::replace_with`.
            files::remove_if_there(self.disk, &files::tmp_path(path))?;
            if is_shared() { self.copy_anew(&self.disk.open(path, Open::Read)?, path) } else { Ok(()) }
        })();
        let name = name_of(path);
        if copied.is_ok() {
            self.note(format!("{name} was copied: it had another name, too"));
        }
        copied.map_err(|e| {
            let what = "has another name, too (a hard link), under which another broker may write to it, and cannot be copied";
            io::Error::new(e.kind(), format!("{name} {what}: {e}"))
        })
    }

    /// Puts a copy in the place of a file, durably.
    fn copy_anew(&self, file: &D::File, path: &Path) -> io::Result<()> {
        files::replace_with(self.disk, path, |to| files::copy(file, 0, to))
    }
}
