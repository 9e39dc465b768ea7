//! P10: a record goes where its client, or its key, says.

use super::{Answer, Mode, Placed, Request, Sent, Story, value};

const NONE: [&str; 0] = [];

/// A record with this key and for this partition, of two, that was acknowledged in another one or the same.
fn told(chosen: Option<u32>, key: Option<&'static str>, partition: u32) -> Vec<&'static str> {
    let mut story = Story::with_partitions(Mode::Os, 2);
    let records = [Sent { key: key.map(|key| key.as_bytes().into()), value: value('a') }];
    let id =
        story.call(Request::Produce { topic: "orders".into(), partition: chosen, records: records.into() });
    story.answer(id, Answer::Produced(vec![Placed::At(partition, 0)]));
    story.broken()
}

#[test]
fn a_chosen_partition_is_where_it_goes() {
    assert_eq!(told(Some(1), None, 1), NONE);
    assert_eq!(told(Some(1), None, 0), ["wrong partition"]);
    assert_eq!(told(Some(1), Some("k"), 0), ["wrong partition"]);
}

#[test]
fn a_partition_that_does_not_exist_is_no_place() {
    assert_eq!(told(None, None, 1), NONE);
    for chosen in [None, Some(0), Some(2)] {
        assert_eq!(told(chosen, None, 2), ["no such partition"]);
    }
}

/// Two requests of one client for partition 0, or with the same key, and their answers; the second is sent before or after the
/// first answer.
fn sent_twice(
    pipelined: bool,
    key: Option<&'static str>,
    offsets: [u64; 2],
    between: &dyn Fn(&mut Story),
) -> Vec<&'static str> {
    let mut story = Story::with_partitions(Mode::Os, 1);
    let ask = |story: &mut Story, letter| {
        let records = [Sent { key: key.map(|key| key.as_bytes().into()), value: value(letter) }];
        let partition = key.is_none().then_some(0);
        story.call(Request::Produce { topic: "orders".into(), partition, records: records.into() })
    };
    let first = ask(&mut story, 'a');
    let early = pipelined.then(|| ask(&mut story, 'b'));
    story.told(first, 1, offsets[0]);
    between(&mut story);
    let second = early.unwrap_or_else(|| ask(&mut story, 'b'));
    story.told(second, 1, offsets[1]);
    story.broken()
}

#[test]
fn what_a_client_sends_is_appended_in_its_order() {
    for (pipelined, key) in [(true, None), (true, Some("k")), (false, None), (false, Some("k"))] {
        assert_eq!(sent_twice(pipelined, key, [0, 1], &|_| {}), NONE);
        assert_eq!(sent_twice(pipelined, key, [1, 0], &|_| {}), ["order"], "{pipelined} {key:?}");
    }
}

#[test]
fn the_records_of_a_request_are_appended_in_their_order() {
    let mut story = Story::new(Mode::Os);
    let id = story.asks("ab");
    story.answer(id, Answer::Produced(vec![Placed::At(0, 1), Placed::At(0, 0)]));
    assert_eq!(story.broken(), ["order"]);
}

#[test]
fn a_topic_that_is_made_anew_begins_anew() {
    let made_anew = |story: &mut Story| {
        let id = story.call(Request::DeleteTopic { topic: "orders".into() });
        story.answer(id, Answer::Done);
        story.creates(1);
    };
    for pipelined in [true, false] {
        assert_eq!(sent_twice(pipelined, None, [1, 0], &made_anew), NONE);
    }
}
