//! P11, P2: where nothing is in the way, requests are answered, and with no less than was promised.

use faults::{Errno, Op};

use super::{Answer, At, Code, CrashKind, Event, Mode, Recovered, Request, Story, log, recovered};
use crate::trace::{ListedPartition, ListedTopic, Pace, Retention, Sent, World};

const NONE: [&str; 0] = [];

fn of_disk(code: Code) -> Answer {
    Answer::Refused { code, message: String::new(), offset: None }
}

fn fetched(end: u64) -> Answer {
    Answer::Fetched { records: Vec::new(), start: 0, end }
}

/// A list of partition 0.
fn listed(start: u64, end: u64) -> Answer {
    Answer::Partitions(vec![ListedPartition { start, end, ..ListedPartition::default() }])
}

fn listed_topic(&(name, partitions): &(&str, u32)) -> ListedTopic {
    ListedTopic { name: name.to_owned(), partitions, own: Retention::default() }
}

fn latest() -> Request {
    Request::Offsets { topic: "orders".into(), partition: 0, at: At::Latest }
}

#[test]
fn no_answer_needs_a_reason() {
    let story = |between: &dyn Fn(&mut Story)| {
        let mut story = Story::quiet(Mode::Os, 1);
        let id = story.asks("a");
        between(&mut story);
        story.lost(id);
        story.broken()
    };
    assert_eq!(story(&|_| {}), ["no answer"]);
    assert_eq!(story(&|story| story.fails(Op::Write)), ["no answer"], "who fails can say so");
    assert_eq!(story(&|story| story.crash(CrashKind::Process)), NONE);
    assert_eq!(story(&|story| story.add(Event::World(World::Stopping))), NONE);
    let cut = || World::Cut("client".into(), "broker".into());
    assert_eq!(story(&|story| story.add(Event::World(cut()))), NONE);
}

#[test]
fn what_was_in_the_way_before_may_be_so_still() {
    let story = |before: &[World], answered: bool| {
        let mut story = Story::quiet(Mode::Os, 1);
        before.iter().for_each(|change| story.add(Event::World(change.clone())));
        if answered {
            story.stored("a", 0);
        }
        story.unknown("b");
        story.broken()
    };
    let cut = || World::Cut("client".into(), "broker".into());
    assert_eq!(story(&[cut()], false), NONE);
    // What a connection has lost by it, it has lost for ever; one that goes on has lost nothing.
    assert_eq!(story(&[cut(), World::Whole], false), NONE);
    assert_eq!(story(&[cut(), World::Whole], true), ["no answer"]);
    assert_eq!(story(&[World::Raw], true), NONE);
    let slow = |sync| World::Pace(Pace { timeout: 2000, message: 1, disk: 0, sync });
    assert_eq!(story(&[slow(10)], true), ["no answer"]);
    assert_eq!(story(&[slow(500)], true), NONE);
}

#[test]
fn an_error_of_the_disk_has_its_cause_there() {
    let story = |before: &dyn Fn(&mut Story), answer: Answer| {
        let mut story = Story::quiet(Mode::Os, 1);
        before(&mut story);
        let id = story.asks("a");
        story.answer(id, answer);
        story.broken()
    };
    let told = Answer::Lost { why: "only a restart shows it".into(), sent: true, told: true };
    for answer in [of_disk(Code::StorageFailed), of_disk(Code::Fenced), told] {
        assert_eq!(story(&|_| {}, answer.clone()), ["refused for nothing"]);
        assert_eq!(story(&|story| story.fails(Op::Write), answer.clone()), NONE);
        let restarted = |story: &mut Story| {
            story.fails(Op::Write);
            story.again(CrashKind::Process);
        };
        assert_eq!(story(&restarted, answer), ["refused for nothing"]);
    }
    let full = |story: &mut Story| story.fails_with(Op::Write, Errno::ENOSPC);
    assert_eq!(story(&full, of_disk(Code::StorageFull)), NONE);
    let taken = |story: &mut Story| story.fails_with(Op::Lock, Errno::EAGAIN);
    assert_eq!(story(&taken, of_disk(Code::StorageFailed)), ["refused for nothing"]);
    let interrupted = |story: &mut Story| story.fails_with(Op::Sync, Errno::EINTR);
    assert_eq!(story(&interrupted, of_disk(Code::Fenced)), NONE);
    let made_again = |story: &mut Story| {
        interrupted(story);
        story.does(Op::Sync, 0, 0);
    };
    assert_eq!(story(&made_again, of_disk(Code::Fenced)), ["refused for nothing"]);
    let stops = |story: &mut Story| story.add(Event::World(World::Stopping));
    assert_eq!(story(&stops, of_disk(Code::ShuttingDown)), NONE);
    assert_eq!(story(&|_| {}, of_disk(Code::ShuttingDown)), ["refused for nothing"]);
}

/// What has failed explains what can come of it, and nothing else.
#[test]
fn an_error_of_the_disk_has_a_cause_of_its_kind() {
    let story = |op: Op, errno: Errno, code: Code| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.fails_with(op, errno);
        let id = story.asks("a");
        story.answer(id, of_disk(code));
        story.broken().is_empty()
    };
    let explains = |op, errno| {
        let codes = [Code::StorageFull, Code::StorageFailed, Code::Fenced, Code::Corrupt];
        codes.map(|code| story(op, errno, code))
    };
    assert_eq!(explains(Op::Write, Errno::ENOSPC), [true, false, false, false]);
    assert_eq!(explains(Op::Sync, Errno::ENOSPC), [true, true, true, false]);
    assert_eq!(explains(Op::Write, Errno::EIO), [false, true, true, false]);
    assert_eq!(explains(Op::Sync, Errno::EIO), [false, true, true, false]);
    assert_eq!(explains(Op::Read, Errno::EIO), [false, true, false, true]);
}

#[test]
fn what_was_promised_is_given() {
    let story = |stored: &str, lights_out: bool, request: Request, answer: Answer| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.stored(stored, 0);
        if lights_out {
            story.again(CrashKind::Power);
        }
        let id = story.call(request);
        story.answer(id, answer);
        story.broken()
    };
    let consume = |from| {
        let topic = "orders".into();
        Request::Consume { topic, partition: 0, from, max_bytes: 1, wait_ms: 0 }
    };
    let missing = of_disk(Code::OffsetOutOfRange);
    assert_eq!(story("ab", false, consume(1), missing.clone()), ["out of range"]);
    assert_eq!(story("ab", true, consume(1), missing.clone()), NONE);
    assert_eq!(story("ab", false, consume(2), missing.clone()), ["out of range"], "the end is none of them");
    assert_eq!(
        story("ab", true, consume(0), missing.clone()),
        ["out of range"],
        "it is there, or it is the end"
    );
    assert_eq!(story("ab", false, consume(3), missing), NONE);
    assert_eq!(story("ab", false, consume(1), fetched(2)), ["empty"]);
    assert_eq!(story("ab", false, consume(2), fetched(2)), NONE);
    assert_eq!(story("ab", false, consume(2), fetched(1)), ["end behind"]);
    assert_eq!(story("ab", false, latest(), Answer::Offset(Some((1, 0)))), ["end behind"]);
    assert_eq!(story("ab", true, latest(), Answer::Offset(Some((1, 0)))), NONE);
    assert_eq!(story("ab", false, latest(), Answer::Offset(Some((3, 0)))), ["end ahead"]);
    let list = Request::ListPartitions { topic: "orders".into() };
    assert_eq!(story("ab", false, list.clone(), listed(0, 1)), ["end behind"]);
    assert_eq!(story("ab", false, list.clone(), listed(1, 2)), ["start behind"]);
    assert_eq!(story("ab", false, list.clone(), Answer::Partitions(vec![])), ["partitions not listed"]);
    assert_eq!(story("ab", false, list.clone(), listed(0, 3)), ["end ahead"]);
    assert_eq!(story("ab", false, list, listed(0, 2)), NONE);
}

#[test]
fn what_was_promised_after_it_was_asked_for_need_not_be_given() {
    let mut story = Story::quiet(Mode::Os, 1);
    let id = story.call(latest());
    story.stored("a", 0);
    story.answer(id, Answer::Offset(Some((0, 0))));
    assert_eq!(story.broken(), NONE);
}

#[test]
fn who_waits_for_a_record_is_woken() {
    let story = |late: u64| {
        let mut story = Story::quiet(Mode::Os, 1);
        let topic = "orders".into();
        let id = story.call(Request::Consume { topic, partition: 0, from: 0, max_bytes: 1, wait_ms: 1000 });
        story.stored("a", 0);
        story.later(late);
        story.fetched(id, 0, 'a', 1);
        story.broken()
    };
    assert_eq!(story(10), NONE);
    assert_eq!(story(900), ["woken late"]);
}

#[test]
fn who_waits_in_vain_waits_as_long_as_was_asked_for() {
    let story = |for_ms: u64, between: &dyn Fn(&mut Story)| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.stored("a", 0);
        let topic = "orders".into();
        let id = story.call(Request::Consume { topic, partition: 0, from: 1, max_bytes: 1, wait_ms: 1000 });
        between(&mut story);
        story.later(for_ms);
        story.answer(id, fetched(1));
        story.broken()
    };
    assert_eq!(story(1000, &|_| {}), NONE);
    assert_eq!(story(500, &|_| {}), ["answered early"]);
    assert_eq!(story(500, &|story| story.add(Event::World(World::Stopping))), NONE);
    assert_eq!(story(500, &|story| story.fails(Op::Write)), NONE);
}

#[test]
fn who_waits_for_a_topic_that_goes_is_told() {
    let story = |late: u64, made_anew: bool| {
        let mut story = Story::quiet(Mode::Os, 1);
        let topic = "orders".into();
        let id = story.call(Request::Consume { topic, partition: 0, from: 0, max_bytes: 1, wait_ms: 1000 });
        let delete = story.call(Request::DeleteTopic { topic: "orders".into() });
        story.answer(delete, Answer::Done);
        if made_anew {
            story.creates(1);
        }
        story.later(late);
        story.answer(id, of_disk(Code::UnknownTopic));
        story.broken()
    };
    assert_eq!(story(10, false), NONE);
    assert_eq!(story(900, false), ["left waiting"]);
    assert_eq!(story(900, true), NONE, "it may wait for the new one");
}

#[test]
fn a_topic_is_listed_with_what_it_was_made_with() {
    let story = |bytes: Option<u64>, between: &dyn Fn(&mut Story)| {
        let mut story = Story::quiet(Mode::Os, 0);
        story.creates(1);
        between(&mut story);
        let id = story.call(Request::ListTopics);
        let own = Retention { bytes, age_ms: None };
        story.answer(id, Answer::Topics(vec![ListedTopic { own, ..listed_topic(&("orders", 1)) }]));
        story.broken()
    };
    assert_eq!(story(None, &|_| {}), NONE);
    assert_eq!(story(Some(7), &|_| {}), ["settings differ"]);
    let lost = |story: &mut Story| story.takes_away(&["orders/topic", &log(0)], &["orders/topic"]);
    assert_eq!(story(Some(7), &lost), NONE);
}

#[test]
fn a_partition_is_listed_as_it_is() {
    let story = |before: &dyn Fn(&mut Story), listed: ListedPartition| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.stored("a", 0);
        story.does(Op::Write, 0, 29);
        before(&mut story);
        let id = story.call(Request::ListPartitions { topic: "orders".into() });
        story.answer(id, Answer::Partitions(vec![ListedPartition { end: 1, ..listed }]));
        story.broken()
    };
    let whole = || ListedPartition { bytes: 29, ..ListedPartition::default() };
    let fenced = || ListedPartition { fenced: true, ..whole() };
    let starts = |fenced: bool| {
        move |story: &mut Story| {
            story.lies(&log(0));
            story.crash(CrashKind::Process);
            story.starts();
            story.says(Recovered { end: 1, fenced: fenced.then(|| "why".into()), ..recovered() });
        }
    };
    let nothing = |_: &mut Story| {};
    assert_eq!(story(&nothing, whole()), NONE);
    assert_eq!(story(&nothing, ListedPartition { bytes: 28, ..whole() }), ["bytes differ"]);
    assert_eq!(story(&nothing, ListedPartition { bytes: 30, ..whole() }), ["bytes differ"]);
    assert_eq!(story(&|story| story.fails(Op::Write), ListedPartition { bytes: 28, ..whole() }), NONE);
    assert_eq!(story(&nothing, fenced()), ["fenced for nothing"]);
    assert_eq!(story(&|story| story.fails(Op::Write), fenced()), NONE);
    assert_eq!(story(&starts(true), fenced()), NONE);
    assert_eq!(story(&starts(true), whole()), ["fence not told"]);
    assert_eq!(story(&nothing, ListedPartition { unopened: true, ..whole() }), ["unopened for nothing"]);
}

#[test]
fn a_partition_starts_where_a_segment_does() {
    let story = |start: u64, look: bool| {
        let mut story = Story::quiet(Mode::Os, 0);
        let (partitions, retention_bytes, retention_ms) = (1, Some(1), None);
        let topic = "orders".into();
        let id = story.call(Request::CreateTopic { topic, partitions, retention_bytes, retention_ms });
        story.answer(id, Answer::Done);
        story.stored("abc", 0);
        for base in [0, 2] {
            story.does(Op::Write, base, 58);
        }
        story.does(Op::Remove, 0, 0);
        if look {
            story.add(Event::LookBegins);
        }
        let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Earliest });
        story.answer(id, Answer::Offset(Some((start, 0))));
        story.broken()
    };
    for look in [false, true] {
        assert_eq!(story(2, look), NONE);
        assert_eq!(story(3, look), ["start inside a segment"]);
        assert_eq!(story(0, look), ["start inside a segment"]);
    }
}

#[test]
fn topics_are_listed_while_they_are_there() {
    let list = |story: &mut Story, topics: &[(&str, u32)]| {
        let id = story.call(Request::ListTopics);
        story.answer(id, Answer::Topics(topics.iter().map(listed_topic).collect()));
    };
    let story = |topics: &[(&str, u32)]| {
        let mut story = Story::quiet(Mode::Os, 2);
        list(&mut story, topics);
        story.broken()
    };
    assert_eq!(story(&[("orders", 2)]), NONE);
    assert_eq!(story(&[]), ["topic not listed"]);
    assert_eq!(story(&[("orders", 1)]), ["topic not listed"]);
    let deleted = |before: bool, answer: Answer, topics: &[(&str, u32)]| {
        let mut story = Story::quiet(Mode::Os, 1);
        let (delete, topics) = (Request::DeleteTopic { topic: "orders".into() }, topics.to_vec());
        let list = |story: &mut Story| list(story, &topics);
        let id = story.call(delete);
        if before {
            list(&mut story);
        }
        story.answer(id, answer);
        if !before {
            list(&mut story);
        }
        story.broken()
    };
    let lost = || Answer::Lost { why: "only a restart shows it".into(), sent: true, told: true };
    assert_eq!(deleted(true, Answer::Done, &[]), NONE);
    assert_eq!(deleted(true, Answer::Done, &[("orders", 1)]), NONE);
    assert_eq!(deleted(false, Answer::Done, &[]), NONE);
    assert_eq!(deleted(false, Answer::Done, &[("orders", 1)]), ["deleted topic listed"]);
    assert_eq!(deleted(false, lost(), &[]), ["refused for nothing"], "and nobody knows whether it is there");
}

#[test]
fn a_topic_that_is_there_is_known() {
    let story = |partition: u32, code: Code| {
        let mut story = Story::quiet(Mode::Os, 2);
        let id = story.consume(partition, 0);
        story.answer(id, of_disk(code));
        story.broken()
    };
    assert_eq!(story(0, Code::UnknownTopic), ["topic not known"]);
    assert_eq!(story(1, Code::UnknownPartition), ["topic not known"]);
    assert_eq!(story(2, Code::UnknownPartition), NONE);
}

#[test]
fn a_lie_about_one_partition_excuses_no_answer_about_another() {
    let story = |lied: &str, request: Request, answer: Answer| {
        let mut story = Story::quiet(Mode::Os, 2);
        story.stored("a", 0);
        story.lies(lied);
        let id = story.call(request);
        story.answer(id, answer);
        story.broken()
    };
    let consume =
        |partition| Request::Consume { topic: "orders".into(), partition, from: 0, max_bytes: 1, wait_ms: 0 };
    let none = || Answer::Topics(Vec::new());
    assert_eq!(story("orders/0/synced", Request::ListTopics, none()), ["topic not listed"]);
    assert_eq!(story("orders/topic", Request::ListTopics, none()), NONE);
    let failed = || of_disk(Code::StorageFailed);
    assert_eq!(story("orders/0/synced", consume(0), failed()), NONE);
    assert_eq!(story("orders/0/synced", consume(1), failed()), ["refused for nothing"]);
    assert_eq!(story("orders/1/synced", consume(0), fetched(0)), ["end behind", "empty"]);
    assert_eq!(story("orders/0/synced", consume(0), fetched(0)), NONE);
}

#[test]
fn what_was_sent_meanwhile_may_be_counted() {
    let story = |sent: bool| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.stored("a", 0);
        if sent {
            story.asks("b");
        }
        let id = story.call(latest());
        story.answer(id, Answer::Offset(Some((2, 0))));
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["end ahead"]);
}

#[test]
fn what_retention_has_taken_does_not_come_back() {
    let story = |between: &dyn Fn(&mut Story), starts: u64| {
        let mut story = Story::bare(Mode::Os);
        let (topic, retention_ms) = ("orders".into(), None);
        let keeps = Request::CreateTopic { topic, partitions: 1, retention_bytes: Some(100), retention_ms };
        let id = story.call(keeps);
        story.answer(id, Answer::Done);
        story.stored("abc", 0);
        let id = story.consume(0, 2);
        story.answer(id, Answer::Fetched { records: Vec::new(), start: 2, end: 3 });
        between(&mut story);
        let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Earliest });
        story.answer(id, Answer::Offset(Some((starts, 0))));
        story.broken()
    };
    let lights_out = |story: &mut Story| {
        story.unknown("");
        story.again(CrashKind::Power);
    };
    assert_eq!(story(&|_| {}, 2), ["empty"]);
    assert_eq!(story(&|_| {}, 3), ["empty"]);
    assert_eq!(story(&|_| {}, 0), ["empty", "start went back"]);
    assert_eq!(story(&lights_out, 0), ["empty"]);
}

#[test]
fn a_request_that_keeps_to_the_rules_breaks_none() {
    let story = |before: &dyn Fn(&mut Story), value: usize, code: Code| {
        let mut story = Story::quiet(Mode::Os, 1);
        before(&mut story);
        let record = Sent { key: Some(bytes::Bytes::new()), value: vec![0; value].into() };
        let records = vec![record; usize::from(value > 0)].into();
        let id = story.call(Request::Produce { topic: "orders".into(), partition: Some(0), records });
        story.answer(id, of_disk(code));
        story.broken()
    };
    let nothing = |_: &mut Story| ();
    for code in [
        Code::InvalidRequest,
        Code::InvalidTopic,
        Code::RecordTooLarge,
        Code::FrameTooLarge,
        Code::Timeout,
        Code::TooManyConnections,
        Code::TopicExists,
    ] {
        assert_eq!(story(&nothing, 1000, code), ["refused for nothing"], "{code:?}");
        assert_eq!(story(&nothing, 1001, code), NONE, "it is too large");
        assert_eq!(story(&nothing, 0, code), NONE, "there is nothing in it");
        let raw = |story: &mut Story| story.add(Event::World(World::Raw));
        assert_eq!(story(&raw, 1, code), NONE, "others may have taken what it needs");
    }
    let mut story = Story::quiet(Mode::Os, 1);
    let id = story.call(latest());
    story.answer(id, of_disk(Code::InvalidRequest));
    assert_eq!(story.broken(), ["refused for nothing"]);
    let many = |records: usize| {
        let mut story = Story::quiet(Mode::Os, 1);
        let id = story.asks(&"a".repeat(records));
        story.answer(id, of_disk(Code::InvalidRequest));
        story.broken()
    };
    assert_eq!((many(100), many(101)), (vec!["refused for nothing"], vec![]), "the broker takes 100");
}

fn makes(topic: &str, partitions: u32) -> Request {
    Request::CreateTopic { topic: topic.into(), partitions, retention_bytes: None, retention_ms: None }
}

fn deletes(topic: &str) -> Request {
    Request::DeleteTopic { topic: topic.into() }
}

#[test]
fn a_topic_that_can_be_made_is_made() {
    let story = |before: &dyn Fn(&mut Story), topic: &str, partitions: u32, code: Code| {
        let mut story = Story::quiet(Mode::Os, 1);
        before(&mut story);
        let id = story.call(makes(topic, partitions));
        story.answer(id, of_disk(code));
        story.broken()
    };
    let nothing = |_: &mut Story| ();
    for code in [Code::InvalidRequest, Code::InvalidTopic, Code::TopicExists] {
        assert_eq!(story(&nothing, "more", 3, code), ["refused for nothing"], "{code:?}");
    }
    assert_eq!(story(&nothing, "orders", 1, Code::TopicExists), NONE, "it is there");
    assert_eq!(story(&nothing, "running", 1, Code::InvalidTopic), NONE, "that is another file's name");
    assert_eq!(story(&nothing, "more", 0, Code::InvalidRequest), NONE, "with nothing in it");
    let said = |request: Request, answer: Option<Answer>| {
        move |story: &mut Story| {
            let id = story.call(request.clone());
            answer.clone().into_iter().for_each(|answer| story.answer(id, answer));
        }
    };
    let lost = Answer::Lost { why: "only a restart shows it".into(), sent: true, told: true };
    let exists = Code::TopicExists;
    assert_eq!(story(&said(makes("more", 1), None), "more", 1, exists), NONE, "somebody else makes it");
    assert_eq!(story(&said(makes("less", 1), None), "more", 1, exists), ["refused for nothing"]);
    assert_eq!(
        story(&said(deletes("orders"), Some(Answer::Done)), "orders", 1, exists),
        ["refused for nothing"]
    );
    assert_eq!(story(&said(deletes("orders"), None), "orders", 1, exists), NONE, "it may be there still");
    let unclear = |story: &mut Story| {
        story.fails(Op::Write);
        said(deletes("orders"), Some(lost.clone()))(story);
    };
    assert_eq!(story(&unclear, "orders", 1, exists), NONE);
}

#[test]
fn a_topic_that_is_there_can_be_deleted() {
    let story = |others: &[Request], topic: &str, code: Code| {
        let mut story = Story::quiet(Mode::Os, 1);
        for other in others {
            story.call(other.clone());
        }
        let id = story.call(deletes(topic));
        story.answer(id, of_disk(code));
        story.broken()
    };
    for code in [Code::InvalidRequest, Code::InvalidTopic, Code::UnknownTopic] {
        assert_eq!(story(&[], "orders", code), ["refused for nothing"], "{code:?}");
    }
    assert_eq!(story(&[], "more", Code::UnknownTopic), NONE, "nobody has made it");
    assert_eq!(story(&[deletes("orders")], "orders", Code::UnknownTopic), NONE, "somebody else deletes it");
    assert_eq!(story(&[deletes("more")], "orders", Code::UnknownTopic), ["refused for nothing"]);
}
