//! P9, P6: what a clean stop left in order is found in order, whatever struck before the run that it ended, or in it without
//! doing harm.

use faults::{Errno, Op};

use super::{CrashKind, Event, Mode, Recovered, Story, log, op, recovered};

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

/// A start that rots what the stop has noted, and is killed, leaves the next one nothing to know the stop by.
#[test]
fn a_note_of_a_stop_that_rots_as_it_is_read_says_nothing_to_the_start_after_that() {
    let rotten = |path: &'static str| {
        let killed = move |story: &mut Story| {
            story.rots(path);
            story.crash(CrashKind::Power);
            story.starts();
        };
        story(&|_| (), &killed, false)
    };
    assert_eq!(rotten("clean"), NONE);
    assert_eq!(rotten("running"), NONE);
    assert_eq!(rotten("orders/topic"), ["clean stop forgotten"]);
}

/// Where another index interval counts, an index may have to be built anew, and the stop is as clean as any.
#[test]
fn a_clean_stop_is_known_whatever_the_index_interval() {
    let story = |known: bool, rebuilt: &[&str], intervals: [u64; 2]| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        for interval in intervals {
            story.interval = interval;
            story.crash(CrashKind::Stop);
            story.starts();
            if interval == intervals[1] {
                let rebuilt = rebuilt.iter().map(ToString::to_string).collect();
                let partitions = vec![Recovered { end: 1, rebuilt, ..recovered() }];
                story.add(Event::Started { clean: known, partitions, notes: Vec::new() });
            } else {
                story.found(1, &[]);
            }
        }
        story.broken()
    };
    let index = ["00000000000000000000.index"];
    assert_eq!(story(false, &[], [1, 2]), ["clean stop forgotten"]);
    assert_eq!(story(true, &index, [1, 2]), NONE);
    assert_eq!(story(true, &index, [2, 3]), NONE);
    let mut again = Story::new(Mode::Os);
    again.interval = 2;
    again.stored("a", 0);
    again.again(CrashKind::Stop);
    again.crash(CrashKind::Stop);
    again.starts();
    again.says(Recovered { end: 1, rebuilt: vec![index[0].to_owned()], ..recovered() });
    assert_eq!(again.broken(), ["rebuilt after a clean stop"], "it has changed before, and not now");
    // A start with another one may have built it anew and not come to its end.
    for last in [2, 1] {
        let mut killed = Story::new(Mode::Os);
        killed.stored("a", 0);
        killed.crash(CrashKind::Stop);
        killed.interval = 2;
        killed.starts();
        killed.crash(CrashKind::Process);
        (killed.interval, killed.stopped) = (last, true);
        killed.starts();
        killed.says(Recovered { end: 1, rebuilt: vec![index[0].to_owned()], ..recovered() });
        assert_eq!(killed.broken(), NONE, "{last}");
    }
}

/// Where a sync of an index has failed, the page cache may have held what the disk did not: it can be gone after any stop.
#[test]
fn an_index_that_could_not_be_synced_may_have_to_be_built_anew_after_a_clean_stop() {
    let story = |path: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        story.struck(op(Op::Sync, path, Err(Errno::EIO)));
        story.again(CrashKind::Process);
        story.crash(CrashKind::Stop);
        story.stopped = true;
        story.starts();
        let rebuilt = vec!["00000000000000000000.index".to_owned()];
        story.says(Recovered { end: 1, rebuilt, ..recovered() });
        story.broken()
    };
    assert_eq!(story("orders/0/00000000000000000000.index"), NONE);
    assert_eq!(story("orders/1/00000000000000000000.index"), ["rebuilt after a clean stop"]);
}
