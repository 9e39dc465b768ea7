//! P2: a start cuts off no whole record, neither from the end nor, as retention does, from the beginning. Also where a power loss
//! may have taken it: what was spared is there, and a recovery that threw it away would be none the wiser.
//!
//! Of the files as they lay before the start, what counts is the run of whole records from the first segment on: each right
//! behind the one before, each segment where the one before ends.

use super::decode;
use super::look::name;
use super::model::Model;
use super::{Findings, Promise};
use crate::trace::{Image, Recovered};

/// The offset after the last record of that run; `None` where there are no segments.
pub(super) fn run_end(image: &Image, topic: &str, partition: u32) -> Option<u64> {
    let segments = decode::segments(image, topic, partition);
    let mut end = segments.first()?.base;
    for (number, segment) in segments.iter().enumerate() {
        if segment.base != end {
            break;
        }
        let mut at = 0;
        while let Some(record) = decode::record_at(segment.log, at).filter(|record| record.offset == end) {
            at += usize::try_from(record.len).unwrap_or(usize::MAX);
            end += 1;
        }
        // What lies in two segments is taken from the later one.
        let next = segments.get(number + 1).map(|next| next.base);
        if let Some(next) = next.filter(|next| *next < end) {
            return Some(next);
        }
        if at < segment.log.len() {
            break;
        }
    }
    Some(end)
}

/// What a start says of a partition, of which `before` shows the files that it found.
pub(super) fn started(f: &mut Findings, model: &Model, before: &Image, said: &Recovered) {
    let Some(known) = model.partition(&said.topic, said.partition) else { return };
    if model.lying || known.harm.explains_missing_records() || said.fenced.is_some() {
        return;
    }
    let first = decode::segments(before, &said.topic, said.partition).into_iter().next();
    let whole = |first: &decode::Segment<'_>| {
        decode::record_at(first.log, 0).is_some_and(|record| record.offset == first.base)
    };
    if let Some(first) = first.filter(|first| said.start > first.base && whole(first)) {
        let expected = format!("the log starts at {}: a whole record lay there", first.base);
        let found = format!("it starts at {}", said.start);
        f.broke(Promise::Kept, "start cut", name(&said.topic, said.partition), (expected, found), &[]);
    }
    if let Some(end) = run_end(before, &said.topic, said.partition).filter(|end| said.end < *end) {
        let expected = format!("an end not before {end}: whole records lay there up to it");
        let found = format!("the log ends at {}", said.end);
        f.broke(Promise::Kept, "whole record cut", name(&said.topic, said.partition), (expected, found), &[]);
    }
}
