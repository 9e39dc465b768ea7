//! P4: all of a request or nothing of it, and nothing of it later; also where several requests hold the same bytes.

use super::{Answer, Code, CrashKind, Event, Mode, Moment, Request, Story, records};

const NONE: [&str; 0] = [];

/// What the oracle says of a partition that holds `found` after these requests, of none of which anything is known.
fn unknown(requests: &[&str], found: &str) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    requests.iter().for_each(|letters| story.unknown(letters));
    story.look(found);
    story.broken()
}

/// The same where the broker was killed before it was looked at.
fn killed(requests: &[&str], found: &str) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    requests.iter().for_each(|letters| story.unknown(letters));
    story.again(CrashKind::Process);
    story.look(found);
    story.broken()
}

#[test]
fn a_request_is_there_whole_or_not_at_all() {
    for found in ["", "abc"] {
        assert_eq!(unknown(&["abc"], found), NONE, "{found:?}");
    }
    for found in ["a", "ab", "c", "ac", "bc", "acb"] {
        assert_eq!(unknown(&["abc"], found), ["half there"], "{found:?}");
    }
}

#[test]
fn a_process_that_was_killed_may_leave_the_beginning_only() {
    for found in ["", "a", "ab", "abc"] {
        assert_eq!(killed(&["abc"], found), NONE, "{found:?}");
    }
    for found in ["b", "ac", "bc", "cab"] {
        assert_eq!(killed(&["abc"], found), ["half there"], "{found:?}");
    }
}

#[test]
fn half_a_request_is_noticed_beside_one_with_the_same_bytes() {
    for found in ["ab", "abab"] {
        assert_eq!(unknown(&["ab", "ab"], found), NONE, "{found:?}");
    }
    for found in ["a", "aab", "aba", "abba"] {
        assert_eq!(unknown(&["ab", "ab"], found), ["half there"], "{found:?}");
    }
    // Three times the same two records, and there were two requests with them.
    assert_eq!(unknown(&["ab", "ab"], "ababab")[0], "a second copy");
}

#[test]
fn requests_that_begin_alike_are_told_apart_by_what_follows() {
    for found in ["aab", "aaaab", "aabaa", "aa", "aaaaab", "aaaaaab"] {
        assert_eq!(unknown(&["aaa", "aa", "aab", "a"], found), NONE, "{found:?}");
    }
    for found in ["ab", "baa", "aaab", "aaaba"] {
        let requests = ["aa", "aab"];
        assert_eq!(unknown(&requests, found), ["half there"], "{found:?}");
    }
}

#[test]
fn a_request_of_one_record_is_not_taken_for_half_of_another() {
    for found in ["a", "aab", "aba", "ab"] {
        assert_eq!(unknown(&["ab", "a"], found), NONE, "{found:?}");
        assert_eq!(unknown(&["a", "ab"], found), NONE, "{found:?}");
    }
    assert_eq!(unknown(&["a", "ab"], "b"), ["half there"]);
    assert_eq!(unknown(&["ab", "a"], "ba"), ["half there"]);
}

#[test]
fn beginnings_of_requests_with_the_same_bytes() {
    for found in ["ab", "aba", "aab", "abab", "aa"] {
        assert_eq!(killed(&["abc", "ab"], found), NONE, "{found:?}");
    }
    for found in ["abcab", "ababc", "aabc"] {
        assert_eq!(killed(&["abc", "ab"], found), NONE, "{found:?}");
    }
    for found in ["ba", "acb", "cab"] {
        assert_eq!(killed(&["abc", "ab"], found), ["half there"], "{found:?}");
    }
}

#[test]
fn a_hole_of_one_request_is_not_filled_by_another_with_its_bytes() {
    let story = |found: &str| {
        let mut story = Story::new(Mode::Always);
        story.unknown("abc");
        story.again(CrashKind::Power);
        story.look("..c");
        story.unknown("ab");
        story.again(CrashKind::Power);
        story.look(found);
        story.broken()
    };
    assert_eq!(story("..cab"), NONE);
    assert_eq!(story("..ca"), NONE);
    assert_eq!(story("..cb"), ["half there"]);
    // Where the hole was, the other one's records may not lie.
    assert_eq!(story("b.c"), ["half there"]);
}

#[test]
fn what_lies_in_a_hole_is_no_record_of_another_request() {
    let mut story = Story::new(Mode::Always);
    story.unknown("abc");
    story.unknown("x");
    story.again(CrashKind::Power);
    story.look("axc");
    assert_eq!(story.broken(), ["half there"]);
}

#[test]
fn what_was_not_there_after_a_start_never_comes() {
    let mut story = Story::new(Mode::Os);
    story.unknown("a");
    story.again(CrashKind::Process);
    story.look("");
    story.stored("b", 0);
    story.look("ba");
    assert_eq!(story.broken(), ["came back"]);
}

#[test]
fn a_request_that_is_under_way_may_still_come() {
    // The network holds it back for longer than the client waits; only a start puts an end to it.
    let mut story = Story::new(Mode::Os);
    story.unknown("a");
    story.look("");
    story.look("a");
    assert_eq!(story.broken(), NONE);
}

#[test]
fn a_record_that_could_not_be_read_may_be_what_is_missing() {
    let mut story = Story::new(Mode::Always);
    story.unknown("a");
    story.again(CrashKind::Power);
    story.look(".");
    story.look("a");
    assert_eq!(story.broken(), NONE);
}

#[test]
fn refused_records_are_absent_also_beside_unknown_ones_with_the_same_bytes() {
    let story = |found: &str| {
        let mut story = Story::new(Mode::Os);
        story.refused("ab");
        story.unknown("ab");
        story.look(found);
        story.broken()
    };
    assert_eq!(story("ab"), NONE);
    assert_eq!(story("a"), ["half there"]);
    assert_eq!(story("abab")[0], "refused is there");
    assert_eq!(story("aba")[0], "refused is there");
}

#[test]
fn a_record_without_a_partition_gives_way_to_one_that_chose_it() {
    let mut story = Story::with_partitions(Mode::Os, 2);
    let records = [super::Sent { key: None, value: super::value('a') }];
    let anywhere = Request::Produce { topic: "orders".into(), partition: None, records: records.into() };
    let id = story.call(anywhere);
    story.lost(id);
    story.unknown("a");
    story.reads(0, 0, 'a');
    story.reads(1, 0, 'a');
    assert_eq!(story.broken(), NONE);
    story.reads(1, 1, 'a');
    assert_eq!(story.broken(), ["a second copy"]);
}

/// What the oracle says of a request of four records `a` without keys, two of which were read in partition 1, and of partition 0.
fn in_turn(found: &str) -> Vec<&'static str> {
    let mut story = Story::with_partitions(Mode::Os, 2);
    let records: Vec<_> = "aaaa".chars().map(|a| super::Sent { key: None, value: super::value(a) }).collect();
    let anywhere = Request::Produce { topic: "orders".into(), partition: None, records: records.into() };
    let id = story.call(anywhere);
    story.lost(id);
    if let Some(at) = found.find('x') {
        story.stored("x", at as u64);
    }
    // The later one first: it is taken for a neighbour of the other.
    story.reads(1, 1, 'a');
    story.reads(1, 0, 'a');
    story.look(found);
    story.broken()
}

#[test]
fn records_in_turn_change_places_and_must_still_lie_together() {
    for found in ["aa", "aax", "xaa"] {
        assert_eq!(in_turn(found), NONE, "{found:?}");
    }
    assert_eq!(in_turn("axa"), ["half there"]);
}

#[test]
fn many_requests_with_the_same_bytes_are_told_apart() {
    let requests: Vec<&str> = (0..90).flat_map(|_| ["ab", "a", "aba"]).collect();
    let found = "aba".repeat(30) + &"ab".repeat(30) + &"a".repeat(30);
    assert_eq!(unknown(&requests, &found), NONE);
    assert_eq!(unknown(&["aab"; 90], &("aab".repeat(89) + "aa")), ["half there"]);
}

#[test]
fn a_topic_that_was_deleted_does_not_come_back_with_a_start() {
    let story = |made_anew: Option<Answer>| {
        let mut story = Story::new(Mode::Os);
        let id = story.call(Request::DeleteTopic { topic: "orders".into() });
        story.answer(id, Answer::Done);
        if let Some(answer) = made_anew {
            let (retention_bytes, retention_ms) = (None, None);
            let topic = "orders".into();
            let id = story.call(Request::CreateTopic { topic, partitions: 1, retention_bytes, retention_ms });
            story.fails_with(faults::Op::MakeDir, faults::Errno::ENOSPC);
            story.answer(id, answer);
        }
        story.crash(CrashKind::Process);
        story.starts();
        story.image(Moment::Recovered, &[(0, &[])]);
        story.broken()
    };
    let refused = |code| Answer::Refused { code, message: String::new(), offset: None };
    let lost = |sent| Answer::Lost { why: "timeout".into(), sent, told: false };
    assert_eq!(story(None), ["topic back"]);
    assert_eq!(story(Some(Answer::Done)), NONE);
    assert_eq!(story(Some(lost(true))), NONE);
    assert_eq!(story(Some(refused(Code::OutcomeUnknown))), NONE);
    assert_eq!(story(Some(refused(Code::StorageFull))), ["topic back"]);
    assert_eq!(story(Some(lost(false))), ["topic back"]);
}

/// A disk that lies brings back a record that was refused and cut off, in the place of one that was acknowledged since.
#[test]
fn what_a_lying_disk_brings_back_has_taken_the_place_of_what_it_lost() {
    let story = |lying: bool| {
        let mut story = Story::new(Mode::Os);
        story.refused("x");
        story.stored("a", 0);
        story.lying = lying;
        story.again(CrashKind::Power);
        story.look("x");
        story.reads(0, 0, 'x');
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["refused is there", "another record"]);
}

/// Of a request that nobody has heard of again, a hand takes the end before anybody has read it.
#[test]
fn what_damage_took_of_a_request_is_not_missed() {
    let story = |is_cut: bool| {
        let mut story = Story::new(Mode::Os);
        story.unknown("abcd");
        if is_cut {
            story.touches(&[(0, &records(0, "abcd"))], &[(0, &records(0, "ab"))]);
        }
        story.look("ab..");
        story.broken().contains(&"half there")
    };
    assert!(!story(true));
    assert!(story(false));
}

/// Where nobody could look, the rest of a request may be there: that it was not seen tells nothing.
#[test]
fn a_request_that_was_read_in_part_is_not_half_there_where_nobody_could_look() {
    let story = |gave_up: bool| {
        let mut story = Story::new(Mode::Os);
        story.unknown("ab");
        story.reads(0, 0, 'a');
        story.add(Event::LookBegins);
        let id = story.consume(0, 0);
        story.fetched(id, 0, 'a', 1);
        let unseen = if gave_up { vec![("orders".into(), 0)] } else { Vec::new() };
        story.add(Event::LookEnds { complete: true, unseen });
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert!(story(false).contains(&"half there"), "it is all that there is");
}
