//! What clients ask, and what has to come.

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::{bytes, content, duration, moment, name};
use crate::scenario::request::Code;
use crate::scenario::syntax::words_of_codes;
use crate::scenario::{
    Consume, CreateTopic, Expect, ListPartitions, LookUp, LookUpExpect, OffsetAt, Open, Produce, Receive,
    ReceiveExpect, Send, SendLength, Step,
};

fn code() -> impl Strategy<Value = Code> {
    select(words_of_codes().map(|(_, code)| code).collect::<Vec<_>>())
}

fn expect() -> impl Strategy<Value = Expect> {
    let words = select(vec![Expect::Ok, Expect::Refused, Expect::Unknown, Expect::Any]);
    prop_oneof![words, code().prop_map(Expect::Code)]
}

/// Whether an answer can be expected that is no error, and so what is in it.
fn answers(expect: Expect) -> bool {
    matches!(expect, Expect::Ok | Expect::Any)
}

pub(super) fn request() -> impl Strategy<Value = Step> {
    prop_oneof![
        (name(), any::<u32>(), of(bytes()), of(duration()), expect()).prop_map(
            |(name, partitions, retention_bytes, retention_age, expect)| {
                Step::Topic(CreateTopic { name, partitions, retention_bytes, retention_age, expect })
            }
        ),
        (name(), expect()).prop_map(|(name, expect)| Step::DeleteTopic { name, expect }),
        (expect(), of(any::<u32>())).prop_map(|(expect, expect_count)| {
            let expect_count = expect_count.filter(|_| answers(expect));
            Step::ListTopics { expect, expect_count }
        }),
        (name(), expect(), of(any::<u32>())).prop_map(|(topic, expect, expect_count)| {
            let expect_count = expect_count.filter(|_| answers(expect));
            Step::ListPartitions(ListPartitions { topic, expect, expect_count })
        }),
        produce().prop_map(Step::Produce),
        consume()
            .prop_map(|consume| Consume {
                expect_start: consume.expect_start.filter(|_| consume.partition.is_some()),
                expect_end: consume.expect_end.filter(|_| consume.partition.is_some()),
                ..consume
            })
            .prop_map(Step::Consume),
        consume().prop_map(Step::Fetch),
        look_up().prop_map(Step::Offsets),
    ]
}

fn produce() -> impl Strategy<Value = Produce> {
    let what = (name(), of(any::<u32>()), of(content()), content());
    let how = (1..999u32, 1..99u32, expect(), of(any::<u32>()), of(any::<u64>()));
    (what, how).prop_map(|((topic, partition, key, value), how)| {
        // Only what is acknowledged has a place.
        let placed = answers(how.2);
        Produce {
            topic,
            partition,
            key,
            value,
            count: how.0,
            batch: how.1,
            expect: how.2,
            expect_partition: how.3.filter(|_| placed),
            expect_offset: how.4.filter(|_| placed),
        }
    })
}

fn consume() -> impl Strategy<Value = Consume> {
    let what =
        (name(), of(any::<u32>()), of(any::<u64>()), of(any::<u64>()), of(any::<u32>()), of(duration()));
    let expected = (expect(), of(any::<u64>()), of(content()), of(any::<u64>()), of(any::<u64>()));
    (what, expected).prop_map(|(what, (expect, count, value, start, end))| {
        let answers = answers(expect);
        Consume {
            topic: what.0,
            partition: what.1,
            from: what.2,
            until: what.3.filter(|until| *until > what.2.unwrap_or(0)),
            max_bytes: what.4,
            wait: what.5,
            expect,
            expect_count: count.filter(|_| answers),
            expect_value: value.filter(|_| answers && count != Some(0)),
            expect_start: start.filter(|_| answers),
            expect_end: end.filter(|_| answers),
        }
    })
}

fn look_up() -> impl Strategy<Value = LookUp> {
    let at = prop_oneof![Just(OffsetAt::Earliest), Just(OffsetAt::Latest), moment().prop_map(OffsetAt::Time)];
    let expect = prop_oneof![
        Just(LookUpExpect::Any),
        Just(LookUpExpect::None),
        any::<u64>().prop_map(LookUpExpect::Offset),
        code().prop_map(LookUpExpect::Code)
    ];
    (name(), any::<u32>(), at, expect).prop_map(|(topic, partition, at, expect)| LookUp {
        topic,
        partition,
        at,
        expect,
    })
}

pub(super) fn raw() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(SendLength::Right), any::<u32>().prop_map(SendLength::Is)];
    let send = (content(), of(length), of(1..99u32), of(duration()))
        .prop_map(|(bytes, length, chunk_bytes, every)| Send { bytes, length, chunk_bytes, every });
    let words = vec![ReceiveExpect::Any, ReceiveExpect::Ok, ReceiveExpect::Closed, ReceiveExpect::Nothing];
    let expect = prop_oneof![select(words), code().prop_map(ReceiveExpect::Code)];
    let receive = (expect, duration()).prop_map(|(expect, within)| Receive { expect, within });
    prop_oneof![
        (1..99u32).prop_map(|count| Step::Open(Open { count })),
        send.prop_map(Step::Send),
        receive.prop_map(Step::Receive),
        Just(Step::HalfClose),
        Just(Step::Close),
    ]
}
