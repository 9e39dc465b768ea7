//! An open file.

use std::fmt;
use std::io;
use std::panic::Location;
use std::sync::{Arc, Mutex};

use crate::content::{MAX_LEN, SECTOR, ix, pieces};
use crate::errno::Errno;
use crate::event::{Op, Site};
use crate::fault::{Cut, Kind};
use crate::machine::{Call, Life, Machine, dead, find_file};
use crate::node::{FileNode, Ino};
use crate::process::hold;
use crate::state::{Change, Fate};

/// An open file. Positions only: there is no cursor.
pub struct File {
    pub(crate) machine: Arc<Mutex<Machine>>,
    pub(crate) life: Arc<Life>,
    pub(crate) number: u64,
}

impl File {
    /// One operation on what the descriptor stands for.
    pub(crate) fn run<T>(
        &self,
        op: Op,
        (position, len): (u64, u64),
        site: Option<Site>,
        effect: impl FnOnce(&mut Machine, &Call<'_>, bool, Option<&Kind>) -> Result<(T, u64), Errno>,
    ) -> io::Result<T> {
        let mut machine = hold(&self.machine);
        let Some(descriptor) = machine.descriptors.get(&self.number) else {
            return Err(dead(&self.life));
        };
        let (path, ino, writable) = (descriptor.path.clone(), descriptor.ino, descriptor.writable);
        let call = Call { position, len, ino: Some(ino), site, ..Call::new(op, &path) };
        machine.run(&self.life, &call, |machine, kind| effect(machine, &call, writable, kind))
    }

    /// Reads at a byte position. Fewer bytes than asked for are legal; 0 is the end of the file.
    pub fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.run(Op::Read, (position, buf.len() as u64), None, |machine, call, _, kind| {
            let n = read(machine, call, kind, buf)?;
            Ok((n, n as u64))
        })
    }

    /// Writes at a byte position, and extends the file where it ends before. Fewer bytes than given are legal.
    #[track_caller]
    pub fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        let site = Site::from(Location::caller());
        self.run(Op::Write, (position, buf.len() as u64), Some(site), |machine, call, writable, kind| {
            // In the kernel's order: the position is looked at before the descriptor.
            if i64::try_from(position).is_err() {
                return Err(Errno::EINVAL);
            }
            if !writable {
                return Err(Errno::EBADF);
            }
            let n = write(machine, call, kind, buf)?;
            Ok((n, n as u64))
        })
    }

    /// The length in bytes; of a directory, one block.
    pub fn len(&self) -> io::Result<u64> {
        self.run(Op::Len, (0, 0), None, |machine, call, _, _| {
            let len =
                call.ino.and_then(|ino| machine.state.file(ino)).map_or(crate::PAGE, |file| file.seen.len());
            Ok((len, len))
        })
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file off, or extends it with zeros.
    #[track_caller]
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let site = Site::from(Location::caller());
        self.run(Op::SetLen, (0, len), Some(site), |machine, call, writable, _| {
            if i64::try_from(len).is_err() || !writable {
                return Err(Errno::EINVAL);
            }
            if len > MAX_LEN {
                return Err(Errno::EFBIG);
            }
            let ino = call.ino.ok_or(Errno::EBADF)?;
            if machine.state.file(ino).is_some_and(|file| file.seen.len() != len) {
                machine.change(call, Change::SetLen { ino, len });
            }
            Ok(((), 0))
        })
    }

    /// Makes the data and the length durable, as `fdatasync` does; of a directory, its entries.
    #[track_caller]
    pub fn sync_data(&self) -> io::Result<()> {
        let site = Site::from(Location::caller());
        self.run(Op::Sync, (0, 0), Some(site), |machine, call, _, kind| {
            sync(machine, call, kind, site, self.number)?;
            Ok(((), 0))
        })
    }
}

fn read(machine: &mut Machine, call: &Call<'_>, kind: Option<&Kind>, buf: &mut [u8]) -> Result<usize, Errno> {
    let ino = call.ino.ok_or(Errno::EBADF)?;
    if i64::try_from(call.position).is_err() {
        return Err(Errno::EINVAL);
    }
    match kind {
        Some(Kind::BitRot { byte, xor }) => rot(machine, call, ino, call.position + byte, *xor),
        Some(Kind::BadSector { byte }) => {
            let sector = (call.position + byte) / SECTOR;
            machine.change(call, Change::BadSector { ino, sector });
        }
        _ => {}
    }
    let file = machine.state.file(ino).ok_or(Errno::EISDIR)?;
    let limit = match kind {
        Some(Kind::Short { bytes }) => buf.len().min(ix(*bytes)),
        _ => buf.len(),
    };
    let limit = readable(file, call.position, limit)?;
    Ok(file.seen.read(&mut buf[..limit], call.position))
}

/// How many bytes can be read before a sector that cannot.
fn readable(file: &FileNode, position: u64, len: usize) -> Result<usize, Errno> {
    let end = file.seen.len().min(position.saturating_add(len as u64));
    if position >= end {
        return Ok(len);
    }
    let bad = file.bad_sectors.range(position / SECTOR..end.div_ceil(SECTOR)).next();
    match bad {
        None => Ok(len),
        Some(sector) if sector * SECTOR <= position => Err(Errno::EIO),
        Some(sector) => Ok(ix(sector * SECTOR - position)),
    }
}

/// Bits flip in both halves; what is pending stays pending.
fn rot(machine: &mut Machine, call: &Call<'_>, ino: Ino, at: u64, xor: u8) {
    machine.change(call, Change::Rot { ino, at, xor });
}

fn write(machine: &mut Machine, call: &Call<'_>, kind: Option<&Kind>, buf: &[u8]) -> Result<usize, Errno> {
    let ino = call.ino.ok_or(Errno::EBADF)?;
    let position = call.position;
    if buf.is_empty() {
        return Ok(0);
    }
    let room = MAX_LEN.saturating_sub(position).min(buf.len() as u64);
    if room == 0 {
        return Err(Errno::EFBIG);
    }
    let mut len = room;
    match kind {
        Some(Kind::Short { bytes } | Kind::Tear { bytes, .. }) => len = len.min(*bytes),
        Some(Kind::Crash { at: Cut::Bytes(n) } | Kind::PowerLoss { at: Cut::Bytes(n) }) => len = len.min(*n),
        Some(Kind::Full { fits }) => fill_up(machine, ino, position, *fits),
        _ => {}
    }
    if let Some(Kind::Full { fits }) = kind {
        len = len.min(*fits);
    }
    let file = machine.state.file(ino).ok_or(Errno::EISDIR)?;
    len = len.min(fitting(machine, file, position, len));
    if len == 0 {
        return match kind {
            Some(Kind::Short { .. } | Kind::Crash { .. } | Kind::PowerLoss { .. }) => Ok(0),
            Some(Kind::Tear { errno, .. }) => Err(*errno),
            _ => Err(Errno::ENOSPC),
        };
    }
    sectors_readable(file, position, len)?;
    let fate = fate(machine, kind, ino)?;
    let data = buf[..ix(len)].into();
    machine.change(call, Change::Write { ino, position, data, fate });
    match kind {
        Some(Kind::WritebackFailure { errno }) => {
            machine.change(call, Change::DropDirty { ino, errno: *errno, all_but: 0 });
            Ok(ix(len))
        }
        Some(Kind::Tear { errno, .. }) => Err(*errno),
        _ => Ok(ix(len)),
    }
}

fn fate(machine: &Machine, kind: Option<&Kind>, ino: Ino) -> Result<Fate, Errno> {
    Ok(match kind {
        Some(Kind::Torn { kept }) => Fate::Torn { kept: ix(*kept) },
        Some(Kind::Lost) => Fate::Torn { kept: 0 },
        Some(Kind::Misdirected { path, position }) => {
            let ino = match path {
                Some(path) => find_file(&machine.state, path).ok_or(Errno::EIO)?,
                None => ino,
            };
            Fate::Misdirected { ino, position: *position }
        }
        _ => Fate::Arrives,
    })
}

/// How much of a write there is room for.
fn fitting(machine: &Machine, file: &FileNode, position: u64, mut len: u64) -> u64 {
    if let Some(brim) = machine.limits.brim {
        let growth = brim.saturating_sub(machine.state.used_bytes);
        len = len.min((file.seen.len() + growth).saturating_sub(position));
    }
    let Some(free) = machine.free_blocks() else { return len };
    match file.seen.missing_blocks(position, len).nth(ix(free)) {
        None => len,
        Some(page) => len.min((page * crate::PAGE).saturating_sub(position)),
    }
}

/// From here on no file grows, but for the first `fits` bytes of this write.
fn fill_up(machine: &mut Machine, ino: Ino, position: u64, fits: u64) {
    let len = machine.state.file(ino).map_or(0, |file| file.seen.len());
    let growth = position.saturating_add(fits).saturating_sub(len);
    machine.limits.brim = Some(machine.state.used_bytes.saturating_add(growth));
}

/// To write a part of a sector means to read it first.
fn sectors_readable(file: &FileNode, position: u64, len: u64) -> Result<(), Errno> {
    let is_bad = |(sector, _, piece): (u64, u64, u64)| piece < SECTOR && file.bad_sectors.contains(&sector);
    if !file.bad_sectors.is_empty() && pieces(position, len, SECTOR).any(is_bad) {
        Err(Errno::EIO)
    } else {
        Ok(())
    }
}

/// Makes a file's data durable, or a directory's entries, for the descriptor of this number.
pub(crate) fn sync(
    machine: &mut Machine,
    call: &Call<'_>,
    kind: Option<&Kind>,
    site: Site,
    number: u64,
) -> Result<(), Errno> {
    let ino = call.ino.ok_or(Errno::EBADF)?;
    // The device fails whether or not the sync is switched off: else the fault would strike nothing, and what is missed by a test
    // that aimed it would be the fault, and not the sync.
    let fails = matches!(kind, Some(Kind::SyncFailure { .. }));
    if (machine.is_barrier_off(site) && !fails) || kind == Some(&Kind::Lie) {
        return Ok(());
    }
    machine.can_keep(ino)?;
    if machine.state.dir(ino).is_some() {
        machine.change(call, Change::SyncDir { ino });
        return Ok(());
    }
    if let Some(Kind::SyncFailure { errno }) = kind {
        let all_but = machine.state.pending_since(ino, machine.covered_to(ino));
        machine.change(call, Change::DropDirty { ino, errno: *errno, all_but });
    } else {
        machine.sync_file(call, ino);
    }
    machine.tell_error(call, ino, number)
}

impl Machine {
    /// Whether what a sync that begins now covers of a file or a directory can be made durable.
    pub(crate) fn can_keep(&self, ino: Ino) -> Result<(), Errno> {
        let covers = || self.state.is_pending_until(ino, self.covered_to(ino));
        if self.limits.read_only && covers() { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// A writeback error is told to each descriptor once, by its next sync.
    fn tell_error(&mut self, call: &Call<'_>, ino: Ino, number: u64) -> Result<(), Errno> {
        let Some((errors, errno)) =
            self.state.file(ino).and_then(|file| Some((file.errors, file.last_error?)))
        else {
            return Ok(());
        };
        let Some(descriptor) = self.descriptors.get_mut(&number) else { return Ok(()) };
        if descriptor.errors_seen >= errors {
            return Ok(());
        }
        descriptor.errors_seen = errors;
        self.change(call, Change::TellError { ino });
        Err(errno)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        hold(&self.machine).close(self.number);
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("number", &self.number).finish_non_exhaustive()
    }
}
