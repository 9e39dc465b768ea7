//! Consume answers, written straight from the log's bytes.

use super::{field_len, number_len, put_field, put_number, put_prefix, put_varint};
use crate::record::{self, Found};
use crate::units::Offset;

/// Protobuf tags: field number, and that a length follows (2) or a number (0).
const RESPONSE_CONSUME: u8 = 2 << 3 | 2;
const RECORD: u8 = 1 << 3 | 2;
const LOG_START: u8 = 2 << 3;
const LOG_END: u8 = 3 << 3;
const RECORD_OFFSET: u8 = 1 << 3;
const RECORD_TIMESTAMP: u8 = 2 << 3;
const RECORD_KEY: u8 = 3;
const RECORD_VALUE: u8 = 4;

/// Adds a frame with a consume answer to `out`. `log` is whole records that were checked when they were read.
pub fn encode_consumed(out: &mut Vec<u8>, log: &[u8], log_start: Offset, log_end: Offset) {
    let records_len: usize = record::trusted(log).map(|found| field_len(record_len(&found))).sum();
    let body = records_len + number_len(log_start.get()) + number_len(log_end.get());

    put_prefix(out, field_len(body));
    out.reserve(field_len(body));
    out.push(RESPONSE_CONSUME);
    put_varint(out, body as u64);
    for found in record::trusted(log) {
        out.push(RECORD);
        put_varint(out, record_len(&found) as u64);
        put_number(out, RECORD_OFFSET, found.offset.get());
        put_number(out, RECORD_TIMESTAMP, found.timestamp.get());
        if let Some(key) = found.key {
            put_field(out, RECORD_KEY, key);
        }
        if !found.value.is_empty() {
            put_field(out, RECORD_VALUE, found.value);
        }
    }
    put_number(out, LOG_START, log_start.get());
    put_number(out, LOG_END, log_end.get());
}

fn record_len(found: &Found<'_>) -> usize {
    number_len(found.offset.get())
        + number_len(found.timestamp.get())
        + found.key.map_or(0, |key| field_len(key.len()))
        + if found.value.is_empty() { 0 } else { field_len(found.value.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Timestamp;
    use crate::wire::{PREFIX_BYTES, proto};
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
        ) {
            let mut log = Vec::new();
            for r in &records {
                let start = log.len();
                record::encode(&mut log, r.key.as_deref(), &r.value);
                record::seal(&mut log[start..], Offset::new(r.offset), Timestamp::from_millis(r.timestamp_ms));
            }
            let mut frame = Vec::new();
            encode_consumed(&mut frame, &log, Offset::new(log_start_offset), Offset::new(log_end_offset));

            let consumed = proto::ConsumeResponse { records, log_start_offset, log_end_offset };
            let message = proto::Response::from(proto::response::Kind::Consume(consumed)).encode_to_vec();
            prop_assert_eq!(&frame[..PREFIX_BYTES], &(message.len() as u32).to_be_bytes());
            prop_assert_eq!(&frame[PREFIX_BYTES..], &message[..]);
        }
    }
}
