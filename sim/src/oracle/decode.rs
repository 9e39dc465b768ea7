//! The oracle's own reading of the files, written from the tables of the format and sharing no line with the broker: a
//! bug in the broker's record or index code cannot hide itself here.
//!
//! A log is records without anything between them, big-endian:
//!
//! ```text
//! 0        8      12     16          24       28
//! offset   size   crc    timestamp   keylen   key, value      keylen 0xffffffff: no key
//! ```
//!
//! `crc` is the CRC-32 (IEEE) of all other bytes of the record. An index is entries of 20 bytes: two `u64` and the CRC-32
//! of those 16 bytes. `.index`: offset, position. `.timeindex`: timestamp, offset.

use crate::trace::Image;

/// Bytes of a record before its key.
pub const HEADER: usize = 28;
const NO_KEY: u32 = u32::MAX;
/// No record has more bytes behind its header.
const LONGEST: u32 = 1 << 26;
/// Bytes of an index entry.
pub const ENTRY: usize = 20;

/// A valid record, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Byte position in the log.
    pub position: u64,
    /// Bytes, header included.
    pub len: u64,
    /// Its offset.
    pub offset: u64,
    /// Its timestamp.
    pub timestamp: u64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: &'a [u8],
}

/// A stretch of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A valid record.
    Record(Stored<'a>),
    /// Bytes that are no record, with a record behind them or not.
    Bad {
        /// Where they begin.
        position: u64,
        /// How many.
        len: u64,
    },
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The valid record that begins at byte `at`.
pub fn record_at(log: &[u8], at: usize) -> Option<Stored<'_>> {
    let bytes = log.get(at..)?;
    let (size, keylen) = (u32_at(bytes, 8)?, u32_at(bytes, 24)?);
    let record = bytes.get(..HEADER.checked_add(usize::try_from(size).ok()?)?)?;
    let key_bytes = match keylen {
        NO_KEY => 0,
        n if n > size => return None,
        n => usize::try_from(n).ok()?,
    };
    let mut crc = crc32fast::Hasher::new();
    crc.update(&record[..12]);
    crc.update(&record[16..]);
    if crc.finalize() != u32_at(bytes, 12)? {
        return None;
    }
    let (key, value) = record[HEADER..].split_at(key_bytes);
    Some(Stored {
        position: at as u64,
        len: record.len() as u64,
        offset: u64_at(bytes, 0)?,
        timestamp: u64_at(bytes, 16)?,
        key: (keylen != NO_KEY).then_some(key),
        value,
    })
}

/// All pieces of a log whose first record should have the offset `base`. Behind bad bytes, the next valid record whose
/// offset can stand there is looked for byte by byte; where a broken record says itself where it ends, only from there on, since
/// its value may hold records.
pub fn log(bytes: &[u8], base: u64) -> Vec<Piece<'_>> {
    pieces(bytes, base, None)
}

/// The same. `ends`: where the next segment begins; no record from there on is one of this log.
fn pieces(bytes: &[u8], base: u64, ends: Option<u64>) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut at, mut next, mut bad_from) = (0, base, None);
    // Where a record of which offset has to begin.
    let mut due = (0, base);
    while at < bytes.len() {
        // Right behind a record only the next offset is believed; behind a hole any later one.
        let found = record_at(bytes, at).filter(|r| match bad_from {
            None => r.offset == next,
            Some(from) => {
                let room = (at - from) as u64 / HEADER as u64;
                r.offset >= next && r.offset <= next + room && ends.is_none_or(|ends| r.offset < ends)
            }
        });
        match found {
            Some(record) => {
                if let Some(from) = bad_from.take() {
                    pieces.push(Piece::Bad { position: from as u64, len: (at - from) as u64 });
                }
                pieces.push(Piece::Record(record));
                at += usize::try_from(record.len).unwrap_or(usize::MAX);
                next = record.offset + 1;
                due = (at, next);
            }
            None if due.0 == at => {
                bad_from.get_or_insert(at);
                let end = end_of_broken(bytes, at, due.1);
                at = end.unwrap_or(at + 1);
                due = (end.unwrap_or(usize::MAX), due.1 + 1);
            }
            // What lies in a record that is in the wrong place is its own.
            None => at += record_at(bytes, at).map_or(1, |r| usize::try_from(r.len).unwrap_or(1)),
        }
    }
    if let Some(from) = bad_from {
        pieces.push(Piece::Bad { position: from as u64, len: (bytes.len() - from) as u64 });
    }
    pieces
}

/// Where a broken record ends, as its header says: that names its offset and a length that leads to the next header or to the
/// end of the log, or it is right but for its length or its offset, or its write was interrupted.
fn end_of_broken(log: &[u8], at: usize, offset: u64) -> Option<usize> {
    let (named, size) = (u64_at(&log[at..], 0)?, u32_at(&log[at..], 8)?);
    let end = (at + HEADER).checked_add(usize::try_from(size).ok()?)?;
    let next = |from: &usize| u64_at(&log[*from..], 0) == Some(offset + 1);
    if named != offset {
        return (end <= log.len() && has_sum(log, at, end, offset)).then_some(end);
    } else if end == log.len() || (end < log.len() && next(&end)) {
        return Some(end);
    }
    let ends = |from: &usize| next(from) && has_sum(log, at, *from, offset);
    let ends_with_log = || {
        (at + HEADER..log.len())
            .any(|at| record_at(log, at).is_some_and(|r| r.position + r.len == log.len() as u64))
    };
    let keylen = u32_at(&log[at..], 24)?;
    let is_odd = size > LONGEST || (keylen > size && keylen != NO_KEY) || log[at + 16..at + 18] != [0, 0];
    let torn = || (!is_odd && end > log.len() && !ends_with_log()).then_some(log.len());
    (at + HEADER..log.len()).find(ends).or_else(torn)
}

/// Whether the checksum of the record at `at` is right if it has this offset and ends at `end`.
fn has_sum(log: &[u8], at: usize, end: usize, offset: u64) -> bool {
    let Ok(size) = u32::try_from(end - at - HEADER) else { return false };
    let mut crc = crc32fast::Hasher::new();
    crc.update(&offset.to_be_bytes());
    crc.update(&size.to_be_bytes());
    crc.update(&log[at + 16..end]);
    Some(crc.finalize()) == u32_at(&log[at..], 12)
}

/// Whether a valid record lies between these bytes, as one in a value does: whether it is of this log, nobody can tell.
pub fn holds_a_record(log: &[u8], from: u64, to: u64) -> bool {
    records_between(log, from, to).next().is_some()
}

/// The valid records that begin between these bytes, in one another, too.
pub fn records_between(log: &[u8], from: u64, to: u64) -> impl Iterator<Item = Stored<'_>> {
    (from..to).filter_map(|at| record_at(log, usize::try_from(at).ok()?))
}

/// An index entry: `(offset, position)` or `(timestamp, offset)`; `None` where its CRC does not fit.
pub fn entries(bytes: &[u8]) -> Vec<Option<(u64, u64)>> {
    let entry = |e: &[u8]| {
        let fits = crc32fast::hash(&e[..16]) == u32_at(e, 16)?;
        fits.then(|| Some((u64_at(e, 0)?, u64_at(e, 8)?)))?
    };
    bytes.chunks_exact(ENTRY).map(entry).collect()
}

/// How many bytes a record takes.
pub fn record_bytes(key: Option<&[u8]>, value: &[u8]) -> u64 {
    (HEADER + key.map_or(0, <[u8]>::len) + value.len()) as u64
}

/// A record's bytes, for scenarios that write one into a log themselves.
pub fn record(offset: u64, timestamp: u64, key: Option<&[u8]>, value: &[u8]) -> Vec<u8> {
    let key_bytes = key.unwrap_or_default();
    let length = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = Vec::with_capacity(HEADER + key_bytes.len() + value.len());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length(key_bytes.len() + value.len()));
    bytes.extend([0; 4]);
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend(key.map_or(NO_KEY.to_be_bytes(), |key| length(key.len())));
    bytes.extend(key_bytes);
    bytes.extend(value);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..12]);
    crc.update(&bytes[16..]);
    bytes[12..16].copy_from_slice(&crc.finalize().to_be_bytes());
    bytes
}

/// An index entry's bytes, likewise.
pub fn entry(first: u64, second: u64) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..16].copy_from_slice(&second.to_be_bytes());
    let crc = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

/// One segment's files in an image.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The path of the log without its ending.
    pub stem: &'a str,
    /// The offset in its name.
    pub base: u64,
    /// The next one's, if there is one.
    pub next: Option<u64>,
    /// The log.
    pub log: &'a [u8],
    /// The index, where it is there.
    pub index: Option<&'a [u8]>,
    /// The time index, where it is there.
    pub timeindex: Option<&'a [u8]>,
}

impl<'a> Segment<'a> {
    /// All pieces of its log.
    pub fn pieces(&self) -> Vec<Piece<'a>> {
        pieces(self.log, self.base, self.next)
    }
}

/// The segments of one partition, ascending.
pub fn segments<'a>(image: &'a Image, topic: &str, partition: u32) -> Vec<Segment<'a>> {
    let dir = format!("{topic}/{partition}/");
    let first = image.0.partition_point(|f| f.path.as_ref() < dir.as_str());
    let files = image.0[first..].iter().take_while(|f| f.path.starts_with(&dir));
    let mut segments: Vec<Segment<'_>> = Vec::new();
    for file in files {
        let Some(stem) = file.path.strip_suffix(".log") else { continue };
        let Some(base) = base_offset(&stem[dir.len()..]) else { continue };
        let beside = |ending: &str| image.get(&format!("{stem}{ending}")).map(|b| &b[..]);
        let (index, timeindex) = (beside(".index"), beside(".timeindex"));
        segments.push(Segment { stem, base, next: None, log: &file.bytes, index, timeindex });
    }
    for i in 1..segments.len() {
        segments[i - 1].next = Some(segments[i].base);
    }
    segments
}

/// The offset that a segment's file name says: exactly 20 digits.
pub fn base_offset(name: &str) -> Option<u64> {
    (name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit())).then(|| name.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<u8> {
        record(0, 5, Some(b"user-1"), b"hello")
    }

    #[test]
    fn reads_a_record_and_the_bad_bytes_behind_it() {
        let mut bytes = example();
        bytes.extend([0; 40]);
        let pieces = log(&bytes, 0);
        let Piece::Record(r) = pieces[0] else { panic!("no record: {pieces:?}") };
        assert_eq!((r.offset, r.len, r.timestamp), (0, 39, 5));
        assert_eq!((r.key, r.value), (Some(&b"user-1"[..]), &b"hello"[..]));
        assert_eq!(pieces[1..], [Piece::Bad { position: 39, len: 40 }]);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let good = example();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(record_at(&bytes, 0), None, "bit {bit}");
        }
    }

    /// The first says where it ends, and the next where it does, beyond the end of a log that does not end with a good record.
    #[test]
    fn from_one_broken_record_to_the_next_each_is_asked_where_it_ends() {
        let records = [&b"one"[..], b"two", b"three"].into_iter().zip(0..);
        let mut bytes: Vec<u8> = records.flat_map(|(value, offset)| record(offset, 5, None, value)).collect();
        bytes.pop();
        bytes[20] ^= 1;
        bytes[31 + 9] = 1;
        bytes[31 + 20] ^= 1;
        assert_eq!(log(&bytes, 0), [Piece::Bad { position: 0, len: bytes.len() as u64 }]);
    }

    /// As a client sends that copies a log.
    #[test]
    fn records_in_the_value_of_a_broken_record_are_not_taken_for_others() {
        let inner = [record(2, 5, None, b"inner"), record(3, 5, None, b"inner")].concat();
        let copied = [&inner, &b"behind"[..]].concat();
        let records = [&b"a"[..], &copied, b"c"].into_iter().zip(0..);
        let whole: Vec<u8> = records.flat_map(|(value, offset)| record(offset, 5, None, value)).collect();
        let (at, end) = (HEADER + 1, whole.len() - HEADER - 1);
        for bit in at * 8..end * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let pieces = log(&bytes, 0);
            assert_eq!(pieces[1], Piece::Bad { position: at as u64, len: (end - at) as u64 }, "bit {bit}");
            assert!(matches!(pieces[2], Piece::Record(last) if last.offset == 2), "bit {bit}: {pieces:?}");
        }
        for cut in at + HEADER..end {
            let is_after_one = [1, 2].iter().any(|n| at + HEADER + n * (HEADER + 5) == cut);
            let torn = log(&whole[..cut], 0);
            assert!(is_after_one || matches!(torn[1..], [Piece::Bad { .. }]), "cut at {cut}: {torn:?}");
        }
    }

    #[test]
    fn agrees_with_the_broker_on_what_it_writes() {
        let mut bytes = Vec::new();
        broker::record::encode(&mut bytes, Some(b"user-1"), b"hello");
        broker::record::seal(
            &mut bytes,
            broker::units::Offset::ZERO,
            broker::units::Timestamp::from_millis(5),
        );
        assert_eq!(bytes, example());
    }
}
