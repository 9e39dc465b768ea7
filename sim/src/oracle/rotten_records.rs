//! Which records of a log rot has taken: where a record was promised, bytes lie that are none. A record of which no byte is left
//! is gone for another reason.

use std::ops::Range;

use super::decode::{HEADER, Piece, Segment};

/// The offsets whose records bad bytes have taken the place of. `record_bytes`: how many a record had, where that is known; of one
/// that is not, no more is than that it had a header.
pub(super) fn lost(segments: &[Segment<'_>], record_bytes: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
    let mut lost = Vec::new();
    for segment in segments {
        let mut next = segment.base;
        for piece in segment.pieces() {
            match piece {
                Piece::Record(record) => next = record.offset + 1,
                Piece::Bad { len, .. } => {
                    let mut at = 0;
                    while at < len {
                        lost.push(next);
                        at += record_bytes(next).unwrap_or(HEADER as u64);
                        next += 1;
                    }
                }
            }
        }
    }
    lost
}

/// The offsets of the records that lie in these bytes, or reach into them.
pub(super) fn within(segment: &Segment<'_>, bytes: &Range<u64>) -> Vec<u64> {
    let pieces = segment.pieces().into_iter();
    let offset = |piece| match piece {
        Piece::Record(r) if r.position < bytes.end && bytes.start < r.position + r.len => Some(r.offset),
        _ => None,
    };
    pieces.filter_map(offset).collect()
}
