//! P1: segments follow one another, and hold nothing but records.

use super::{Answer, At, CrashKind, Event, Mode, Request, Story, records};

const NONE: [&str; 0] = [];

/// What the oracle says of two records in one log and one in another with this base, after a power loss.
fn shaken(mode: Mode, second: u64) -> Vec<&'static str> {
    let mut story = Story::new(mode);
    story.again(CrashKind::Power);
    story.stored("ab", 0);
    story.stored("c", second);
    let unread: String = (2..second).map(|_| '.').collect();
    story.look_at(&format!("ab{unread}c"), &[(0, &records(0, "ab")), (second, &records(second, "c"))]);
    story.broken()
}

#[test]
fn a_power_loss_is_no_excuse_for_offsets_that_a_roll_has_left_out() {
    for mode in [Mode::Os, Mode::Always] {
        assert_eq!(shaken(mode, 2), [""; 0]);
        assert!(shaken(mode, 5).contains(&"segments"), "{mode:?}");
    }
}

#[test]
fn what_a_power_loss_leaves_is_cut_off_where_nothing_is_kept_behind_a_hole() {
    let story = |mode| {
        let mut story = Story::new(mode);
        story.stored("ab", 0);
        story.again(CrashKind::Power);
        let hole = [vec![0; 29], records(1, "b")].concat();
        story.stored("c", 2);
        story.look_at(".bc", &[(0, &hole), (2, &records(2, "c"))]);
        story.broken()
    };
    assert!(story(Mode::Os).contains(&"bad bytes"));
    assert!(!story(Mode::Always).contains(&"bad bytes"), "what was acknowledged behind it stays");
}

/// A power loss has taken the header of a record that was never acknowledged, and a value that holds records is left.
#[test]
fn a_log_goes_on_behind_what_a_record_in_a_hole_has_shown() {
    let story = |shown: u64| {
        let mut story = Story::new(Mode::Always);
        story.stored("ab", 0);
        story.again(CrashKind::Power);
        let hole = [vec![0; 29], records(shown, "x"), records(1, "b")].concat();
        story.stored("c", 5);
        story.look_at(".b...c", &[(0, &hole), (5, &records(5, "c"))]);
        story.broken()
    };
    assert!(!story(4).contains(&"segments"));
    assert!(story(3).contains(&"segments"));
}

#[test]
fn a_look_ends_where_the_broker_says_that_the_log_does() {
    let story = |latest: u64| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        story.add(Event::LookBegins);
        let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Latest });
        story.answer(id, Answer::Offset(Some((latest, 0))));
        let id = story.consume(0, 0);
        story.fetched(id, 0, 'a', 2);
        let id = story.consume(0, 1);
        story.fetched(id, 1, 'b', 2);
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    assert_eq!(story(2), NONE);
    assert_eq!(story(1), NONE, "a record came between");
    assert_eq!(story(3), ["latest"]);
}
