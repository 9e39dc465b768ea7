//! Hands on the files while nothing runs: what an operator, a repair tool or a bad cable does to a disk.
//!
//! Everything here is durable at once, and so is what was pending on the file it touches, but where it says otherwise; and where a
//! name is made or taken away, all names in its directory are. No fault strikes it, no capacity limits it and no observer hears of
//! it. Recorded histories have it.

use std::io;
use std::ops::Range;
use std::path::Path;

use crate::content::{Content, MAX_LEN, SECTOR};
use crate::disk::Disk;
use crate::errno::Errno;
use crate::event::Op;
use crate::machine::{Call, Machine};
use crate::node::{Ino, ROOT};
use crate::path::Parsed;
use crate::process::hold;
use crate::state::Change;

impl Disk {
    /// Flips bits of one byte, wherever it lies by now: in the cache, in what is pending, on the medium. What is pending stays
    /// so. `EINVAL` where the file has no such byte, or no bit would flip.
    pub fn corrupt(&self, path: impl AsRef<Path>, at: u64, xor: u8) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        let ino = machine.state.lookup(&path)?;
        let len = machine.state.file(ino).ok_or(Errno::EISDIR)?.seen.len();
        if at >= len || xor == 0 {
            return Err(Errno::EINVAL.into());
        }
        change(&mut machine, &path, Change::Rot { ino, at, xor });
        Ok(())
    }

    /// Puts bytes over what is there, extending the file where they reach beyond its end.
    pub fn overwrite(&self, path: impl AsRef<Path>, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.operate(path.as_ref(), |content| {
            if at.checked_add(bytes.len() as u64).is_none_or(|end| end > MAX_LEN) {
                return Err(Errno::EFBIG);
            }
            content.write(at, bytes);
            Ok(at..at + bytes.len() as u64)
        })
    }

    /// Makes a range zeros, extending the file where it reaches beyond its end.
    pub fn zero(&self, path: impl AsRef<Path>, at: u64, len: u64) -> io::Result<()> {
        self.operate(path.as_ref(), |content| {
            let end = at.checked_add(len).filter(|end| *end <= MAX_LEN).ok_or(Errno::EFBIG)?;
            if end > content.len() {
                content.set_len(end);
            }
            content.zero(at, len);
            Ok(at..end)
        })
    }

    /// Cuts a file off, or extends it with zeros.
    pub fn truncate(&self, path: impl AsRef<Path>, len: u64) -> io::Result<()> {
        self.operate(path.as_ref(), |content| {
            if len > MAX_LEN {
                return Err(Errno::EFBIG);
            }
            let before = content.len();
            content.set_len(len);
            Ok(before..len.max(before))
        })
    }

    /// Makes a file with these bytes, in the place of what was there; makes the directories above it.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        let (parents, name) = path.split().ok_or(Errno::EISDIR)?;
        let dir = make_dirs(&mut machine, &parents)?;
        let there = machine.state.dir(dir).and_then(|dir| dir.seen.get(name).copied());
        let ino = match there {
            Some(ino) => ino,
            None => add(&mut machine, dir, Change::MakeFile { dir, name: name.into() })?,
        };
        machine.state.file(ino).ok_or(Errno::EISDIR)?;
        let mut content = Content::default();
        content.write(0, bytes);
        change(&mut machine, &path, Change::Rewrite { ino, content, written: 0..bytes.len() as u64 });
        Ok(())
    }

    /// Makes a directory, and those above it. `EEXIST` where there is something of its name.
    pub fn make_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        if machine.state.lookup(&path).is_ok() {
            return Err(Errno::EEXIST.into());
        }
        make_dirs(&mut machine, &path)?;
        Ok(())
    }

    /// Removes a file, or a directory with all that is in it.
    pub fn delete(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        let ino = machine.state.lookup(&path)?;
        let (parent, name) = path.split().ok_or(Errno::EBUSY)?;
        let dir = machine.state.lookup(&parent)?;
        remove(&mut machine, dir, name, ino);
        Ok(())
    }

    /// The sector of this byte cannot be read from now on, until all of it is written.
    pub fn make_unreadable(&self, path: impl AsRef<Path>, at: u64) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        let ino = machine.state.lookup(&path)?;
        let len = machine.state.file(ino).ok_or(Errno::EISDIR)?.seen.len();
        if at >= len {
            return Err(Errno::EINVAL.into());
        }
        change(&mut machine, &path, Change::BadSector { ino, sector: at / SECTOR });
        Ok(())
    }

    /// Every sector can be read again, with what is in it: the cause was a cable, and not the disk.
    pub fn mend_sectors(&self) {
        let mut machine = hold(&self.machine);
        if machine.state.files().any(|(_, file)| !file.bad_sectors.is_empty()) {
            change(&mut machine, &Parsed::root(), Change::MendSectors);
        }
    }

    /// `edit` gives which bytes it has written.
    fn operate(
        &self,
        path: &Path,
        edit: impl FnOnce(&mut Content) -> Result<Range<u64>, Errno>,
    ) -> io::Result<()> {
        let path = Parsed::new(path)?;
        let mut machine = hold(&self.machine);
        let ino = machine.state.lookup(&path)?;
        let mut content = machine.state.file(ino).ok_or(Errno::EISDIR)?.seen.clone();
        let written = edit(&mut content)?;
        change(&mut machine, &path, Change::Rewrite { ino, content, written });
        Ok(())
    }
}

fn change(machine: &mut Machine, path: &Parsed, change: Change) -> Option<Ino> {
    machine.change(&Call::new(Op::Write, path.as_str()), change)
}

/// Adds an inode to a directory, durably.
fn add(machine: &mut Machine, dir: Ino, make: Change) -> Result<Ino, Errno> {
    let root = Parsed::root();
    let made = change(machine, &root, make).ok_or(Errno::ENOTDIR)?;
    change(machine, &root, Change::SettleDir { ino: dir });
    Ok(made)
}

fn make_dirs(machine: &mut Machine, path: &Parsed) -> Result<Ino, Errno> {
    let mut dir = ROOT;
    for name in path.names() {
        let there = machine.state.dir(dir).ok_or(Errno::ENOTDIR)?.seen.get(name).copied();
        dir = match there {
            Some(ino) => ino,
            None => add(machine, dir, Change::MakeDir { dir, name: name.into() })?,
        };
    }
    Ok(dir)
}

fn remove(machine: &mut Machine, dir: Ino, name: &str, ino: Ino) {
    let below: Vec<_> = machine
        .state
        .dir(ino)
        .into_iter()
        .flat_map(|dir| dir.seen.iter().map(|(n, i)| (n.clone(), *i)))
        .collect();
    for (child_name, child) in below {
        remove(machine, ino, &child_name, child);
    }
    let root = Parsed::root();
    change(machine, &root, Change::Unlink { dir, name: name.into() });
    change(machine, &root, Change::SettleDir { ino: dir });
    machine.release(ino);
}
