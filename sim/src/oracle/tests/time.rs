//! P7: a record's time is one that the broker's clock showed while it was appended; and the first one at or after a time is
//! looked for from where the log begins.

use super::{Answer, At, Code, Event, Mode, Request, Story};
use crate::trace::{Clock, World};

const NONE: [&str; 0] = [];

/// A record that was stored while the clock stood still at `shows`, and is read with its offset, 0, as its time.
fn story(shows: u64, alike: bool) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.add(Event::World(World::Clock(Clock { shows, runs: false })));
    if alike {
        story.unknown("a");
    }
    story.stored("a", 0);
    story.reads(0, 0, 'a');
    story.broken()
}

#[test]
fn a_time_that_the_clock_did_not_show_is_wrong() {
    assert_eq!(story(0, false), NONE);
    assert_eq!(story(1000, false), ["not its time"]);
}

#[test]
fn of_records_with_the_same_bytes_nobody_knows_the_time() {
    assert_eq!(story(1000, true), NONE);
}

/// Records of the times 0 and 2, damage between them; the first at or after time 0 is asked for when the log begins at `start`.
fn looks_up(start: u64, found: Option<(u64, u64)>) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.stored("a", 0);
    story.stored("b", 1);
    story.stored("c", 2);
    story.add(Event::Fault { text: "rot".into(), path: Some(super::log(0).into()), damages: true });
    let topic: std::sync::Arc<str> = "orders".into();
    let offsets = |at| Request::Offsets { topic: topic.clone(), partition: 0, at };
    story.add(Event::LookBegins);
    let id = story.consume(0, 0);
    story.fetched(id, 0, 'a', 3);
    let id = story.consume(0, 1);
    story.unreadable(id, Code::Corrupt, 1);
    let id = story.consume(0, 2);
    story.fetched(id, 2, 'c', 3);
    let id = story.call(offsets(At::Time(0)));
    let refused = Answer::Refused { code: Code::Corrupt, message: String::new(), offset: Some(1) };
    story.answer(id, found.map_or(refused, |found| Answer::Offset(Some(found))));
    let id = story.call(offsets(At::Earliest));
    story.answer(id, Answer::Offset(Some((start, 0))));
    story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
    story.broken().into_iter().filter(|kind| *kind == "wrong record").collect()
}

#[test]
fn retention_may_have_moved_the_start_onto_damage_by_then() {
    assert_eq!(looks_up(0, Some((0, 0))), NONE);
    assert_eq!(looks_up(0, None), ["wrong record"]);
    assert_eq!(looks_up(1, None), NONE);
    assert_eq!(looks_up(2, None), NONE, "and on from there");
}
