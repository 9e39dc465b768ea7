//! The names of files and directories, and the one way to replace a file.
//!
//! ```text
//! <data>/clean                          the last run stopped cleanly: see `markers`
//! <data>/was-clean                      the last clean stop, of a run before the last
//! <data>/running                        what the last run was: see `markers`
//! <data>/<topic>/topic                  what the topic was made with: see `topic`
//! <data>/<topic>/<partition>/<base>.log        records          <base>: 20 digits, the offset of the first record
//!                            <base>.index      offset → byte
//!                            <base>.timeindex  time → offset
//!                            <base>.log.aside-<n>   what recovery set aside before it cut a log
//!                            <base>.log.unsynced    a sync of this log failed: recovery copies it
//!                            <base>.log.damaged     a start found damage in this log: each start looks again
//!                            synced                 how far syncs have come: see `markers`
//!                            *.tmp                  a replacement that was not finished
//! <data>/<topic>~new  <topic>~gone   a topic half made, half deleted (no topic's name has a ~)
//! ```
//!
//! Everything else is foreign: it is reported and left alone.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{self, Disk, DiskFile, Open};
use crate::units::Offset;

/// Which of a segment's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The records.
    Log,
    /// Offset → byte position.
    Index,
    /// Timestamp → offset.
    TimeIndex,
}

impl Kind {
    /// The name's ending, with its dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Kind::Log => ".log",
            Kind::Index => ".index",
            Kind::TimeIndex => ".timeindex",
        }
    }
}

/// A topic half made.
pub const NEW_SUFFIX: &str = "~new";
/// A topic half deleted.
/// Short: the longest topic name and this are still a name to a file system.
pub const DELETED_SUFFIX: &str = "~gone";
/// Up to where a partition is known to be synced.
pub const SYNCED: &str = "synced";
/// A replacement that was not finished.
pub const TMP_SUFFIX: &str = ".tmp";

const DIGITS: usize = 20;

/// What a name in a partition's directory means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// One of a segment's files.
    Segment(Offset, Kind),
    /// An unfinished replacement of one of them, a copy to be set aside, or a first note of a sync.
    Tmp,
    /// Set aside by an earlier recovery.
    Aside,
    /// A mark that a sync of this segment's log failed.
    Unsynced(Offset),
    /// A mark that an earlier start found damage in this segment's log.
    Damaged(Offset),
    /// Up to where the partition is known to be synced.
    Synced,
    /// Not ours.
    Foreign,
}

/// `<dir>/<base>.log` and the like.
pub fn segment_path(dir: &Path, base: Offset, kind: Kind) -> PathBuf {
    dir.join(segment_name(base, kind))
}

/// `<base>.log` and the like.
pub fn segment_name(base: Offset, kind: Kind) -> String {
    format!("{:0DIGITS$}{}", base.get(), kind.suffix())
}

/// A segment's file with its path below the data directory: where a server keeps its data is nothing that clients need. Of
/// anything else, the bare name.
pub fn from_topic(path: &Path) -> &Path {
    let name = path.file_name().map(Path::new).unwrap_or(path);
    let is_segment = name.to_str().is_some_and(|name| matches!(parse(name), Name::Segment(..)));
    let above = if is_segment { path.ancestors().nth(3) } else { None };
    above.and_then(|above| path.strip_prefix(above).ok()).unwrap_or(name)
}

/// The mark that a sync of this segment's log failed.
pub fn unsynced_path(dir: &Path, base: Offset) -> PathBuf {
    dir.join(format!("{:0DIGITS$}.log.unsynced", base.get()))
}

/// The mark that a start found damage in this segment's log.
pub fn damaged_path(dir: &Path, base: Offset) -> PathBuf {
    dir.join(format!("{:0DIGITS$}.log.damaged", base.get()))
}

/// A name under which to set bytes of this segment aside.
pub fn aside_path(dir: &Path, base: Offset, n: u32) -> PathBuf {
    dir.join(format!("{:0DIGITS$}.log.aside-{n}", base.get()))
}

/// The number that a partition's directory is named with: `007` and `+7` are not names that a broker gives.
pub fn partition_number(name: &str) -> Option<u32> {
    name.parse::<u32>().ok().filter(|number| number.to_string() == name)
}

/// Reads a name in a partition's directory. Only exact names are ours: `1.log` and `….log.swp` are not.
pub fn parse(name: &str) -> Name {
    if name == SYNCED {
        return Name::Synced;
    }
    if let Some(replaced) = name.strip_suffix(TMP_SUFFIX) {
        return match parse(replaced) {
            Name::Segment(..) | Name::Aside | Name::Synced => Name::Tmp,
            _ => Name::Foreign,
        };
    }
    let Some((digits, suffix)) = name.split_at_checked(DIGITS) else { return Name::Foreign };
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Name::Foreign;
    }
    let base = digits.parse().ok().filter(|base| *base < Offset::MAX.get());
    let Some(base) = base.map(Offset::new) else { return Name::Foreign };
    match suffix {
        ".log" => Name::Segment(base, Kind::Log),
        ".index" => Name::Segment(base, Kind::Index),
        ".timeindex" => Name::Segment(base, Kind::TimeIndex),
        ".log.unsynced" => Name::Unsynced(base),
        ".log.damaged" => Name::Damaged(base),
        _ if suffix.strip_prefix(".log.aside-").is_some_and(|n| n.parse::<u32>().is_ok()) => Name::Aside,
        _ => Name::Foreign,
    }
}

/// The name that a file has until its replacement is complete.
pub fn tmp_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TMP_SUFFIX);
    name.into()
}

/// How much of a file that is copied or compared is in memory at once.
const PIECE_BYTES: usize = 1 << 20;

/// Puts `bytes` under `path`, durably: see [`replace_with`].
#[track_caller]
pub fn replace<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(disk, path, |file| disk::write_full_at(file, bytes, 0))
}

/// Puts what `write` writes under `path`, durably: after a crash at any moment the file holds either what it held or all of
/// that. Written under another name, synced, renamed, directory synced.
#[track_caller]
pub fn replace_with<D: Disk>(
    disk: &D,
    path: &Path,
    write: impl FnOnce(&D::File) -> io::Result<()>,
) -> io::Result<()> {
    let dir = disk.open_dir(path.parent().unwrap_or(Path::new(".")))?;
    let tmp = tmp_path(path);
    let result = (|| {
        let file = create_afresh(disk, &tmp)?;
        write(&file)?;
        disk::sync_file(&file)?;
        disk.rename(&tmp, path)
    })();
    if result.is_err() {
        // Best effort: an unfinished replacement is recognised by its name and does no harm.
        let _ = disk.remove_file(&tmp);
    }
    result?;
    // Not in a closure: whoever replaces a file is a place of its own that syncs.
    disk::sync_dir(disk, &dir)
}

/// Copies what lies from a byte on into an empty file.
pub fn copy<F: DiskFile>(from: &F, mut position: u64, to: &F) -> io::Result<()> {
    let mut piece = vec![0; piece_len(from.len()?.saturating_sub(position))];
    let mut written = 0;
    loop {
        let n = disk::read_full_at(from, &mut piece, position)?;
        if n == 0 {
            return Ok(());
        }
        disk::write_full_at(to, &piece[..n], written)?;
        (position, written) = (position + n as u64, written + n as u64);
    }
}

/// Whether what lies from a byte on is all that the other file holds.
pub fn is_copy<F: DiskFile>(from: &F, position: u64, other: &F) -> io::Result<bool> {
    let len = from.len()?.saturating_sub(position);
    if other.len()? != len {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; piece_len(len)], vec![0; piece_len(len)]);
    let mut done = 0;
    while done < len {
        let n = disk::read_full_at(from, &mut ours, position + done)?;
        let m = disk::read_full_at(other, &mut theirs, done)?;
        if n != m || n == 0 || ours[..n] != theirs[..m] {
            return Ok(false);
        }
        done += n as u64;
    }
    Ok(true)
}

fn piece_len(of: u64) -> usize {
    usize::try_from(of).unwrap_or(usize::MAX).min(PIECE_BYTES)
}

/// An empty file that no other name leads to. What is left of an unfinished replacement is removed and never written to:
/// where power was lost before a rename was durable, some file systems keep both of its names, and the leftover *is* the
/// file that it replaced.
fn create_afresh<D: Disk>(disk: &D, path: &Path) -> io::Result<D::File> {
    match disk.open(path, Open::CreateNew) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove_file(path)?;
            disk.open(path, Open::CreateNew)
        }
        result => result,
    }
}

/// All bytes of a file, if it is there. One that is longer than `limit` is an error (`InvalidData`): no broker has written it.
pub fn read_small<D: Disk>(disk: &D, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let len = file.len()?;
    if len > limit {
        let why = format!("it has {len} bytes, and none that a broker has written has more than {limit}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let n = disk::read_full_at(&file, &mut bytes, 0)?;
    bytes.truncate(n);
    Ok(Some(bytes))
}

/// Likewise, but one that is too long counts as one that is not there.
pub fn read_if_small<D: Disk>(disk: &D, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    match read_small(disk, path, limit) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(None),
        read => read,
    }
}

/// Removes a file; that there is none is no error. Nor is an error where it is gone all the same: a file system may tell one of
/// what it has carried out, and who believed it would count on a file that is not there.
pub fn remove_if_there<D: Disk>(disk: &D, path: &Path) -> io::Result<()> {
    let is_gone = || disk.open(path, Open::Read).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    match disk.remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound || is_gone() => Ok(()),
        result => result,
    }
}

/// Removes a directory and all it holds; that there is none is no error. A link goes, and what it leads to stays: nobody
/// knows what else is there, and whose it is.
pub fn remove_tree<D: Disk>(disk: &D, dir: &Path) -> io::Result<()> {
    remove_tree_unless(disk, dir, &|| false)
}

/// Likewise, and gives up between two files when that is so: a large file takes its time to go, and there can be many.
pub fn remove_tree_unless<D: Disk>(disk: &D, dir: &Path, is_stopping: &dyn Fn() -> bool) -> io::Result<()> {
    if disk.is_link(dir)? {
        tracing::warn!("{} is a link: it is removed, and what it leads to stays", dir.display());
        return remove_if_there(disk, dir);
    }
    let entries = match disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        if is_stopping() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let path = dir.join(&entry.name);
        // A name that is not UTF-8 is shown as one that is not there. The directory is not empty then, and says so.
        if entry.is_dir {
            remove_tree_unless(disk, &path, is_stopping)?
        } else {
            remove_if_there(disk, &path)?
        }
    }
    disk.remove_dir(dir)
}

/// Text lines with a last line that is the CRC-32 of those before it: for small files that are read by people too.
pub fn checked_text(lines: &str) -> String {
    format!("{lines}crc {:08x}\n", crc32fast::hash(lines.as_bytes()))
}

/// The lines of [`checked_text`], if the last one fits them.
pub fn read_checked_text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let body = text.strip_suffix('\n')?;
    let (lines, last) =
        body.rsplit_once('\n').map_or(("", body), |(lines, last)| (&text[..=lines.len()], last));
    let crc = u32::from_str_radix(last.strip_prefix("crc ")?, 16).ok()?;
    (crc == crc32fast::hash(lines.as_bytes())).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsDisk;

    #[test]
    fn clients_are_not_told_where_the_data_lies() {
        let shown = |path: &str| from_topic(Path::new(path)).display().to_string();
        assert_eq!(shown("/srv/data/t/0/00000000000000000078.log"), "t/0/00000000000000000078.log");
        assert_eq!(shown("00000000000000000078.log"), "00000000000000000078.log");
        assert_eq!(shown("/srv/data/t"), "t");
        assert_eq!(shown("/"), "/");
    }

    #[test]
    fn only_exact_names_are_segments() {
        assert_eq!(parse("00000000000000000078.log"), Name::Segment(Offset::new(78), Kind::Log));
        assert_eq!(parse("00000000000000000078.timeindex"), Name::Segment(Offset::new(78), Kind::TimeIndex));
        assert_eq!(parse("00000000000000000000.log.tmp"), Name::Tmp);
        assert_eq!(parse("00000000000000000000.timeindex.tmp"), Name::Tmp);
        assert_eq!(parse("00000000000000000007.log.aside-2"), Name::Aside);
        assert_eq!(parse("00000000000000000007.log.aside-2.tmp"), Name::Tmp);
        assert_eq!((parse("synced"), parse("synced.tmp")), (Name::Synced, Name::Tmp));
        assert_eq!(parse("00000000000000000007.log.unsynced"), Name::Unsynced(Offset::new(7)));
        assert_eq!(parse("00000000000000000007.log.damaged"), Name::Damaged(Offset::new(7)));
        // No record has that offset.
        let last = Offset::new(Offset::MAX.get() - 1);
        assert_eq!(parse(&segment_name(last, Kind::Log)), Name::Segment(last, Kind::Log));
        assert_eq!(parse(&segment_name(Offset::MAX, Kind::Log)), Name::Foreign);
        for foreign in [
            "0.log",
            "foo.log",
            "00000000000000000000.log.swp",
            "00000000000000000000.index.cleaned",
            "00000000000000000000.log.tmp.tmp",
            "00000000000000000000.log.unsynced.tmp",
            "00000000000000000000.tmp",
            "synced.tmp.tmp",
            "99999999999999999999.log",
            "+0000000000000000001.log",
            "lost+found",
            "",
            "000000000000000000é1.log",
        ] {
            assert_eq!(parse(foreign), Name::Foreign, "{foreign}");
        }
    }

    #[test]
    fn checked_text_is_read_back_and_a_changed_byte_is_noticed() {
        for lines in ["", "partitions 3\n", "a\nb\n"] {
            let text = checked_text(lines);
            assert_eq!(read_checked_text(text.as_bytes()), Some(lines));
            for i in 0..text.len() {
                let mut broken = text.clone().into_bytes();
                broken[i] ^= 1;
                assert_eq!(read_checked_text(&broken), None, "{lines:?} byte {i}");
                assert_eq!(read_checked_text(&text.as_bytes()[..i]), None, "{lines:?} cut at {i}");
            }
        }
    }

    #[test]
    fn what_is_copied_is_the_rest_of_the_file_however_long() {
        let dir = tempfile::tempdir().unwrap();
        let (from, path) = (dir.path().join("from"), dir.path().join("to"));
        for (len, position) in
            [(0, 0), (1, 1), (PIECE_BYTES, 1), (2 * PIECE_BYTES + 7, 0), (2 * PIECE_BYTES + 7, 5)]
        {
            let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
            std::fs::write(&from, &bytes).unwrap();
            let log = OsDisk.open(&from, Open::Read).unwrap();
            replace_with(&OsDisk, &path, |to| copy(&log, position as u64, to)).unwrap();
            assert!(std::fs::read(&path).unwrap() == bytes[position..], "{len} from {position}");
            let is_same = |file: &Path| {
                is_copy(&log, position as u64, &OsDisk.open(file, Open::Read).unwrap()).unwrap()
            };
            assert!(is_same(&path));
            if let Some(last) = bytes[position..].len().checked_sub(1) {
                let mut other = bytes[position..].to_vec();
                other[last] ^= 1;
                std::fs::write(&path, &other).unwrap();
                assert!(!is_same(&path), "its last byte is another");
                std::fs::write(&path, &other[..last]).unwrap();
                assert!(!is_same(&path), "it is shorter");
            }
        }
    }

    #[test]
    fn a_leftover_that_is_the_file_itself_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, b"the only copy").unwrap();
        std::fs::hard_link(&path, tmp_path(&path)).unwrap();
        let before = std::fs::File::open(&path).unwrap();
        replace(&OsDisk, &path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::io::read_to_string(before).unwrap(), "the only copy");
    }

    #[test]
    fn a_replaced_file_holds_the_new_bytes_and_leaves_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        replace(&OsDisk, &path, b"a longer first").unwrap();
        replace(&OsDisk, &path, b"second").unwrap();
        assert_eq!(read_small(&OsDisk, &path, 6).unwrap().unwrap(), b"second");
        // It is there, and says nothing: another thing than one that is missing.
        assert_eq!(read_small(&OsDisk, &path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(read_small(&OsDisk, &dir.path().join("y"), 5).unwrap().is_none());
        assert_eq!(OsDisk.list(dir.path()).unwrap().len(), 1);
    }
}
