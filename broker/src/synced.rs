//! What a partition's directory says of its syncs: `synced` notes how far they have come under `os` and `interval`, and in any mode
//! where a damaged log ends; and a log's `.unsynced` that a sync of it has failed. A `synced` that is there and cannot be read has
//! said more than anybody knows: of that partition, nothing counts as never synced then.

use std::cmp::Ordering;
use std::io;
use std::path::Path;

use crate::disk::{self, Disk, DiskFile, Open};
use crate::files::{self, Kind};
use crate::index::{self, ENTRY_BYTES, Entry};
use crate::record::HEADER_BYTES;
use crate::segment::Sealed;
use crate::units::{Offset, Position};

/// Up to where a partition is known to be on the disk. In order: of two, the one that comes further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncedTo {
    /// The base offset of the segment; those before it are synced whole.
    pub segment: Offset,
    /// The byte in it.
    pub bytes: Position,
    /// The offset that follows there, or one behind it: see [`read_unsynced`].
    pub end: Offset,
}

impl SyncedTo {
    /// All of a segment.
    pub fn at_end_of(last: Sealed) -> Self {
        Self { segment: last.base, bytes: Position::new(last.bytes), end: last.end }
    }

    /// As far as the last log was synced at least, where something is left of segments behind it, with these base offsets: one is made when the
    /// segment before it is synced, up to its base. If it could not be made, that one may have grown on. It is believed as long as the `rest` of
    /// the log, behind the record before `end`, has room for those that are missing then; what is empty and far off belongs to nothing.
    pub fn by_roll(
        last: Offset,
        (end, rest): (Offset, u64),
        behind: impl Iterator<Item = Offset>,
    ) -> Option<Self> {
        let has_room = |base: &Offset| base.get().saturating_sub(end.get()) <= rest / HEADER_BYTES as u64;
        let end = behind.filter(|base| *base > last).filter(has_room).max()?;
        Some(Self { segment: last, bytes: Position::ZERO, end })
    }

    /// What two notes say together. One that knows more offsets may know fewer bytes.
    pub fn and(self, other: Self) -> Self {
        let (segment, bytes) = (self.segment, self.bytes).max((other.segment, other.bytes));
        Self { segment, bytes, end: self.end.max(other.end) }
    }

    /// The offset that all records in a segment are before, where it has no more bytes than were synced: what else looks like a
    /// record of it lies in a value.
    pub fn ends(self, base: Offset, len: u64) -> Option<Offset> {
        match self.segment.cmp(&base) {
            Ordering::Greater => Some(self.segment),
            Ordering::Equal => (len <= self.bytes.get()).then_some(self.end),
            Ordering::Less => None,
        }
    }

    /// Whether a byte of this segment lies before it.
    pub fn covers(&self, base: Offset, position: Position) -> bool {
        self.segment > base || (self.segment == base && self.bytes > position)
    }
}

/// What is noted of how far a partition's syncs have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// Nothing: no sync has been noted.
    Nothing,
    /// As far as this.
    To(SyncedTo),
    /// There is a note, and nobody can read it: they may have come as far as anything.
    Lost,
}

/// Bytes of a note: the place and the end, each with a checksum of its own.
const NOTE_BYTES: usize = 2 * ENTRY_BYTES;
/// Where the two notes lie: what is torn of one, or rots, is at most the sector or the page that it lies in.
const SLOTS: [u64; 2] = [0, 4096];

impl SyncedTo {
    fn encode(self) -> Vec<u8> {
        let place = Entry { key: self.segment.get(), value: self.bytes.get() };
        let end = Entry { key: self.end.get(), value: self.bytes.get() };
        index::encode_all(&[place, end])
    }

    /// `None` where it is torn or has rotted: a checksum does not fit, or the two parts do not fit each other.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (place, end) = bytes.split_at_checked(ENTRY_BYTES)?;
        let (place, end) = (Entry::decode(place)?, Entry::decode(end)?);
        let fits = place.value == end.value;
        fits.then(|| Self {
            segment: Offset::new(place.key),
            bytes: Position::new(place.value),
            end: Offset::new(end.key),
        })
    }
}

/// What each slot of `synced` says, as far as it can be read.
fn slots<F: DiskFile>(file: &F) -> [Option<SyncedTo>; 2] {
    SLOTS.map(|at| {
        let mut note = [0; NOTE_BYTES];
        let n = disk::read_full_at(file, &mut note, at).ok()?;
        SyncedTo::decode(&note[..n])
    })
}

/// Notes, durably, up to where a partition is known to be on the disk.
///
/// The file has two slots and appears with both of them written, so that no crash leaves it without a note. From then on each
/// note is written in place, which costs one sync, and over the one that says less. What was synced stays synced: so both are
/// true, the one that says more is the later one, and a crash that tears a note leaves that.
pub fn write_synced<D: Disk>(disk: &D, dir: &Path, to: SyncedTo) -> io::Result<()> {
    let path = dir.join(files::SYNCED);
    let file = match disk.open(&path, Open::Write) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let write = |at: u64, file: &_| disk::write_full_at(file, &to.encode(), at);
            let noted =
                files::replace_with(disk, &path, |file| SLOTS.into_iter().try_for_each(|at| write(at, file)));
            if noted.is_err() {
                // It may have a name that does not last. Then the next one is the first.
                let _ = disk.remove_file(&path);
            }
            return noted;
        }
        file => file?,
    };
    let [first, second] = slots(&file);
    let slot = if first <= second { SLOTS[0] } else { SLOTS[1] };
    disk::write_full_at(&file, &to.encode(), slot)?;
    disk::sync_file(&file)
}

/// What [`write_synced`] noted last. No crash takes both slots, so where neither can be read, that is rot. Earlier brokers wrote the
/// first slot only, where a crash may have torn it; that counts as lost like any other, and the next note is a second slot.
pub fn read_synced<D: Disk>(disk: &D, dir: &Path) -> Noted {
    match disk.open(&dir.join(files::SYNCED), Open::Read) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Noted::Nothing,
        Err(_) => Noted::Lost,
        Ok(file) => slots(&file).into_iter().max().flatten().map_or(Noted::Lost, Noted::To),
    }
}

/// Leaves a mark that a log's sync failed, so that the next recovery writes it anew; and what was durable before: nothing of
/// that is torn off by a crash. Best effort, on a failing disk. The mark need not outlive the machine: the cache that it warns
/// of does not either.
///
/// What has failed the sync may be that there is no room, and then there is none for a mark: a full disk often still makes the
/// file, and refuses what is to be in it. A name needs less room than a file, and an index is derived: the log's own index becomes
/// the mark then. It does for any other error, too, such as too many open files: the name alone is a mark, if one that says nothing.
/// Whoever has the index open still reads entries that lead nowhere, and searches from the segment's beginning.
pub fn write_unsynced<D: Disk>(disk: &D, dir: &Path, base: Offset, durable: Offset) {
    let entry = Entry { key: durable.get(), value: 0 }.encode();
    let path = files::unsynced_path(dir, base);
    let say = |mark: D::File| {
        disk::write_full_at(&mark, &entry, 0)?;
        if mark.len()? > ENTRY_BYTES as u64 { disk::set_len(&mark, ENTRY_BYTES as u64) } else { Ok(()) }
    };
    let _ = disk.open(&path, Open::Create).and_then(say).or_else(|_| {
        disk.rename(&files::segment_path(dir, base, Kind::Index), &path)?;
        say(disk.open(&path, Open::Write)?)
    });
}

/// What the mark says was durable; nothing of the segment, where it says nothing. What is left of an index says nothing, too:
/// only the entry of the segment's first record has the value 0.
pub fn read_unsynced<D: Disk>(disk: &D, dir: &Path, base: Offset) -> SyncedTo {
    let bytes = files::read_small(disk, &files::unsynced_path(dir, base), ENTRY_BYTES as u64);
    let entry = bytes.ok().flatten().and_then(|bytes| Entry::decode(&bytes)).filter(|entry| entry.value == 0);
    let end = entry.map_or(base, |entry| Offset::new(entry.key));
    // How many bytes that were, it does not say.
    SyncedTo { segment: base, bytes: Position::ZERO, end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsDisk;

    fn synced(n: u64) -> SyncedTo {
        SyncedTo { segment: Offset::new(n / 3), bytes: Position::new(30 * n), end: Offset::new(n) }
    }

    #[test]
    fn a_segment_ends_where_it_was_synced_to_if_no_byte_came_since() {
        let to = SyncedTo { segment: Offset::new(10), bytes: Position::new(300), end: Offset::new(17) };
        let ends = |base, len| to.ends(Offset::new(base), len).map(Offset::get);
        assert_eq!([ends(10, 299), ends(10, 300), ends(10, 301)], [Some(17), Some(17), None]);
        // Behind it there was another one, and there may be more behind that.
        assert_eq!([ends(4, 1 << 40), ends(11, 0)], [Some(10), None]);
    }

    #[test]
    fn a_note_of_a_sync_that_is_torn_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::SYNCED);
        let read = || read_synced(&OsDisk, dir.path());
        assert_eq!(read(), Noted::Nothing);
        write_synced(&OsDisk, dir.path(), synced(1)).unwrap();
        for n in 2..6 {
            let before = std::fs::read(&path).unwrap();
            write_synced(&OsDisk, dir.path(), synced(n)).unwrap();
            assert_eq!(read(), Noted::To(synced(n)));
            let after = std::fs::read(&path).unwrap();
            let slot = if n % 2 == 0 { 0 } else { after.len() - NOTE_BYTES };
            for torn in slot..slot + NOTE_BYTES {
                std::fs::write(&path, [&after[..torn], &before[torn..]].concat()).unwrap();
                let says = [n - 1, n].map(|n| Noted::To(synced(n)));
                assert!(says.contains(&read()), "{n}, torn at {torn}: {:?}", read());
            }
            std::fs::write(&path, after).unwrap();
        }
    }

    #[test]
    fn a_note_of_a_sync_of_which_neither_slot_can_be_read_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::SYNCED);
        let (read, note) =
            (|| read_synced(&OsDisk, dir.path()), |n| write_synced(&OsDisk, dir.path(), synced(n)));
        note(1).unwrap();
        note(2).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for byte in 0..NOTE_BYTES {
            let mut rotten = whole.clone();
            rotten[byte] ^= 1;
            std::fs::write(&path, &rotten).unwrap();
            assert_eq!(read(), Noted::To(synced(1)), "byte {byte}");
            rotten[usize::try_from(SLOTS[1]).unwrap() + byte] ^= 1;
            std::fs::write(&path, &rotten).unwrap();
            assert_eq!(read(), Noted::Lost, "byte {byte}");
        }
        // The next note is one again, and so is one over it.
        note(3).unwrap();
        assert_eq!(read(), Noted::To(synced(3)));
        note(4).unwrap();
        assert_eq!(read(), Noted::To(synced(4)));
        for nothing in [&[][..], &[0; NOTE_BYTES], &[0; 2 * NOTE_BYTES]] {
            std::fs::write(&path, nothing).unwrap();
            assert_eq!(read(), Noted::Lost);
        }
    }

    /// As brokers wrote it that knew one slot.
    #[test]
    fn a_note_of_a_sync_in_one_slot_is_read_and_stays_until_there_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::SYNCED);
        std::fs::write(&path, synced(7).encode()).unwrap();
        assert_eq!(read_synced(&OsDisk, dir.path()), Noted::To(synced(7)));
        write_synced(&OsDisk, dir.path(), synced(8)).unwrap();
        assert_eq!(read_synced(&OsDisk, dir.path()), Noted::To(synced(8)));
        assert_eq!(std::fs::read(&path).unwrap()[..NOTE_BYTES], synced(7).encode());
    }

    /// An index may have given its name for the mark, and not have been written over: whatever its entries are, they are not what
    /// was durable.
    #[test]
    fn an_index_in_the_place_of_a_mark_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let base = Offset::new(7);
        let mark = files::unsynced_path(dir.path(), base);
        let read = || read_unsynced(&OsDisk, dir.path(), base).end.get();
        for index in [&[][..], &[(7, 0)], &[(9, 60)], &[(9, 60), (12, 150)]] {
            let entries: Vec<_> = index.iter().map(|&(key, value)| Entry { key, value }).collect();
            std::fs::write(&mark, index::encode_all(&entries)).unwrap();
            assert_eq!(read(), 7, "{index:?}");
        }
        write_unsynced(&OsDisk, dir.path(), base, Offset::new(11));
        assert_eq!(read(), 11);
        assert_eq!(std::fs::read(&mark).unwrap().len(), ENTRY_BYTES);
    }
}
