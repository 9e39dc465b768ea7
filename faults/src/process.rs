//! What one run of a program holds of the disk: paths, open files, a lock.

use std::fmt;
use std::io;
use std::panic::Location;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::errno::Errno;
use crate::event::{Death, Op};
use crate::file::File;
use crate::machine::{Call, Descriptor, Life, Machine};
use crate::node::{Ino, Name};
use crate::path::Parsed;
use crate::state::{Change, State};

/// How [`Process::open`] treats a file that is or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading only; `ENOENT` where there is none. Opens directories too.
    Read,
    /// For reading and writing; `ENOENT` where there is none.
    Write,
    /// For reading and writing; made, empty, where there is none.
    Create,
    /// For reading and writing; made, and `EEXIST` where there is one.
    CreateNew,
}

/// What a directory holds under one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, without its directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// One run of a program. Clones are the same run. When it dies, every call fails and changes nothing.
#[derive(Clone)]
pub struct Process {
    pub(crate) machine: Arc<Mutex<Machine>>,
    pub(crate) life: Arc<Life>,
}

/// A directory's lock, held until it is dropped or its process dies.
pub struct Lock {
    machine: Arc<Mutex<Machine>>,
    number: u64,
}

impl Lock {
    /// Whether the directory of this name is the one that is locked. Nothing is done on the disk: no fault strikes.
    pub fn is_on(&self, dir: impl AsRef<Path>) -> io::Result<bool> {
        let path = Parsed::new(dir.as_ref())?;
        let machine = hold(&self.machine);
        Ok(machine.locks.get(&machine.state.lookup(&path)?) == Some(&self.number))
    }
}

/// The machine, even if a test panicked while it held it.
pub(crate) fn hold(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Which run it is, counted from 1 over the life of the disk.
    pub fn id(&self) -> u64 {
        self.life.id
    }

    /// Whether it has died. Any thread may ask; it costs one atomic load.
    pub fn is_dead(&self) -> bool {
        self.life.dead.load(Ordering::Acquire)
    }

    /// How it died.
    pub fn death(&self) -> Option<Death> {
        self.life.death.get().cloned()
    }

    /// Changes whenever the machine starts anew, and only then.
    pub fn boot_id(&self) -> String {
        hold(&self.machine).boot_id()
    }

    /// Opens a file; makes it where `how` says so. Its entry is durable only after [`Process::sync_dir`].
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>, how: Open) -> io::Result<File> {
        let path = Parsed::new(path.as_ref())?;
        let mut machine = hold(&self.machine);
        let making = matches!(how, Open::Create | Open::CreateNew) && is_new(&machine.state, &path);
        let call = Call { making, ..Call::at(Op::Open, path.as_str(), Location::caller()) };
        let number = machine.run(&self.life, &call, |machine, _| {
            machine.has_descriptor_left(self.life.id)?;
            let ino = find_or_make(machine, &call, &path, how)?;
            Ok((machine.open(self.life.id, ino, &path, how != Open::Read), 0))
        })?;
        drop(machine);
        Ok(File { machine: self.machine.clone(), life: self.life.clone(), number })
    }

    /// Makes one directory.
    #[track_caller]
    pub fn create_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let call = Call::at(Op::MakeDir, path.as_str(), Location::caller());
        hold(&self.machine).run(&self.life, &call, |machine, _| {
            let (dir_path, name) = path.split().ok_or(Errno::EEXIST)?;
            let (dir, found) = find_entry(&machine.state, &dir_path, name)?;
            if found.is_some() {
                return Err(Errno::EEXIST);
            }
            if machine.is_full() {
                return Err(Errno::ENOSPC);
            }
            machine.change(&call, Change::MakeDir { dir, name: name.into() });
            Ok(((), 0))
        })
    }

    /// What a directory holds, sorted by name.
    pub fn list(&self, dir: impl AsRef<Path>) -> io::Result<Vec<Entry>> {
        let path = Parsed::new(dir.as_ref())?;
        let call = Call::new(Op::List, path.as_str());
        hold(&self.machine).run(&self.life, &call, |machine, _| {
            machine.has_descriptor_left(self.life.id)?;
            let ino = machine.state.lookup(&path)?;
            let dir = machine.state.dir(ino).ok_or(Errno::ENOTDIR)?;
            let entry = |(name, ino): (&Name, &Ino)| Entry {
                name: name.to_string(),
                is_dir: machine.state.dir(*ino).is_some(),
            };
            let entries: Vec<Entry> = dir.seen.iter().map(entry).collect();
            let count = entries.len() as u64;
            Ok((entries, count))
        })
    }

    /// Gives a file or directory another name, in the place of what had it. Atomic for processes; durable after
    /// `sync_dir` on both directories.
    #[track_caller]
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (Parsed::new(from.as_ref())?, Parsed::new(to.as_ref())?);
        let call = Call { to: Some(to.as_str()), ..Call::at(Op::Rename, from.as_str(), Location::caller()) };
        hold(&self.machine).run(&self.life, &call, |machine, _| {
            let Some((from_entry, to_entry)) = check_rename(&machine.state, &from, &to)? else {
                return Ok(((), 0));
            };
            let replaced = machine.state.dir(to_entry.0).and_then(|dir| dir.seen.get(&to_entry.1).copied());
            machine.change(&call, Change::Rename { from: from_entry, to: to_entry });
            machine.renamed(from.as_str(), to.as_str());
            replaced.into_iter().for_each(|ino| machine.release(ino));
            machine.sweep();
            Ok(((), 0))
        })
    }

    /// Removes a file's name. Whoever has it open can go on reading and writing.
    #[track_caller]
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let call = Call::at(Op::Remove, path.as_str(), Location::caller());
        hold(&self.machine).run(&self.life, &call, |machine, _| {
            let (dir_path, name) = path.split().ok_or(Errno::EISDIR)?;
            let (dir, found) = find_entry(&machine.state, &dir_path, name)?;
            let ino = found.ok_or(Errno::ENOENT)?;
            if machine.state.dir(ino).is_some() {
                return Err(Errno::EISDIR);
            }
            machine.change(&call, Change::Unlink { dir, name: name.into() });
            machine.release(ino);
            machine.sweep();
            Ok(((), 0))
        })
    }

    /// Removes an empty directory.
    #[track_caller]
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = Parsed::new(path.as_ref())?;
        let call = Call::at(Op::RemoveDir, path.as_str(), Location::caller());
        hold(&self.machine).run(&self.life, &call, |machine, _| {
            let (dir_path, name) = path.split().ok_or(Errno::EBUSY)?;
            let (dir, found) = find_entry(&machine.state, &dir_path, name)?;
            let target = machine.state.dir(found.ok_or(Errno::ENOENT)?).ok_or(Errno::ENOTDIR)?;
            if !target.seen.is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            machine.change(&call, Change::Unlink { dir, name: name.into() });
            machine.sweep();
            Ok(((), 0))
        })
    }

    /// Makes a directory's entries durable; of a file, its data.
    #[track_caller]
    pub fn sync_dir(&self, dir: impl AsRef<Path>) -> io::Result<()> {
        self.open_dir(dir)?.sync()
    }

    /// Takes an exclusive lock on a directory (or file), as `flock` does: it ends with the lock's drop or the process,
    /// and writes nothing. `EAGAIN` where somebody holds it, in this process or another.
    pub fn lock_dir(&self, dir: impl AsRef<Path>) -> io::Result<Lock> {
        let path = Parsed::new(dir.as_ref())?;
        let call = Call::new(Op::Lock, path.as_str());
        let number = hold(&self.machine).run(&self.life, &call, |machine, _| {
            machine.has_descriptor_left(self.life.id)?;
            let ino = machine.state.lookup(&path)?;
            if machine.locks.contains_key(&ino) {
                return Err(Errno::EAGAIN);
            }
            let number = machine.open(self.life.id, ino, &path, false);
            machine.locks.insert(ino, number);
            Ok((number, 0))
        })?;
        Ok(Lock { machine: self.machine.clone(), number })
    }
}

/// The directory of an entry, and what it names there.
fn find_entry(state: &State, dir: &Parsed, name: &str) -> Result<(Ino, Option<Ino>), Errno> {
    let ino = state.lookup(dir)?;
    Ok((ino, state.dir(ino).ok_or(Errno::ENOTDIR)?.find(name)?))
}

/// Whether a file can be made under this name: its directory is there, and has none.
fn is_new(state: &State, path: &Parsed) -> bool {
    path.split().is_some_and(|(dir, name)| matches!(find_entry(state, &dir, name), Ok((_, None))))
}

fn find_or_make(machine: &mut Machine, call: &Call<'_>, path: &Parsed, how: Open) -> Result<Ino, Errno> {
    let makes = matches!(how, Open::Create | Open::CreateNew);
    let Some((dir_path, name)) = path.split() else {
        return match how {
            Open::Read => machine.state.lookup(path),
            Open::CreateNew => Err(Errno::EEXIST),
            Open::Write | Open::Create => Err(Errno::EISDIR),
        };
    };
    let (dir, found) = find_entry(&machine.state, &dir_path, name)?;
    match found {
        Some(_) if how == Open::CreateNew => Err(Errno::EEXIST),
        Some(ino) if how != Open::Read && machine.state.dir(ino).is_some() => Err(Errno::EISDIR),
        Some(_) if how != Open::Read && machine.limits.read_only => Err(Errno::EROFS),
        Some(ino) => Ok(ino),
        None if !makes => Err(Errno::ENOENT),
        None if machine.limits.read_only => Err(Errno::EROFS),
        None => {
            let made = machine.change(call, Change::MakeFile { dir, name: name.into() });
            made.ok_or(Errno::EIO)
        }
    }
}

type EntryName = (Ino, Name);

/// The two entries of a rename; none where both names are one file's already, and nothing is to be done.
fn check_rename(state: &State, from: &Parsed, to: &Parsed) -> Result<Option<(EntryName, EntryName)>, Errno> {
    let (Some((from_path, from_name)), Some((to_path, to_name))) = (from.split(), to.split()) else {
        return Err(Errno::EBUSY);
    };
    let from_dir = state.lookup(&from_path)?;
    let from_node = state.dir(from_dir).ok_or(Errno::ENOTDIR)?;
    let to_dir = state.lookup(&to_path)?;
    let to_node = state.dir(to_dir).ok_or(Errno::ENOTDIR)?;
    let source = from_node.find(from_name)?.ok_or(Errno::ENOENT)?;
    let target = to_node.find(to_name)?;
    if state.dir(source).is_some() && state.is_within(to_dir, source) {
        return Err(Errno::EINVAL);
    }
    if let Some(target) = target {
        if source != target && state.is_within(from_dir, target) {
            return Err(Errno::ENOTEMPTY);
        }
        match (state.dir(source), state.dir(target)) {
            _ if source == target => return Ok(None),
            (Some(_), None) => return Err(Errno::ENOTDIR),
            (None, Some(_)) => return Err(Errno::EISDIR),
            (Some(_), Some(target)) if !target.seen.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
    }
    Ok(Some(((from_dir, from_name.into()), (to_dir, to_name.into()))))
}

impl Machine {
    /// A new descriptor.
    pub(crate) fn open(&mut self, owner: u64, ino: Ino, path: &Parsed, writable: bool) -> u64 {
        let number = self.next_descriptor;
        self.next_descriptor += 1;
        // An error that nobody has been told of yet is told to whoever opens the file next.
        let errors_seen = self
            .state
            .file(ino)
            .map_or(0, |file| file.errors - u64::from(!file.error_told && file.errors > 0));
        let path = path.as_str().into();
        let descriptor = Descriptor { ino, writable, owner, path, errors_seen };
        self.descriptors.insert(number, descriptor);
        number
    }

    /// Descriptors follow their files to the new name.
    fn renamed(&mut self, from: &str, to: &str) {
        for descriptor in self.descriptors.values_mut() {
            if let Some(rest) = descriptor.path.strip_prefix(from)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                descriptor.path = format!("{to}{rest}").into();
            }
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("id", &self.life.id).field("dead", &self.is_dead()).finish()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        hold(&self.machine).close(self.number);
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}
