//! P9, P6: what a clean stop left in order is found in order, whatever struck before the run that it ended, or in it without
//! doing harm.

use faults::Op;

use super::{CrashKind, Event, Mode, Story, log};

const NONE: [&str; 0] = [];

/// A fault strikes, the broker stops, and starts.
fn story(before: &dyn Fn(&mut Story), after: &dyn Fn(&mut Story), known: bool) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.stored("a", 0);
    before(&mut story);
    story.crash(CrashKind::Stop);
    story.stopped = known;
    story.starts();
    after(&mut story);
    story.started(&[]);
    story.broken()
}

#[test]
fn a_clean_stop_is_known_whatever_struck_before_it_and_did_no_harm() {
    let stalls = |story: &mut Story| story.stalls(Op::Write, 1);
    let fails = |story: &mut Story| story.fails(Op::Write);
    let nothing = |_: &mut Story| ();
    assert_eq!(story(&nothing, &nothing, true), NONE);
    assert_eq!(story(&nothing, &nothing, false), ["clean stop forgotten"]);
    assert_eq!(story(&stalls, &nothing, false), ["clean stop forgotten"]);
    assert_eq!(story(&fails, &nothing, false), NONE);
    assert_eq!(story(&nothing, &stalls, false), NONE, "it may have struck the mark");
    let long_ago = |story: &mut Story| {
        story.fails(Op::Write);
        story.again(CrashKind::Process);
    };
    assert_eq!(story(&long_ago, &nothing, false), ["clean stop forgotten"]);
    let in_the_start = |story: &mut Story| {
        story.crash(CrashKind::Process);
        story.starts();
        story.fails(Op::Rename);
        story.started(&[]);
    };
    assert_eq!(story(&in_the_start, &nothing, false), NONE);
    let taken_back = |story: &mut Story| {
        story.takes_back();
        story.add(Event::NotStarted { error: "".into() });
        story.starts();
    };
    assert_eq!(story(&nothing, &taken_back, false), NONE);
    let lies = |story: &mut Story| story.lies(&log(0));
    assert_eq!(story(&lies, &nothing, true), NONE);
}
