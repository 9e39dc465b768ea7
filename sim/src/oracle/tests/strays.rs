//! A write that has landed in another file than it was meant for: what it explains there, and what not.

use faults::Op;

use super::{Answer, At, CrashKind, DiskOp, Mode, Placed, Request, Story, log, op, value};
use crate::oracle::decode;
use crate::trace::{Event, Sent};

const NONE: [&str; 0] = [];

fn log_of(partition: u32) -> String {
    format!("orders/{partition}/{:020}.log", 0)
}

/// Each partition has two records: `a` and `b`, `x` and `y`. A write that was meant for this file has landed in that of the first.
fn story(meant_for: &str) -> Story {
    let mut story = Story::with_partitions(Mode::Always, 2);
    story.stored("ab", 0);
    let records = "xy".chars().map(|letter| Sent { key: None, value: value(letter) }).collect();
    let id = story.call(Request::Produce { topic: "orders".into(), partition: Some(1), records });
    story.answer(id, Answer::Produced([0, 1].map(|offset| Placed::At(1, offset)).to_vec()));
    let hit = Some((log(0).into(), decode::HEADER as u64 + 1));
    story.struck(DiskOp { lies: true, hit, ..op(Op::Write, meant_for, Ok(29)) });
    story.again(CrashKind::Power);
    story
}

/// It has its offset with it, so that is where it can be read.
#[test]
fn a_stray_record_can_be_read_at_its_own_offset_and_nowhere_else() {
    let reads = |meant_for: &str, offset: u64, letter: char| {
        let mut story = story(meant_for);
        story.reads(0, offset, letter);
        story.broken()
    };
    assert_eq!(reads(&log_of(1), 1, 'y'), NONE);
    assert_eq!(reads(&log_of(1), 0, 'x'), NONE);
    assert_eq!(reads(&log_of(1), 0, 'y'), ["a second copy"]);
    assert_eq!(reads(&log_of(1), 1, 'a'), ["a second copy"], "it is of this partition");
    assert_eq!(reads(&log_of(1), 1, 'z'), ["nobody's bytes"], "nobody has sent it");
    let index = log_of(1).replace(".log", ".index");
    assert_eq!(reads(&index, 1, 'y'), ["a second copy"], "no record has gone astray");
    assert_eq!(reads(&log(0), 1, 'y'), ["a second copy"], "nor has one of another partition");
}

/// It lies over one record. The one behind it was never gone.
#[test]
fn a_stray_record_takes_none_of_those_behind_it() {
    let mut story = story(&log_of(1));
    for (offset, letter) in [(0, 'x'), (1, 'b')] {
        story.reads(0, offset, letter);
    }
    assert_eq!(story.broken(), NONE);
}

/// Its time is that of its own log.
#[test]
fn where_a_stray_record_is_read_no_times_are_judged() {
    let looks = |second: char| {
        let mut story = story(&log_of(1));
        story.add(Event::LookBegins);
        for (offset, letter) in [(0, 'a'), (1, second)] {
            let id = story.consume(0, offset);
            story.fetched(id, offset, letter, 2);
        }
        for (at, found) in [(At::Earliest, (0, 0)), (At::Latest, (2, 0)), (At::Time(1), (0, 0))] {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at });
            story.answer(id, Answer::Offset(Some(found)));
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    assert_eq!(looks('y'), NONE);
    assert_eq!(looks('b'), ["wrong record"]);
}
