//! What properties take.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::scenario::placeholder::mistyped;
use crate::scenario::{Content, Rate, Span};

pub(super) fn name() -> impl Strategy<Value = String> {
    let looks_like_something_else = select(vec!["true", "-1", "inf", "..", "é"]).prop_map(str::to_owned);
    prop_oneof![4 => "[a-z][a-z0-9._-]{0,6}", 1 => any::<String>(), 1 => looks_like_something_else]
}

pub(super) fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..5000u64).prop_map(Duration::from_millis),
        (0..100_000u64).prop_map(Duration::from_secs),
        any::<u64>().prop_map(Duration::from_nanos)
    ]
}

pub(super) fn some_time() -> impl Strategy<Value = Duration> {
    duration().prop_map(|time| time.max(Duration::from_nanos(1)))
}

pub(super) fn span() -> impl Strategy<Value = Span> {
    (duration(), duration()).prop_map(|(a, b)| Span { min: a.min(b), max: a.max(b) })
}

pub(super) fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0..70_000u64, (0..5000u64).prop_map(|n| n << 10), any::<u32>().prop_map(u64::from)]
}

pub(super) fn some_bytes() -> impl Strategy<Value = u64> {
    bytes().prop_map(|n| n.max(1))
}

pub(super) fn rate() -> impl Strategy<Value = Rate> {
    (0..=1_000_000u32).prop_map(|millionths| Rate { millionths })
}

pub(super) fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![0..99u64, 946_684_800_000..4_107_542_400_000u64, any::<u64>()]
}

/// A moment that a clock can show.
pub(super) fn shown_moment() -> impl Strategy<Value = u64> {
    moment().prop_map(|ms| ms.min(i64::MAX as u64))
}

pub(super) fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        any::<String>().prop_filter("a mistake", |text| mistyped(text).is_none()).prop_map(Content::Text),
        vec(any::<u8>(), 0..9).prop_map(Content::Hex),
        bytes().prop_map(Content::Size)
    ]
}

/// A path, or a pattern.
pub(super) fn file() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| {
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "." | "..")).collect();
        match parts.join("/").trim_start_matches('/') {
            "" => "**/@last.log".to_owned(),
            path => path.to_owned(),
        }
    })
}
