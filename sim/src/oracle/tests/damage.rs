//! P9: damage is named where it is, and nowhere else.

use faults::{Errno, Op};

use super::{Answer, Code, CrashKind, Event, Mode, Moment, Recovered, Story, log, op, records, recovered};
use crate::oracle::look::Look;
use crate::oracle::walk::{StartBeside, Walk};

const NONE: [&str; 0] = [];

#[test]
fn damage_after_everything_was_seen_is_a_false_alarm() {
    let story = |before: CrashKind, found: &str| {
        let mut story = Story::new(Mode::Always);
        story.stored("ab", 0);
        story.unknown("c");
        story.again(CrashKind::Power);
        story.look(found);
        story.crash(before);
        story.starts();
        story.started(&[(2, 3)]);
        story.broken()
    };
    assert_eq!(story(CrashKind::Power, "abc"), NONE);
    assert_eq!(story(CrashKind::Process, "ab."), NONE);
    assert_eq!(story(CrashKind::Process, "abc"), ["false alarm"]);
    assert_eq!(story(CrashKind::Process, "ab"), ["false alarm"]);
}

/// A sync that has failed is an excuse for damage where nobody knows of it any more, and for none where it is noted, or a clean stop
/// has synced it since.
#[test]
fn a_failed_sync_that_nobody_noted_leaves_damage() {
    let story = |noted: bool, then: &[CrashKind]| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.fails(Op::Sync);
        if noted {
            story.add(Event::Disk(op(Op::Write, &format!("{}.unsynced", super::log(0)), Ok(20))));
        }
        then.iter().for_each(|kind| story.again(*kind));
        story.look("ab");
        story.crash(CrashKind::Power);
        story.starts();
        story.started(&[(0, 1)]);
        story.broken()
    };
    let (process, stop) = (CrashKind::Process, CrashKind::Stop);
    assert_eq!(story(false, &[process]), NONE);
    assert_eq!(story(true, &[process]), ["false alarm"]);
    assert_eq!(story(false, &[process, stop]), ["false alarm"]);
    assert_eq!(story(false, &[]), ["false alarm"]);
}

/// Nearly every start asks for files that are not there. That is how a disk says no, and no cause for damage.
#[test]
fn a_file_that_is_not_there_explains_no_damage() {
    let story = |errno: Errno| {
        let mut story = Story::new(Mode::Always);
        story.stored("ab", 0);
        story.unknown("c");
        story.again(CrashKind::Power);
        story.look("abc");
        story.crash(CrashKind::Process);
        story.starts();
        story.add(Event::Disk(op(Op::Open, "orders/0/synced", Err(errno))));
        story.started(&[(2, 3)]);
        story.broken()
    };
    assert_eq!(story(Errno::ENOENT), ["false alarm"]);
    assert_eq!(story(Errno::EIO), NONE);
}

#[test]
fn what_is_damaged_is_not_said_to_be_out_of_range_and_the_way_leads_on() {
    let story = |found: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        story.add(Event::Fault { text: "rot".into(), path: Some(log(0).into()), damages: true });
        story.look(found);
        story.broken()
    };
    assert_eq!(story("a.c"), NONE);
    assert_eq!(story("a?c"), ["not named"]);
    assert_eq!(story("a!c"), ["leads nowhere"]);
}

/// Behind damage, who reads goes on at the offset that the error names, and must not miss what lies before that.
#[test]
fn an_error_names_the_first_record_behind_damage() {
    let story = |next: u64| {
        let mut story = Story::new(Mode::Os);
        story.stored("abcd", 0);
        story.add(Event::Fault { text: "rot".into(), path: Some(log(0).into()), damages: true });
        story.add(Event::LookBegins);
        for (offset, letter) in (0..).zip("a.cd".chars()) {
            let id = story.consume(0, offset);
            let message = format!("the next offset that can be read is {next}");
            match letter {
                '.' => {
                    let (code, offset) = (Code::Corrupt, Some(offset));
                    story.answer(id, Answer::Refused { code, message, offset });
                }
                letter => story.fetched(id, offset, letter, 4),
            }
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    assert_eq!(story(2), NONE);
    assert_eq!(story(3), ["record passed over"]);
}

/// `abcd` is stored, and this is what is left of its log; the start names these stretches, and cuts so much off.
fn names(left: &[u8], named: &[Damage], cut: u64) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.stored("abcd", 0);
    story.crash(CrashKind::Process);
    story.touches(&[(0, &records(0, "abcd"))], &[(0, left)]);
    story.image(Moment::Down, &[(0, left)]);
    story.starts();
    story.says(Recovered { end: 4, cut, damage: named.iter().map(in_first_log).collect(), ..recovered() });
    story.broken()
}

/// Byte, bytes, first bad offset, first good offset behind it.
type Damage = (u64, u64, u64, u64);

fn in_first_log(&(at, bytes, first, next): &Damage) -> (String, u64, u64, u64, u64) {
    (format!("{:020}.log", 0), at, bytes, first, next)
}

/// The log of `abcd` with a broken byte in these records. Each has 29 bytes.
fn broken(offsets: &[usize]) -> Vec<u8> {
    let mut bytes = records(0, "abcd");
    offsets.iter().for_each(|offset| bytes[offset * 29 + 28] ^= 1);
    bytes
}

#[test]
fn a_start_names_no_byte_of_a_whole_record() {
    let left = broken(&[1]);
    assert_eq!(names(&left, &[(29, 29, 1, 2)], 0), NONE);
    assert_eq!(names(&left, &[(0, 58, 0, 2)], 0), ["whole record named"]);
    assert_eq!(names(&left, &[(28, 30, 1, 2)], 0), ["whole record named"]);
    assert_eq!(names(&left, &[(29, 58, 1, 3)], 0), ["whole record named"]);
    assert_eq!(names(&left, &[(29, 30, 1, 2)], 0), ["whole record named"]);
    assert_eq!(names(&left, &[(29, 29, 1, 3)], 0), ["whole record named"]);
}

#[test]
fn a_start_names_all_that_is_damaged() {
    let left = broken(&[0, 2]);
    assert_eq!(names(&left, &[(0, 29, 0, 1), (58, 29, 2, 3)], 0), NONE);
    assert_eq!(names(&left, &[(0, 29, 0, 1)], 0), ["not named whole"]);
    assert_eq!(names(&left, &[(1, 28, 0, 1), (58, 29, 2, 3)], 0), ["not named whole"]);
    assert_eq!(names(&left, &[(0, 28, 0, 1), (58, 29, 2, 3)], 0), ["not named whole"]);
}

#[test]
fn what_stands_behind_the_last_record_is_named_whole_or_not_at_all() {
    let (left, both) = (broken(&[3]), broken(&[1, 3]));
    assert_eq!(names(&left, &[(87, 29, 3, 4)], 0), NONE);
    assert_eq!(names(&left, &[(87, 0, 3, 4)], 0), ["not named whole"]);
    assert_eq!(names(&left, &[(87, 0, 3, 4)], 29), NONE);
    assert_eq!(names(&both, &[(29, 29, 1, 2)], 0), NONE);
    assert_eq!(names(&both, &[(29, 29, 1, 2), (87, 0, 3, 4)], 0), ["not named whole"]);
}

/// A run under `os` that takes back that it said so: the next start cannot tell the hole that a power loss left from damage.
#[test]
fn a_hole_is_kept_after_a_run_that_does_not_say_which_it_was() {
    let story = |path: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        story.does_above(Op::Remove, path, None);
        story.crash(CrashKind::Power);
        story.starts();
        story.started(&[(1, 2)]);
        story.look("a.c");
        story.broken()
    };
    assert_eq!(story("running"), NONE);
    assert_eq!(story("orders/0/running"), ["false alarm", "unreadable"]);
}

/// After a run whose note is gone, a start that notes itself, and comes to its end, tells the next one all.
#[test]
fn a_start_that_has_noted_itself_leaves_no_doubt_about_holes() {
    let story = |notes: &[&str], ends: bool| {
        let mut story = Story::new(Mode::Os);
        story.does_above(Op::Remove, "running", None);
        story.crash(CrashKind::Process);
        story.starts();
        notes.iter().for_each(|to| story.does_above(Op::Rename, "running.tmp", Some(to)));
        if ends {
            story.started(&[]);
            story.stored("abc", 0);
        }
        story.crash(CrashKind::Power);
        story.starts();
        story.says(Recovered { end: 3, damage: vec![(log(0), 0, 40, 1, 2)], ..recovered() });
        story.broken()
    };
    assert_eq!(story(&["running"], true), ["false alarm"]);
    assert_eq!(story(&["running"], false), NONE, "the new note may have gone with the power");
    assert_eq!(story(&["was-clean"], true), NONE);
    assert_eq!(story(&[], true), NONE);
}

/// The same of a start that is no part of the run.
#[test]
fn a_start_beside_the_run_keeps_a_hole_where_the_note_of_the_run_is_gone() {
    let story = |gone: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        story.does_above(Op::Remove, gone, None);
        let mut walk = Walk::default();
        story.trace.entries.iter().for_each(|entry| _ = walk.entry(entry));
        walk.goes_down(CrashKind::Power, 100);
        let said = [Recovered { end: 3, damage: vec![(log(0), 0, 40, 1, 2)], ..recovered() }];
        let look = Look::default();
        let (clean, noted, failing) = (false, false, false);
        let start = StartBeside { clean, noted, failing, refused: &[], said: &said, look: &look };
        walk.started_beside(&start, 100);
        walk.findings.first().map(|broken| broken.kind)
    };
    assert_eq!(story("running"), None);
    assert_eq!(story("was-clean"), Some("false alarm"));
}

/// Of one beside the run that has noted itself and come to its end, the next knows that power was lost since.
#[test]
fn a_start_beside_the_run_that_has_noted_itself_leaves_no_doubt_about_holes() {
    let story = |noted: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        story.does_above(Op::Remove, "running", None);
        let mut walk = Walk::default();
        story.trace.entries.iter().for_each(|entry| _ = walk.entry(entry));
        walk.goes_down(CrashKind::Process, 100);
        let look = Look::default();
        let (clean, failing) = (false, false);
        let whole = [Recovered { end: 3, ..recovered() }];
        walk.started_beside(
            &StartBeside { clean, noted, failing, refused: &[], said: &whole, look: &look },
            100,
        );
        walk.goes_down(CrashKind::Power, 100);
        let said = [Recovered { end: 3, damage: vec![(log(0), 0, 40, 1, 2)], ..recovered() }];
        walk.started_beside(
            &StartBeside { clean, noted: true, failing, refused: &[], said: &said, look: &look },
            100,
        );
        walk.findings.first().map(|broken| broken.kind)
    };
    assert_eq!(story(true), Some("false alarm"));
    assert_eq!(story(false), None, "nor does the next one know");
}
