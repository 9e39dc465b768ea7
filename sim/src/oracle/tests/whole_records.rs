//! P2: a start cuts off no whole record.

use super::{Answer, CrashKind, Mode, Moment, Request, Story, records};

const NONE: [&str; 0] = [];

/// The lights go out; these logs are left, and the start says that the log ends here.
fn left(logs: &[(u64, &[u8])], end: u64) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.stored("abcd", 0);
    story.crash(CrashKind::Power);
    story.image(Moment::Down, logs);
    story.starts();
    story.found(end, &[]);
    story.broken()
}

/// The same, of a topic with retention, where the start says that the log starts here.
fn starts(logs: &[(u64, &[u8])], start: u64) -> Vec<&'static str> {
    let mut story = Story::bare(Mode::Os);
    let (topic, retention_ms) = ("orders".into(), None);
    let keeps = Request::CreateTopic { topic, partitions: 1, retention_bytes: Some(100), retention_ms };
    let id = story.call(keeps);
    story.answer(id, Answer::Done);
    story.stored("abcd", 0);
    story.crash(CrashKind::Process);
    story.image(Moment::Down, logs);
    story.starts();
    story.found_from(start, 4, &[]);
    story.broken()
}

#[test]
fn no_start_takes_what_retention_has_left() {
    let (first, second) = (records(0, "ab"), records(2, "cd"));
    assert_eq!(starts(&[(0, &first), (2, &second)], 0), NONE);
    assert_eq!(starts(&[(0, &first), (2, &second)], 2), ["start cut"]);
    assert_eq!(starts(&[(2, &second)], 2), NONE);
    assert_eq!(starts(&[(0, &[]), (2, &second)], 2), NONE);
}

#[test]
fn whole_records_are_there_after_a_start() {
    let (first, second) = (records(0, "ab"), records(2, "cd"));
    assert_eq!(left(&[(0, &first), (2, &second)], 4), NONE);
    assert_eq!(left(&[(0, &first), (2, &second)], 3), ["whole record cut"]);
    assert_eq!(left(&[(0, &first)], 2), NONE);
    assert_eq!(left(&[(0, &first)], 0), ["whole record cut"]);
    assert_eq!(left(&[(1, &records(1, "b"))], 1), ["whole record cut"]);
}

#[test]
fn what_lies_behind_a_tear_or_a_gap_need_not_be() {
    let second = records(2, "cd");
    let torn = [records(0, "ab"), vec![0; 7]].concat();
    assert_eq!(left(&[(0, &torn), (2, &second)], 2), NONE);
    assert_eq!(left(&[(0, &torn), (2, &second)], 1), ["whole record cut"]);
    assert_eq!(left(&[(0, &records(0, "a")), (2, &second)], 1), NONE);
    assert_eq!(left(&[], 0), NONE);
}

#[test]
fn what_lies_in_two_segments_is_that_of_the_later_one() {
    let both = records(0, "abc");
    assert_eq!(left(&[(0, &both), (2, &[])], 2), NONE);
    assert_eq!(left(&[(0, &both), (2, &[])], 1), ["whole record cut"]);
}
