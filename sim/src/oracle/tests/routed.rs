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
