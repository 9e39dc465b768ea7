//! The record, as it lies on disk.
//!
//! Big-endian, a header of 28 bytes, then the key, then the value:
//!
//! | field     | bytes | meaning                                                             |
//! | --------- | ----- | ------------------------------------------------------------------- |
//! | offset    | u64   | position in the partition, from 0, without gaps                     |
//! | size      | u32   | key length + value length                                           |
//! | crc       | u32   | CRC-32 (IEEE) of the 24 other header bytes and the body             |
//! | timestamp | u64   | milliseconds since the Unix epoch, the broker's clock               |
//! | keylen    | u32   | length of the key; [`NO_KEY`] where there is none (not: an empty one) |
//!
//! The CRC covers the header too. Over the body alone, 28 zero bytes would be a valid empty record at offset 0, since
//! the CRC of nothing is 0: a tail that a power loss filled with zeros would grow phantoms.
//!
//! Nothing read from a disk is used as a length before it is checked against a bound: see [`decode`].

use bytes::Bytes;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::units::{Offset, Timestamp};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 28;

/// The key length that says "no key". No real key is that long.
pub const NO_KEY: u32 = u32::MAX;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    offset: U64,
    size: U32,
    crc: U32,
    timestamp: U64,
    keylen: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

/// Where the size lies in the header.
pub(crate) const OFFSET_AT: std::ops::Range<usize> = 0..8;
pub(crate) const SIZE_AT: std::ops::Range<usize> = 8..12;

/// Where the CRC lies in the header, and so what it does not cover.
pub(crate) const CRC_AT: std::ops::Range<usize> = 12..16;

/// A record to be appended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// Chooses the partition. Absent and empty are different keys.
    pub key: Option<Bytes>,
    /// What is stored; may be empty.
    pub value: Bytes,
}

/// A record as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition.
    pub offset: Offset,
    /// When the broker appended it.
    pub timestamp: Timestamp,
    /// The key, if it has one.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Bytes,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The bytes end before the record does.
    #[error("the record needs {needed} bytes and {available} are there")]
    Short {
        /// How many bytes the record has, as far as known.
        needed: u64,
        /// How many there are.
        available: u64,
    },
    /// The size is over the bound.
    #[error("the size {size} is over the bound of {bound}")]
    Size {
        /// The size in the header.
        size: u32,
        /// The bound.
        bound: u32,
    },
    /// The key is longer than the body.
    #[error("the key length {keylen} is over the size {size}")]
    Key {
        /// The key length in the header.
        keylen: u32,
        /// The size in the header.
        size: u32,
    },
    /// The checksum does not fit the bytes.
    #[error("the CRC in the header is {stored:#010x}, that of the bytes {computed:#010x}")]
    Crc {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
}

/// A record that was found valid, still in the bytes it was found in.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Its place in the partition.
    pub offset: Offset,
    /// When the broker appended it.
    pub timestamp: Timestamp,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: &'a [u8],
}

impl RecordRef<'_> {
    /// All bytes of the record, header included.
    pub fn len(&self) -> usize {
        encoded_len(self.key, self.value)
    }

    /// Never: a record has a header at least.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// How many bytes a record with this key and value takes on disk.
pub fn encoded_len(key: Option<&[u8]>, value: &[u8]) -> usize {
    HEADER_BYTES + key.map_or(0, <[u8]>::len) + value.len()
}

/// Adds a record to `out`, without offset, timestamp and CRC, which [`seal`] sets when they are known. The caller has
/// checked that key and value together are at most [`Settings::RECORD_BYTES_MAX`](crate::settings::Settings).
pub fn encode(out: &mut Vec<u8>, key: Option<&[u8]>, value: &[u8]) {
    let keylen = key.map_or(0, <[u8]>::len);
    let narrow = |len: usize| u32::try_from(len).expect("checked by the caller");
    let header = Header {
        offset: U64::ZERO,
        size: U32::new(narrow(keylen + value.len())),
        crc: U32::ZERO,
        timestamp: U64::ZERO,
        keylen: U32::new(key.map_or(NO_KEY, |_| narrow(keylen))),
    };
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(key.unwrap_or_default());
    out.extend_from_slice(value);
}

/// Sets offset, timestamp and CRC of the encoded record that fills `bytes`.
pub fn seal(bytes: &mut [u8], offset: Offset, timestamp: Timestamp) {
    place(bytes, offset, timestamp);
    close(bytes);
}

/// Sets offset and timestamp of the encoded record at the start of `bytes`.
pub(crate) fn place(bytes: &mut [u8], offset: Offset, timestamp: Timestamp) {
    bytes[0..8].copy_from_slice(&offset.get().to_be_bytes());
    bytes[16..24].copy_from_slice(&timestamp.get().to_be_bytes());
}

/// Sets the CRC of the encoded record that fills `bytes`, when everything else is set.
pub(crate) fn close(bytes: &mut [u8]) {
    let crc = checksum(bytes);
    bytes[CRC_AT].copy_from_slice(&crc.to_be_bytes());
}

/// The length in bytes that the header at the start of `bytes` announces, if a header is there and within `bound`.
pub fn announced_len(bytes: &[u8], bound: u32) -> Result<usize, Invalid> {
    let Ok((header, _)) = Header::ref_from_prefix(bytes) else {
        return Err(Invalid::Short { needed: HEADER_BYTES as u64, available: bytes.len() as u64 });
    };
    let (size, keylen) = (header.size.get(), header.keylen.get());
    if size > bound {
        return Err(Invalid::Size { size, bound });
    }
    if keylen != NO_KEY && keylen > size {
        return Err(Invalid::Key { keylen, size });
    }
    Ok(HEADER_BYTES + size as usize)
}

/// The valid record at the start of `bytes`. `bound` is the largest size (key and value) that is believed.
pub fn decode(bytes: &[u8], bound: u32) -> Result<RecordRef<'_>, Invalid> {
    let len = announced_len(bytes, bound)?;
    if bytes.len() < len {
        return Err(Invalid::Short { needed: len as u64, available: bytes.len() as u64 });
    }
    let bytes = &bytes[..len];
    let (header, body) = Header::ref_from_prefix(bytes).expect("announced_len found a header");
    let (stored, computed) = (header.crc.get(), checksum(bytes));
    if stored != computed {
        return Err(Invalid::Crc { stored, computed });
    }
    let keylen = header.keylen.get();
    let (key, value) = match keylen {
        NO_KEY => (None, body),
        _ => {
            let (key, value) = body.split_at(keylen as usize);
            (Some(key), value)
        }
    };
    let timestamp = Timestamp::from_millis(header.timestamp.get());
    Ok(RecordRef { offset: Offset::new(header.offset.get()), timestamp, key, value })
}

/// The offset that the header at the start of `bytes` names, without checking anything.
pub fn claimed_offset(bytes: &[u8]) -> Option<Offset> {
    Some(Offset::new(u64::from_be_bytes(*bytes.first_chunk()?)))
}

/// The size that the header at the start of `bytes` names, without checking anything.
pub(crate) fn claimed_size(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(SIZE_AT)?.first_chunk()?))
}

fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..CRC_AT.start]);
    hasher.update(&record[CRC_AT.end..]);
    hasher.finalize()
}

/// The records that fill `bytes`, which were checked before: their checksums are not computed again. Ends before
/// anything that cannot be a record.
pub fn trusted(mut bytes: &[u8]) -> impl Iterator<Item = RecordRef<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = Header::ref_from_prefix(bytes).ok()?;
        let (body, rest) = rest.split_at_checked(header.size.get() as usize)?;
        let (key, value) = match header.keylen.get() {
            NO_KEY => (None, body),
            keylen => {
                let (key, value) = body.split_at_checked(keylen as usize)?;
                (Some(key), value)
            }
        };
        bytes = rest;
        let timestamp = Timestamp::from_millis(header.timestamp.get());
        Some(RecordRef { offset: Offset::new(header.offset.get()), timestamp, key, value })
    })
}
