//! Consume answers, written straight from the log's bytes, and read without a copy of keys and values.

use bytes::Bytes;
use prost::{DecodeError, Message};

use super::cursor::Cursor;
use super::head::Head;
use super::proto;
use super::{field_len, number_len, put_field, put_number, put_prefix, put_tagged};
use crate::record::{self, Record, RecordRef};
use crate::units::{Offset, Timestamp};

/// Protobuf tags: field number, and that a length follows (2) or a number (0).
const RESPONSE_CONSUME: u8 = 2 << 3 | 2;
pub(super) const RECORD: u8 = 1 << 3 | 2;
const LOG_START: u8 = 2 << 3;
const LOG_END: u8 = 3 << 3;
pub(super) const RECORD_OFFSET: u8 = 1 << 3;
pub(super) const RECORD_TIMESTAMP: u8 = 2 << 3;
const RECORD_KEY: u8 = 3;
pub(super) const RECORD_VALUE: u8 = 4;

/// Writes a frame with a consume answer, piece by piece, so that a large one can be sent while it is written.
#[derive(Debug)]
pub struct ConsumeEncoder<'a> {
    /// Whole records that were checked when they were read.
    log: &'a [u8],
    log_start: Offset,
    log_end: Offset,
    head: Head,
}

impl<'a> ConsumeEncoder<'a> {
    /// Adds the beginning of the frame to `out`. `log` is whole records that were checked when they were read.
    pub fn begin(out: &mut Vec<u8>, log: &'a [u8], log_start: Offset, log_end: Offset) -> Self {
        let mut head = Head::default();
        let len = |found: RecordRef<'_>| match head.fits(&found) {
            true => head.len() + found.value.len(),
            false => field_len(record_len(&found)),
        };
        let records_len: usize = record::trusted(log).map(len).sum();
        let body = records_len + number_len(log_start.get()) + number_len(log_end.get());
        put_prefix(out, field_len(body));
        put_tagged(out, RESPONSE_CONSUME, body as u64);
        Self { log, log_start, log_end, head }
    }

    /// Goes on until `out` has this many bytes. `true`: the frame is complete.
    pub fn go_on(&mut self, out: &mut Vec<u8>, bytes: usize) -> bool {
        out.reserve(bytes.min(2 * self.log.len()).saturating_sub(out.len()) + READ_AHEAD);
        let mut records = record::trusted(self.log);
        while out.len() < bytes {
            let Some(found) = records.next() else {
                self.log = &[];
                put_number(out, LOG_START, self.log_start.get());
                put_number(out, LOG_END, self.log_end.get());
                return true;
            };
            if self.head.fits(&found) {
                self.head.put(out, found.offset);
                out.extend_from_slice(found.value);
            } else {
                put_record(out, &found);
            }
            self.log = &self.log[found.len()..];
        }
        false
    }
}

/// Room for a record over the bound of a piece.
const READ_AHEAD: usize = 4 << 10;

fn put_record(out: &mut Vec<u8>, found: &RecordRef<'_>) {
    put_tagged(out, RECORD, record_len(found) as u64);
    put_number(out, RECORD_OFFSET, found.offset.get());
    put_number(out, RECORD_TIMESTAMP, found.timestamp.get());
    if let Some(key) = found.key {
        put_field(out, RECORD_KEY, key);
    }
    if !found.value.is_empty() {
        put_field(out, RECORD_VALUE, found.value);
    }
}

pub(super) fn record_len(found: &RecordRef<'_>) -> usize {
    number_len(found.offset.get())
        + number_len(found.timestamp.get())
        + found.key.map_or(0, |key| field_len(key.len()))
        + if found.value.is_empty() { 0 } else { field_len(found.value.len()) }
}

/// A consume answer whose records are still in its message.
#[derive(Clone, Debug)]
pub struct ConsumeAnswer {
    message: Bytes,
    records: Vec<std::ops::Range<u32>>,
    /// The first offset that can be read.
    pub log_start: Offset,
    /// The offset after the last that can be read.
    pub log_end: Offset,
}

/// Finds the records of a plain consume answer while it comes in.
#[derive(Debug, Default)]
pub struct ConsumeFinder {
    /// Where the next field begins.
    at: usize,
    records: Vec<std::ops::Range<u32>>,
}

impl ConsumeFinder {
    /// Goes on over what has come of the message, from its start, up to the first field that is not whole.
    pub fn go_on(&mut self, come: &[u8]) {
        let mut at = Cursor { bytes: come, at: self.at };
        if self.at == 0 {
            if at.tag(RESPONSE_CONSUME).is_none() || at.varint().is_none() {
                return;
            }
            self.at = at.at;
        }
        while at.tag(RECORD).is_some()
            && let Some(record) = at.content()
            && let (Ok(start), Ok(end)) = (u32::try_from(record.start), u32::try_from(record.end))
        {
            self.records.push(start..end);
            self.at = at.at;
        }
    }

    /// The answer, when its message is whole. `None` where that is anything but a plain consume answer.
    pub fn finish(mut self, message: &Bytes) -> Option<ConsumeAnswer> {
        let mut head = Cursor::new(message);
        head.tag(RESPONSE_CONSUME)?;
        let body = head.content()?;
        (body.end == message.len()).then_some(())?;
        self.go_on(message);
        let mut at = Cursor { bytes: message, at: self.at };
        let (log_start, log_end) = (at.number(LOG_START)?, at.number(LOG_END)?);
        (at.at == message.len()).then_some(())?;
        let (log_start, log_end) = (Offset::new(log_start), Offset::new(log_end));
        Some(ConsumeAnswer { message: message.clone(), records: self.records, log_start, log_end })
    }
}

impl ConsumeAnswer {
    /// Finds the records in a plain consume answer. `None` where `message` is anything else.
    pub fn find(message: &Bytes) -> Option<Self> {
        ConsumeFinder::default().finish(message)
    }

    /// How many records.
    pub fn count(&self) -> u64 {
        self.records.len() as u64
    }

    /// The records.
    pub fn records(&self) -> impl Iterator<Item = Result<Record, DecodeError>> + '_ {
        self.records.iter().map(|at| {
            let at = at.start as usize..at.end as usize;
            match self.record(at.clone()) {
                Some(record) => Ok(record),
                None => proto::Record::decode(self.message.slice(at)).map(Record::from),
            }
        })
    }

    /// A plain record.
    fn record(&self, at: std::ops::Range<usize>) -> Option<Record> {
        let mut record = Cursor { bytes: &self.message[..at.end], at: at.start };
        let offset = record.number(RECORD_OFFSET)?;
        let timestamp = record.number(RECORD_TIMESTAMP)?;
        let mut field = |number: u8| match record.tag(number << 3 | 2) {
            Some(()) => record.content().map(Some),
            None => Some(None),
        };
        let (key, value) = (field(RECORD_KEY)?, field(RECORD_VALUE)?);
        (record.at == at.end).then_some(())?;
        Some(Record {
            offset: Offset::new(offset),
            timestamp: Timestamp::from_millis(timestamp),
            key: key.map(|key| self.message.slice(key)),
            value: value.map(|value| self.message.slice(value)).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Timestamp;
    use crate::wire::PREFIX_BYTES;
    use crate::wire::proto::response;
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    fn record() -> impl Strategy<Value = proto::Record> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        let number = || prop_oneof![Just(0), 0..300u64, any::<u64>()];
        (number(), number(), proptest::option::of(bytes()), bytes())
            .prop_map(|(offset, timestamp_ms, key, value)| proto::Record { offset, timestamp_ms, key, value })
    }

    proptest! {
        #[test]
        fn an_answer_is_encoded_as_prost_encodes_it(
            records in proptest::collection::vec(record(), 0..5),
            (log_start_offset, log_end_offset) in (0..2000u64, any::<u64>()),
            (mut piece, step) in (1..2000usize, 1..300usize),
        ) {
            let mut log = Vec::new();
            for r in &records {
                let start = log.len();
                record::encode(&mut log, r.key.as_deref(), &r.value);
                record::seal(&mut log[start..], Offset::new(r.offset), Timestamp::from_millis(r.timestamp_ms));
            }
            let mut frame = Vec::new();
            let (start, end) = (Offset::new(log_start_offset), Offset::new(log_end_offset));
            let mut encoder = ConsumeEncoder::begin(&mut frame, &log, start, end);
            while !encoder.go_on(&mut frame, piece) {
                piece += piece;
            }

            let consumed = proto::ConsumeResponse { records: records.clone(), log_start_offset, log_end_offset };
            let message = proto::Response::from(proto::response::Kind::Consume(consumed)).encode_to_vec();
            prop_assert_eq!(frame[..PREFIX_BYTES].iter().fold(0, |n, &b| n << 8 | usize::from(b)), message.len());
            prop_assert_eq!(&frame[PREFIX_BYTES..], &message[..]);

            let message = Bytes::from(message);
            let mut finder = ConsumeFinder::default();
            for come in (0..message.len()).step_by(step) {
                finder.go_on(&message[..come]);
            }
            let answer = finder.finish(&message).expect("a plain answer");
            let read: Vec<_> = answer.records().map(Result::unwrap).collect();
            prop_assert_eq!(read, records.into_iter().map(Record::from).collect::<Vec<_>>());
            prop_assert_eq!((answer.log_start.get(), answer.log_end.get()), (log_start_offset, log_end_offset));
        }

        /// As most are: appended together, and of one size; and where their offsets get longer.
        #[test]
        fn records_that_resemble_their_neighbours_are_encoded_as_prost_encodes_them(
            (bits, before) in (0..8u32, 0..6u64),
            shapes in proptest::collection::vec(((0..2u64, 0..2usize, prop::bool::weighted(0.1)), 1..8usize), 1..5),
        ) {
            let (mut log, mut records) = (Vec::new(), Vec::new());
            let mut offset = (1u64 << (7 * bits)).saturating_sub(before);
            for ((time, size, has_key), count) in shapes {
                for _ in 0..count {
                    let (timestamp_ms, value) = (time << 40, Bytes::from(vec![7; size * 130]));
                    let key = has_key.then(|| Bytes::from_static(b"key"));
                    let start = log.len();
                    record::encode(&mut log, key.as_deref(), &value);
                    record::seal(&mut log[start..], Offset::new(offset), Timestamp::from_millis(timestamp_ms));
                    records.push(proto::Record { offset, timestamp_ms, key, value });
                    offset += 1;
                }
            }
            let mut frame = Vec::new();
            let mut encoder = ConsumeEncoder::begin(&mut frame, &log, Offset::ZERO, Offset::new(offset));
            prop_assert!(encoder.go_on(&mut frame, usize::MAX));
            let consumed = proto::ConsumeResponse { records, log_start_offset: 0, log_end_offset: offset };
            let mut expected = Vec::new();
            super::super::put(&mut expected, &proto::Response::from(response::Kind::Consume(consumed)));
            prop_assert_eq!(frame, expected);
        }

        #[test]
        fn what_is_found_in_changed_bytes_is_what_prost_reads(
            records in proptest::collection::vec(record(), 0..4),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let consumed = proto::ConsumeResponse { records, log_start_offset: 3, log_end_offset: 400 };
            let mut message = proto::Response::from(response::Kind::Consume(consumed)).encode_to_vec();
            for (at, byte) in changes {
                let at = at.index(message.len());
                message[at] = byte;
            }
            let message = Bytes::from(message);
            let found = ConsumeAnswer::find(&message);
            let read = found.and_then(|a| a.records().collect::<Result<Vec<_>, _>>().ok());
            if let Some(read) = read {
                let Ok(proto::Response { kind: Some(response::Kind::Consume(consumed)) }) =
                    proto::Response::decode(message)
                else {
                    panic!("prost reads something else");
                };
                prop_assert_eq!(read, consumed.records.into_iter().map(Record::from).collect::<Vec<_>>());
            }
        }
    }
}
