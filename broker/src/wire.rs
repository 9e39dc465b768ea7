//! The wire: frames, and the messages in them.
//!
//! A frame is a 4-byte big-endian length, then that many bytes of one protobuf message: a [`proto::Request`] from the
//! client, a [`proto::Response`] from the server. `proto/broker.proto` describes the messages and is all that a client in
//! another language needs.
//!
//! Three files lie below this one: `proto` is generated from the proto file; `convert` goes between its types and the
//! broker's; `produce` and `consume` are the two messages that carry records, read and written without a copy in
//! between, since they are what a broker spends its day with. Everything else goes through `prost`.

mod consume;
pub mod convert;
mod cursor;
mod head;
mod produce;
#[rustfmt::skip]
#[allow(missing_docs, clippy::all)]
pub mod proto;

pub use consume::{ConsumeAnswer, ConsumeEncoder, ConsumeFinder};
pub use produce::{ProduceFinder, count_records, encode_produce, find_appended, put_appended};

use bytes::{Buf, BytesMut};
use prost::Message;

/// Bytes of a frame's length.
pub const PREFIX_BYTES: usize = 4;

/// What the first bytes of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole frame, whose message has this many bytes.
    Whole(usize),
    /// The beginning of a frame that has this many bytes in all, as far as known.
    Partial(usize),
    /// A frame that announces more bytes than are allowed.
    TooLarge(usize),
}

/// Looks at the frame at the start of `bytes`. `limit` is the most bytes that a message may have: nothing is reserved or
/// waited for on the word of a longer one.
pub fn frame(bytes: &[u8], limit: usize) -> Frame {
    let Some(prefix) = bytes.first_chunk::<PREFIX_BYTES>() else {
        return Frame::Partial(PREFIX_BYTES);
    };
    let len = u32::from_be_bytes(*prefix) as usize;
    if len > limit {
        Frame::TooLarge(len)
    } else if bytes.len() - PREFIX_BYTES < len {
        Frame::Partial(PREFIX_BYTES + len)
    } else {
        Frame::Whole(len)
    }
}

/// Below this length, a message's records are copied out of the buffer, so that a few bytes which somebody keeps do not
/// keep the whole buffer; from it on they are parts of the buffer.
const SHARE_BYTES: usize = 16 << 10;

/// Removes a whole frame of `len` message bytes from the start of `bytes`, and decodes its message.
pub fn take<M: Message + Default>(bytes: &mut BytesMut, len: usize) -> Result<M, prost::DecodeError> {
    bytes.advance(PREFIX_BYTES);
    if len >= SHARE_BYTES {
        return M::decode(bytes.split_to(len).freeze());
    }
    let message = M::decode(&bytes[..len]);
    bytes.advance(len);
    message
}

/// Adds a frame with this message to `out`.
pub fn put(out: &mut Vec<u8>, message: &impl Message) {
    let len = message.encoded_len();
    put_prefix(out, len);
    out.reserve(len);
    message.encode_raw(out);
}

/// Adds the length of a message to `out`.
fn put_prefix(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a message is shorter than 4 GiB: all that goes into one is bounded");
    out.extend_from_slice(&len.to_be_bytes());
}

/// Adds a tag (field number below 16) and a number to `out`: eight bytes at once, and then without those too many, since that
/// costs less than to add as many as there are.
#[inline]
fn put_tagged(out: &mut Vec<u8>, tag: u8, value: u64) {
    if value >= 1 << 49 {
        out.push(tag);
        return prost::encoding::encode_varint(value, out);
    }
    let (mut word, mut left, mut shift) = (u64::from(tag), value, 8);
    while left >= 0x80 {
        word |= (left & 0x7f | 0x80) << shift;
        (left, shift) = (left >> 7, shift + 8);
    }
    word |= left << shift;
    let end = out.len() + shift / 8 + 1;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

/// How many bytes a protobuf number has.
fn varint_len(value: u64) -> usize {
    prost::encoding::encoded_len_varint(value)
}

/// A number that is 0 is left out, as protobuf has it.
fn put_number(out: &mut Vec<u8>, tag: u8, value: u64) {
    if value != 0 {
        put_tagged(out, tag, value);
    }
}

fn number_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint_len(value) }
}

/// Adds a length-delimited protobuf field (number below 16) to `out`.
fn put_field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    put_tagged(out, number << 3 | 2, content.len() as u64);
    out.extend_from_slice(content);
}

/// How many bytes a length-delimited field (number below 16) with content of this length has.
fn field_len(content: usize) -> usize {
    1 + varint_len(content as u64) + content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_as_prost_writes_it() {
        let around = |bits: u32| [(1u64 << bits) - 1, 1 << bits, (1 << bits) | 1];
        for value in (0..64).flat_map(around).chain([0x0123_4567_89ab, 0x1_5555_5555_5555, u64::MAX]) {
            let (mut ours, mut theirs) = (vec![1], vec![1]);
            put_tagged(&mut ours, 3 << 3, value);
            prost::encoding::uint64::encode(3, &value, &mut theirs);
            assert_eq!(ours, theirs, "{value:#x}");
        }
    }

    #[test]
    fn a_length_is_checked_before_it_is_believed() {
        let limit = 100;
        assert_eq!(frame(&[], limit), Frame::Partial(4));
        assert_eq!(frame(&[0, 0, 0], limit), Frame::Partial(4));
        assert_eq!(frame(&[0, 0, 0, 0], limit), Frame::Whole(0));
        assert_eq!(frame(&[0, 0, 0, 2, 9], limit), Frame::Partial(6));
        assert_eq!(frame(&[0, 0, 0, 2, 9, 9, 9], limit), Frame::Whole(2));
        assert_eq!(frame(&[0, 0, 0, 100], limit), Frame::Partial(104));
        assert_eq!(frame(&[0, 0, 0, 101], limit), Frame::TooLarge(101));
        assert_eq!(frame(&[0x80, 0, 0, 0], limit), Frame::TooLarge(1 << 31));
        assert_eq!(frame(&[0xff; 4], limit), Frame::TooLarge(u32::MAX as usize));
        assert_eq!(frame(b"GET / HTTP/1.1", limit), Frame::TooLarge(0x47455420));
    }
}
