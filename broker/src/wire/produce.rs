//! Produce requests, without a copy of what they carry.
//!
//! A broker reads many of these: from a plain one, as every encoder writes it (fields in order, none twice, none that
//! is not known), the records are found where they lie in the connection's buffer. Any other takes the way through
//! `prost`; a property test holds the two together.

use std::ops::Range;

use super::cursor::Cursor;
use super::{field_len, number_len, put_field, put_number, put_prefix, put_tagged, varint_len};
use crate::units::Offset;

/// Protobuf tags: field number, and that a length follows (2) or a number (0).
const REQUEST_PRODUCE: u8 = 1 << 3 | 2;
const TOPIC: u8 = 1 << 3 | 2;
const PARTITION: u8 = 2 << 3;
const RECORD: u8 = 3 << 3 | 2;
const RECORD_KEY: u8 = 1 << 3 | 2;
const RECORD_VALUE: u8 = 2 << 3 | 2;

/// Where the parts of a produce request lie in its message. Keeps its memory from one request to the next.
#[derive(Debug, Default)]
pub struct ProduceFinder {
    topic: Range<usize>,
    partition: Option<u32>,
    records: Vec<Place>,
}

/// Where a record lies. Messages are shorter than 4 GiB.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// [`NO_KEY`] where there is none.
    key_start: u32,
    key_end: u32,
    value_start: u32,
    value_end: u32,
}

const NO_KEY: u32 = u32::MAX;

impl ProduceFinder {
    /// Finds the parts of a plain produce request that fills `message`. `false` where it is anything else, valid or
    /// not, or has more than `max` records.
    pub fn find(&mut self, message: &[u8], max: usize) -> bool {
        if self.records.capacity() > KEEP_RECORDS {
            self.records = Vec::new();
        }
        self.records.clear();
        self.try_find(message, max).is_some()
    }

    /// The topic in the message last found.
    pub fn topic<'a>(&self, message: &'a [u8]) -> &'a str {
        std::str::from_utf8(&message[self.topic.clone()]).expect("checked when it was found")
    }

    /// The partition in the message last found.
    pub fn partition(&self) -> Option<u32> {
        self.partition
    }

    /// Keys and values in the message last found.
    pub fn records<'a>(
        &'a self,
        message: &'a [u8],
    ) -> impl ExactSizeIterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone {
        self.records.iter().map(|place| {
            let key = (place.key_start != NO_KEY)
                .then(|| &message[place.key_start as usize..place.key_end as usize]);
            (key, &message[place.value_start as usize..place.value_end as usize])
        })
    }

    fn try_find(&mut self, message: &[u8], max: usize) -> Option<()> {
        u32::try_from(message.len()).ok().filter(|&len| len < NO_KEY)?;
        let mut request = Cursor::new(message);
        request.tag(REQUEST_PRODUCE)?;
        let body = request.content()?;
        if body.end != message.len() {
            return None;
        }
        request.at = body.start;
        request.tag(TOPIC)?;
        self.topic = request.content()?;
        std::str::from_utf8(&message[self.topic.clone()]).ok()?;
        self.partition = match request.tag(PARTITION) {
            Some(()) => Some(u32::try_from(request.varint()?).ok()?),
            None => None,
        };
        while request.at < message.len() {
            request.tag(RECORD)?;
            let body = request.content()?;
            let mut record = Cursor { bytes: &message[..body.end], at: body.start };
            let key = match record.tag(RECORD_KEY) {
                Some(()) => record.content()?,
                None => NO_KEY as usize..0,
            };
            let value = match record.tag(RECORD_VALUE) {
                Some(()) => record.content()?,
                None => body.end..body.end,
            };
            if record.at != body.end {
                return None;
            }
            if self.records.len() == max {
                return None;
            }
            let narrow = |at| u32::try_from(at).ok();
            self.records.push(Place {
                key_start: narrow(key.start)?,
                key_end: narrow(key.end)?,
                value_start: narrow(value.start)?,
                value_end: narrow(value.end)?,
            });
        }
        Some(())
    }
}

/// Memory for the places of more records than this is not kept.
const KEEP_RECORDS: usize = 8192;

/// How many records a request's message has, if it is a produce; stops counting above `max`. An empty record is two
/// bytes here and many times that once it is decoded: this is asked before.
pub fn count_records(message: &[u8], max: usize) -> usize {
    let mut count = 0;
    each_content(message, REQUEST_PRODUCE, &mut |produce| {
        each_content(produce, RECORD, &mut |_| {
            count += 1;
            count <= max
        })
    });
    count
}

/// Calls `found` with the content of each field that has this tag, until it says no or the bytes are not protobuf.
fn each_content(message: &[u8], tag: u8, found: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    let mut rest = message;
    while let Ok((number, wire_type)) = prost::encoding::decode_key(&mut rest) {
        if u32::from(tag) == number << 3 | wire_type as u32 {
            let mut field = Cursor::new(rest);
            let Some(content) = field.content() else { return false };
            if !found(&rest[content]) {
                return false;
            }
            rest = &rest[field.at..];
        } else if prost::encoding::skip_field(wire_type, number, &mut rest, Default::default()).is_err() {
            return false;
        }
    }
    true
}

/// Adds a frame with a produce request to `out`. `records` gives key and value of each.
pub fn encode_produce<'a>(
    out: &mut Vec<u8>,
    topic: &str,
    partition: Option<u32>,
    records: impl Iterator<Item = (Option<&'a [u8]>, &'a [u8])> + Clone,
) {
    let record_len = |key: Option<&[u8]>, value: &[u8]| {
        key.map_or(0, |key| field_len(key.len())) + if value.is_empty() { 0 } else { field_len(value.len()) }
    };
    let records_len: usize = records.clone().map(|(key, value)| field_len(record_len(key, value))).sum();
    let topic_len = if topic.is_empty() { 0 } else { field_len(topic.len()) };
    let body = topic_len + partition.map_or(0, |p| 1 + varint_len(p.into())) + records_len;

    put_prefix(out, field_len(body));
    out.reserve(field_len(body));
    put_tagged(out, REQUEST_PRODUCE, body as u64);
    if !topic.is_empty() {
        put_field(out, 1, topic.as_bytes());
    }
    if let Some(partition) = partition {
        put_tagged(out, PARTITION, partition.into());
    }
    for (key, value) in records {
        put_tagged(out, RECORD, record_len(key, value) as u64);
        if let Some(key) = key {
            put_field(out, 1, key);
        }
        if !value.is_empty() {
            put_field(out, 2, value);
        }
    }
}

/// Tags of the answer.
const RESPONSE_PRODUCE: u8 = 1 << 3 | 2;
const APPEND: u8 = 1 << 3 | 2;
const APPEND_PARTITION: u8 = 1 << 3;
const APPEND_BASE: u8 = 2 << 3;
const APPEND_COUNT: u8 = 3 << 3;

/// Adds a frame to `out` that answers a produce whose records were all appended to one partition.
pub fn put_appended(out: &mut Vec<u8>, partition: u32, base: Offset, count: u32) {
    let (partition, base, count) = (u64::from(partition), base.get(), u64::from(count));
    let append = number_len(partition) + number_len(base) + number_len(count);
    put_prefix(out, field_len(field_len(append)));
    put_tagged(out, RESPONSE_PRODUCE, field_len(append) as u64);
    put_tagged(out, APPEND, append as u64);
    put_number(out, APPEND_PARTITION, partition);
    put_number(out, APPEND_BASE, base);
    put_number(out, APPEND_COUNT, count);
}

/// Partition, first offset and number of records, in an answer as [`put_appended`] writes it. `None` where `message` is
/// anything else.
pub fn find_appended(message: &[u8]) -> Option<(u32, Offset, u32)> {
    let mut at = Cursor::new(message);
    for tag in [RESPONSE_PRODUCE, APPEND] {
        at.tag(tag)?;
        let content = at.content()?;
        (content.end == message.len()).then_some(())?;
        at.at = content.start;
    }
    let partition = at.number(APPEND_PARTITION)?;
    let base = at.number(APPEND_BASE)?;
    let count = at.number(APPEND_COUNT)?;
    (at.at == message.len()).then_some(())?;
    Some((u32::try_from(partition).ok()?, Offset::new(base), u32::try_from(count).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{PREFIX_BYTES, proto};
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    const MAX: usize = 100;

    fn bytes() -> impl Strategy<Value = Bytes> {
        prop_oneof![Just(Bytes::new()), proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from)]
    }

    fn produce() -> impl Strategy<Value = proto::ProduceRequest> {
        let record =
            (proptest::option::of(bytes()), bytes()).prop_map(|(key, value)| proto::NewRecord { key, value });
        ("[a-zé]{0,8}", proptest::option::of(any::<u32>()), proptest::collection::vec(record, 0..5))
            .prop_map(|(topic, partition, records)| proto::ProduceRequest { topic, partition, records })
    }

    fn request(produce: proto::ProduceRequest) -> proto::Request {
        proto::request::Kind::Produce(produce).into()
    }

    fn found(find: &ProduceFinder, message: &[u8]) -> proto::ProduceRequest {
        proto::ProduceRequest {
            topic: find.topic(message).to_owned(),
            partition: find.partition(),
            records: find
                .records(message)
                .map(|(key, value)| proto::NewRecord {
                    key: key.map(Bytes::copy_from_slice),
                    value: Bytes::copy_from_slice(value),
                })
                .collect(),
        }
    }

    proptest! {
        #[test]
        fn a_plain_request_is_found_as_prost_reads_it(produce in produce()) {
            let message = request(produce.clone()).encode_to_vec();
            let mut find = ProduceFinder::default();
            prop_assert_eq!(find.find(&message, MAX), !produce.topic.is_empty());
            if !produce.topic.is_empty() {
                prop_assert_eq!(found(&find, &message), produce);
            }
        }

        #[test]
        fn what_is_found_in_changed_bytes_is_what_prost_reads(
            produce in produce(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut message = request(produce).encode_to_vec();
            for (at, byte) in changes {
                if !message.is_empty() {
                    let at = at.index(message.len());
                    message[at] = byte;
                }
            }
            if let Some(cut) = cut {
                message.truncate(cut.index(message.len() + 1));
            }
            let mut find = ProduceFinder::default();
            if find.find(&message, MAX) {
                let found = found(&find, &message);
                prop_assert_eq!(proto::Request::decode(&message[..]), Ok(request(found)));
            }
        }

        #[test]
        fn an_answer_is_encoded_as_prost_encodes_it(partition in 0..300u32, base in any::<u64>(), count in 0..300u32) {
            for base in [0, base % 300, base] {
                let mut frame = Vec::new();
                put_appended(&mut frame, partition, Offset::new(base), count);
                let append = proto::PartitionAppend { partition, base_offset: base, count, error: None };
                let produced = proto::ProduceResponse { appends: vec![append], partitions: vec![] };
                let mut expected = Vec::new();
                crate::wire::put(&mut expected, &proto::Response::from(proto::response::Kind::Produce(produced)));
                prop_assert_eq!(&frame, &expected);
                let found = find_appended(&frame[PREFIX_BYTES..]);
                prop_assert_eq!(found, Some((partition, Offset::new(base), count)));
            }
        }

        #[test]
        fn a_request_is_encoded_as_prost_encodes_it(produce in produce()) {
            let mut frame = Vec::new();
            let records = produce.records.iter().map(|r| (r.key.as_deref(), &r.value[..]));
            encode_produce(&mut frame, &produce.topic, produce.partition, records);
            let message = request(produce).encode_to_vec();
            prop_assert_eq!(frame[..PREFIX_BYTES].iter().fold(0, |n, &b| n << 8 | usize::from(b)), message.len());
            prop_assert_eq!(&frame[PREFIX_BYTES..], &message[..]);
        }
    }

    #[test]
    fn records_are_counted_before_they_are_decoded() {
        let produce = |records| proto::ProduceRequest {
            topic: "t".into(),
            partition: None,
            records: vec![proto::NewRecord::default(); records],
        };
        let message = request(produce(100)).encode_to_vec();
        let mut find = ProduceFinder::default();
        assert!(find.find(&message, 100));
        assert!(!find.find(&message, 99));
        assert_eq!(count_records(&message, 1000), 100);
        assert_eq!(count_records(&message, 10), 11);
        // Two produces in one message: protobuf puts them together.
        assert_eq!(count_records(&[message.clone(), message.clone()].concat(), 1000), 200);
        assert_eq!(count_records(&message[..message.len() - 1], 1000), 0);
        assert_eq!(count_records(b"GET / HTTP/1.1", 1000), 0);
    }

    #[test]
    fn fields_out_of_order_are_left_to_prost() {
        let (topic, record) = ([TOPIC, 1, b't'], [RECORD, 3, RECORD_VALUE, 1, b'v']);
        let message = |body: &[&[u8]]| {
            let mut message = Vec::new();
            put_field(&mut message, 1, &body.concat());
            message
        };
        let mut find = ProduceFinder::default();
        assert!(find.find(&message(&[&topic, &record]), MAX));
        assert!(!find.find(&message(&[&record, &topic]), MAX));
        assert!(!find.find(&message(&[&topic, &topic, &record]), MAX));
        assert!(!find.find(&[message(&[&topic, &record]), message(&[&topic, &record])].concat(), MAX));
    }
}
