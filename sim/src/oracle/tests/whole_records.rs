//! P2: a start cuts off no whole record.

use super::{CrashKind, Mode, Moment, Story, records};

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
