//! P9: damage is named where it is, and nowhere else.

use super::{CrashKind, Event, Mode, Story, log};

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

#[test]
fn what_is_damaged_is_not_said_to_be_out_of_range() {
    let story = |found: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        story.add(Event::Fault { text: "rot".into(), path: Some(log(0).into()), damages: true });
        story.look(found);
        story.broken()
    };
    assert_eq!(story("a.c"), NONE);
    assert_eq!(story("a?c"), ["not named"]);
}
