//! Topics that may have taken the place of others of their name, since nobody was told what became of those.

use faults::{Errno, Op};

use super::{
    Answer, At, Code, CrashKind, DiskOp, Event, Mode, Placed, Request, Seen, Sent, Story, create, delete,
    looks_in_vain, lost, op, refused, value,
};
use crate::trace::ListedPartition;

const NONE: [&str; 0] = [];

#[test]
fn where_nobody_knows_whether_a_topic_was_made_anew_a_look_shows_it() {
    let story = |between: &str, looks: &[&str]| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        for request in [delete(), create()] {
            let id = story.call(request);
            story.answer(id, lost());
        }
        for (offset, letter) in (0..).zip(between.chars()) {
            story.stored(&letter.to_string(), offset);
        }
        looks.iter().for_each(|found| story.look(found));
        story.broken()
    };
    assert_eq!(story("", &["ab", "ab"]), NONE, "it is the old one");
    assert_eq!(story("", &["", ""]), NONE, "it is the new one");
    assert_eq!(story("", &["a"]), ["lost"]);
    assert_eq!(story("", &["ab", ""]), ["lost"]);
    assert_eq!(story("c", &["c", "c"]), NONE);
    assert_eq!(story("c", &["c", ""]), ["lost"]);
    assert_eq!(story("cd", &["c"]), ["lost"]);
    assert_eq!(story("c", &["cx"]), ["nobody's bytes"]);
}

#[test]
fn of_two_empty_topics_the_number_of_partitions_shows_which_one_is_there() {
    // How many partitions the new one is to have, how many there are, and how many are listed then.
    let story = |new: u32, there: u32, listed: u32| {
        let mut story = Story::new(Mode::Os);
        replaces(&mut story, new);
        story.add(Event::LookBegins);
        for partition in 0..new.max(1) {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition, at: At::Latest });
            let answer = Answer::Offset(Some((0, 0)));
            story.answer(id, if partition < there { answer } else { refused(Code::UnknownPartition) });
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        let id = story.call(Request::ListPartitions { topic: "orders".into() });
        let (start, end, bytes, fenced, unopened) = (0, 0, 0, false, false);
        let partition = |number| ListedPartition { number, start, end, bytes, fenced, unopened };
        story.answer(id, Answer::Partitions((0..listed).map(partition).collect()));
        story.broken()
    };
    assert_eq!(story(2, 1, 1), NONE, "it is the old one");
    assert_eq!(story(2, 2, 2), NONE, "it is the new one");
    assert_eq!(story(2, 1, 2), ["partitions not listed"]);
    assert_eq!(story(2, 2, 1), ["partitions not listed"]);
}

/// Nobody knows whether a topic was made. It is asked for again, and a record is stored before that one's answer says that it is new.
#[test]
fn a_record_may_be_in_the_topic_whose_making_was_answered_last() {
    let story = |found: &str| {
        let mut story = Story::bare(Mode::Os);
        let id = story.call(create());
        story.answer(id, lost());
        let id = story.call(create());
        story.stored("a", 0);
        story.answer(id, Answer::Done);
        found.split(' ').for_each(|found| story.look(found));
        story.broken()
    };
    assert_eq!(story("a"), NONE);
    assert_eq!(story("a a"), NONE);
    assert_eq!(story("a "), ["lost"]);
    assert_eq!(story("aa"), ["a second copy"]);
}

/// The topic is deleted, and one with so many partitions is made, and nobody is told.
fn replaces(story: &mut Story, new: u32) {
    let (retention_bytes, retention_ms) = (None, None);
    let topic = "orders".into();
    let made = Request::CreateTopic { topic, partitions: new, retention_bytes, retention_ms };
    for request in [delete(), made] {
        let id = story.call(request);
        story.answer(id, lost());
    }
}

/// A topic with so many partitions, and whatever was stored in it, is deleted, and one with so many is made, and nobody is told.
fn replaced(partitions: u32, stored: &str, new: u32) -> Story {
    let mut story = Story::with_partitions(Mode::Os, partitions);
    story.stored(stored, 0);
    replaces(&mut story, new);
    story
}

impl Story {
    /// So many partitions are listed, each without records, and with bytes.
    fn lists(&mut self, bytes: u64, partitions: usize) {
        let id = self.call(Request::ListPartitions { topic: "orders".into() });
        let listed = |number| ListedPartition { number, bytes, ..ListedPartition::default() };
        self.answer(id, Answer::Partitions((0..).take(partitions).map(listed).collect()));
    }
}

/// A record is stored in this partition.
fn stored_in(story: &mut Story, partition: u32, letter: char, offset: u64) {
    let records = [Sent { key: None, value: value(letter) }].into();
    let topic = "orders".into();
    let id = story.call(Request::Produce { topic, partition: Some(partition), records });
    story.answer(id, Answer::Produced(vec![Placed::At(partition, offset)]));
}

#[test]
fn an_offset_that_is_free_in_the_old_topic_does_not_tell_which_one_it_is() {
    let mut new = replaced(2, "a", 2);
    stored_in(&mut new, 1, 'c', 0);
    new.looks_at_two(2, Code::UnknownPartition);
    assert_eq!(new.broken(), NONE, "it is in the second partition of the new one");
    let mut gone = replaced(2, "a", 2);
    stored_in(&mut gone, 1, 'c', 0);
    looks_in_vain(&mut gone);
    assert_eq!(gone.broken(), ["topic lost"], "it is in one of them");
}

#[test]
fn a_partition_that_only_one_of_two_topics_has_tells_which_one_it_is() {
    let story = |old: u32, new: u32| {
        let mut story = replaced(old, "a", new);
        stored_in(&mut story, 1, 'c', 0);
        story.looks_at_two(2, Code::UnknownPartition);
        story.broken()
    };
    assert_eq!(story(1, 2), ["lost"], "the new one has lost what was stored there");
    let mut old = replaced(2, "", 1);
    stored_in(&mut old, 1, 'c', 0);
    old.looks_at_two(2, Code::UnknownPartition);
    assert_eq!(old.broken(), ["lost"], "so has the old one");
}

/// The old topic may have lost its record to a power loss: the offset is free in it as well.
#[test]
fn an_offset_that_a_power_loss_may_have_freed_does_not_tell_which_one_it_is() {
    let story = |kind: CrashKind| {
        let mut story = Story::with_partitions(Mode::Os, 2);
        story.stored("a", 0);
        story.again(kind);
        for request in [delete(), create()] {
            let id = story.call(request);
            story.answer(id, lost());
        }
        stored_in(&mut story, 0, 'b', 0);
        stored_in(&mut story, 1, 'c', 0);
        story.broken()
    };
    assert_eq!(story(CrashKind::Power), NONE);
    assert_eq!(story(CrashKind::Process), ["no such partition"], "it is the new one, which has no second");
}

#[test]
fn what_is_read_before_it_is_known_which_topic_is_there_counts_once_it_is() {
    let story = |looks: &[&str]| {
        let mut story = replaced(1, "a", 1);
        story.unknown("c");
        looks.iter().for_each(|found| story.look(found));
        story.broken()
    };
    assert_eq!(story(&["c", "c"]), NONE);
    assert_eq!(story(&["c", ""]), ["lost"]);
    assert_eq!(story(&["x"]), ["nobody's bytes"]);
}

/// The old topic had a record that the new one has as well.
#[test]
fn a_record_that_either_topic_can_have_does_not_tell_which_one_is_there() {
    // Whether the old one was read, so that its time is known, and whether somebody has sent another one.
    let story = |was_read: bool, sent: bool, timestamp: u64| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        if was_read {
            story.reads(0, 0, 'a');
        }
        for request in [delete(), create()] {
            let id = story.call(request);
            story.answer(id, lost());
        }
        if sent {
            story.unknown("a");
        }
        story.add(Event::LookBegins);
        let id = story.consume(0, 0);
        let seen = Seen { offset: 0, timestamp, key: None, value: value('a') };
        story.answer(id, Answer::Fetched { records: vec![seen], start: 0, end: 1 });
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    assert_eq!(story(true, true, 7), NONE);
    assert_eq!(story(true, true, 0), ["lost"], "it is the old one, without its second record");
    assert_eq!(story(false, true, 0), NONE);
    assert_eq!(story(false, false, 0), ["lost"]);
}

/// What is kept is another matter in either: the new one has a retention of its own.
#[test]
fn an_empty_topic_is_the_new_one_where_the_old_one_need_not_have_any_records() {
    let story = |bytes: Option<u64>| {
        let mut story = Story::new(Mode::Os);
        let id = story.call(delete());
        story.answer(id, lost());
        let topic = "orders".into();
        let id = story.call(Request::CreateTopic {
            topic,
            partitions: 1,
            retention_bytes: bytes,
            retention_ms: None,
        });
        story.answer(id, lost());
        story.look("");
        story.stored("ab", 0);
        story.add(Event::LookBegins);
        let id = story.consume(0, 1);
        let seen = Seen { offset: 1, timestamp: 1, key: None, value: value('b') };
        story.answer(id, Answer::Fetched { records: vec![seen], start: 1, end: 2 });
        for (at, offset) in [(At::Earliest, 1), (At::Latest, 2)] {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at });
            story.answer(id, Answer::Offset(Some((offset, 0))));
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    assert_eq!(story(None), ["start", "lost"]);
    assert_eq!(story(Some(0)), NONE);
}

/// One client deletes a topic, another makes it anew, and a third stores a record at an offset that was the old one's.
#[test]
fn a_record_may_be_stored_in_a_new_topic_before_anybody_is_told_of_it() {
    let story = |made: bool, gone_first: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        let gone = story.call(delete());
        let made = made.then(|| story.call(create()));
        let sent = story.asks("c");
        if gone_first {
            story.answer(gone, Answer::Done);
        }
        story.told(sent, 1, 0);
        if !gone_first {
            story.answer(gone, Answer::Done);
        }
        if let Some(made) = made {
            story.answer(made, Answer::Done);
            story.look("c");
        }
        story.broken()
    };
    assert_eq!(story(true, false), NONE);
    assert_eq!(story(true, true), NONE);
    assert_eq!(story(false, false), ["given twice"]);
}

/// A topic is deleted with an error after the deed, and the next of its name is made: none of the old one's bytes is in it.
#[test]
fn a_new_topic_has_nothing_of_one_that_went_with_an_error() {
    let story = |bytes: u64| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.stored("a", 0);
        story.does(Op::Write, 0, 29);
        let gone = story.call(delete());
        let to = Some("orders~gone".into());
        story.struck(DiskOp { to, ..op(Op::Rename, "orders", Err(Errno::EIO)) });
        story.answer(gone, refused(Code::OutcomeUnknown));
        let made = story.call(create());
        let to = Some("orders".into());
        story.add(Event::Disk(DiskOp { to, ..op(Op::Rename, "orders~new", Ok(0)) }));
        story.answer(made, Answer::Done);
        story.lists(bytes, 1);
        story.broken()
    };
    assert_eq!(story(0), NONE);
    assert_eq!(story(29), ["bytes differ"]);
}

/// Two clients make a topic, and a third stores a record in it before either is told.
#[test]
fn who_stores_a_record_does_not_know_who_has_made_its_topic() {
    let story = |asked: [u32; 2], listed: usize| {
        let mut story = Story::quiet(Mode::Os, 0);
        let ids = asked.map(|partitions| {
            let (topic, retention_bytes, retention_ms) = ("orders".into(), None, None);
            story.call(Request::CreateTopic { topic, partitions, retention_bytes, retention_ms })
        });
        story.stored("a", 0);
        story.answer(ids[1], refused(Code::TopicExists));
        story.answer(ids[0], Answer::Done);
        story.lists(0, listed);
        story.broken().contains(&"partitions not listed")
    };
    assert!(!story([1, 2], 1));
    assert!(story([1, 2], 2));
    assert!(story([1, 1], 2));
}

#[test]
fn what_has_failed_while_a_topic_was_made_may_have_fenced_it() {
    let story = |failed: bool| {
        let mut story = Story::new(Mode::Os);
        let gone = story.call(delete());
        story.answer(gone, lost());
        let made = story.call(create());
        if failed {
            story.struck(op(Op::Open, "orders/0/00000000000000000000.log", Err(Errno::EMFILE)));
        }
        story.answer(made, refused(Code::OutcomeUnknown));
        story.add(Event::Healed);
        story.look("");
        let id = story.asks("a");
        story.answer(id, refused(Code::Fenced));
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["refused for nothing", "no room for ever"]);
}
