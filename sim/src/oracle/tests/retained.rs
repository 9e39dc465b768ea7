//! P2: retention takes no more than it must.

use broker::error::Code;
use faults::Op;

use super::{Answer, At, CrashKind, Event, Mode, Moment, Request, Story, World, log, records};
use crate::trace::Clock;

const NONE: [&str; 0] = [];

/// A topic that keeps so many bytes has two segments of 100, and the first one goes.
fn goes(retention_bytes: Option<u64>, leaving: bool) -> Vec<&'static str> {
    let mut story = Story::bare(Mode::Os);
    let (topic, retention_ms) = ("orders".into(), None);
    let id = story.call(Request::CreateTopic { topic, partitions: 1, retention_bytes, retention_ms });
    story.answer(id, Answer::Done);
    story.does(Op::Write, 0, 100);
    story.does(Op::Write, 5, 100);
    if leaving {
        story.call(Request::DeleteTopic { topic: "orders".into() });
    }
    story.does(Op::Remove, 0, 0);
    story.broken()
}

#[test]
fn a_segment_goes_only_while_there_is_more_than_what_is_kept() {
    assert_eq!(goes(Some(199), false), NONE);
    assert_eq!(goes(Some(200), false), ["removed too soon"]);
    assert_eq!(goes(None, false), ["removed too soon"]);
    assert_eq!(goes(None, true), NONE);
}

/// A topic that keeps records for so long has two segments, and the first one, with a record in it, goes after some time; by a clock
/// that shows this when the record is sent, and that before the segment goes.
fn goes_at(age: u64, after: u64, clock: (u64, u64)) -> Vec<&'static str> {
    goes_then(age, after, clock, |_| ())
}

/// The same, and something happens to it before.
fn goes_then(age: u64, after: u64, clock: (u64, u64), happens: impl Fn(&mut Story)) -> Vec<&'static str> {
    let mut story = Story::bare(Mode::Os);
    let (topic, retention_bytes) = ("orders".into(), None);
    let id =
        story.call(Request::CreateTopic { topic, partitions: 1, retention_bytes, retention_ms: Some(age) });
    story.answer(id, Answer::Done);
    let shows = |shows| Event::World(World::Clock(Clock { shows, runs: false }));
    story.add(shows(clock.0));
    story.does(Op::Write, 0, 100);
    story.stored("a", 0);
    story.does(Op::Write, 1, 100);
    happens(&mut story);
    story.later(after);
    story.add(shows(clock.1));
    story.does(Op::Remove, 0, 0);
    story.broken()
}

#[test]
fn a_segment_goes_only_when_all_of_it_is_older_than_what_is_kept() {
    assert_eq!(goes_at(500, 501, (1000, 1501)), NONE);
    assert_eq!(goes_at(500, 501, (1000, 1500)), ["removed too soon"]);
    assert_eq!(goes_at(500, 10, (1000, 1501)), NONE, "the clock was set ahead");
}

#[test]
fn a_segment_from_the_future_ages_with_the_process() {
    assert_eq!(goes_at(500, 1000, (1000, 400)), NONE);
    assert_eq!(goes_at(500, 400, (1000, 400)), ["removed too soon"]);
}

#[test]
fn a_segment_that_cannot_all_be_read_ages_with_the_process() {
    let unreadable = |story: &mut Story| story.unreadable_sector(&log(0));
    assert_eq!(goes_then(500, 1000, (1000, 1100), unreadable), NONE);
    assert_eq!(goes_then(500, 400, (1000, 1100), unreadable), ["removed too soon"]);
    assert_eq!(goes_at(500, 1000, (1000, 1100)), ["removed too soon"]);
}

/// A request that nobody heard of again has left a record, which retention takes while somebody looks.
#[test]
fn what_retention_takes_during_a_look_is_no_hole() {
    let story = |retention_bytes: Option<u64>| {
        let mut story = Story::bare(Mode::Os);
        let (topic, retention_ms) = ("orders".into(), None);
        let id = story.call(Request::CreateTopic { topic, partitions: 1, retention_bytes, retention_ms });
        story.answer(id, Answer::Done);
        story.unknown("a");
        story.add(Event::LookBegins);
        let id = story.consume(0, 0);
        story.unreadable(id, Code::OffsetOutOfRange, 0);
        for at in [At::Earliest, At::Latest] {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at });
            story.answer(id, Answer::Offset(Some((1, 0))));
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken().contains(&"unreadable")
    };
    assert!(!story(Some(0)));
    assert!(story(None));
}

/// Retention begins to remove a segment, and somebody looks; then the broker is started again, and all is there.
#[test]
fn what_retention_could_not_remove_is_there_again_after_a_start() {
    let story = |removed: bool, found: &str| {
        let mut story = Story::bare(Mode::Os);
        let (topic, retention_ms) = ("orders".into(), None);
        let keeps = Request::CreateTopic { topic, partitions: 1, retention_bytes: Some(0), retention_ms };
        let id = story.call(keeps);
        story.answer(id, Answer::Done);
        story.stored("abc", 0);
        let (first, second) = (records(0, "ab"), records(2, "c"));
        story.add(Event::LookBegins);
        let id = story.consume(0, 2);
        story.fetched(id, 2, 'c', 3);
        for (at, offset) in [(At::Earliest, 2), (At::Latest, 3)] {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at });
            story.answer(id, Answer::Offset(Some((offset, 0))));
        }
        let both: [(u64, &[u8]); 2] = [(0, &first), (2, &second)];
        story.image(Moment::Check, if removed { &both[1..] } else { &both });
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.again(CrashKind::Process);
        story.look(found);
        story.broken()
    };
    assert_eq!(story(false, "abc"), NONE);
    assert_eq!(story(true, "abc"), ["came back"]);
    assert_eq!(story(false, "axc"), ["other bytes"]);
}
