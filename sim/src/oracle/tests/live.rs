//! P11: once all is well, a partition works, and at once; only a disk that has failed under it excuses a restart.

use faults::{Errno, Op};

use super::{Answer, Code, CrashKind, Event, Mode, Recovered, Request, Story, log, op, recovered, value};
use crate::trace::{Pace, Placed, Sent, World};

const NONE: [&str; 0] = [];

/// Something happens, all is well, and the first request has this answer; after a restart everything works.
fn story(before: &dyn Fn(&mut Story), answer: Answer) -> Vec<&'static str> {
    let mut story = Story::quiet(Mode::Os, 1);
    before(&mut story);
    story.add(Event::Healed);
    let id = story.asks("a");
    story.answer(id, answer);
    story.again(CrashKind::Process);
    story.stored("b", 0);
    story.reads(0, 0, 'b');
    story.add(Event::Ended);
    story.broken()
}

fn refused(code: Code) -> Answer {
    Answer::Refused { code, message: String::new(), offset: None }
}

fn full(story: &mut Story) {
    story.fails_with(Op::Write, Errno::ENOSPC);
}

fn broken(story: &mut Story) {
    story.fails(Op::Write);
}

#[test]
fn nobody_waits_for_a_restart_to_be_answered() {
    let lost = || Answer::Lost { why: "timeout".into(), sent: true, told: false };
    assert_eq!(story(&|_| {}, lost()), ["no answer"]);
    assert_eq!(story(&broken, lost()), ["no answer"]);
}

#[test]
fn only_a_disk_that_has_failed_excuses_a_restart() {
    let of_a_full_disk = story(&full, refused(Code::StorageFailed));
    assert_eq!(of_a_full_disk, ["refused for nothing", "refused when all is well"]);
    assert_eq!(story(&full, refused(Code::StorageFull)), ["no room for ever"]);
    assert_eq!(story(&full, refused(Code::Fenced)), ["refused for nothing", "no room for ever"]);
    for code in [Code::StorageFailed, Code::Fenced] {
        assert_eq!(story(&broken, refused(code)), NONE);
    }
}

#[test]
fn a_start_fences_nothing_without_a_cause() {
    let story = |before: &dyn Fn(&mut Story), meanwhile: &dyn Fn(&mut Story)| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.stored("a", 0);
        before(&mut story);
        story.crash(CrashKind::Process);
        story.starts();
        meanwhile(&mut story);
        story.says(Recovered { end: 1, fenced: Some("why".into()), ..recovered() });
        story.broken()
    };
    let nothing = |_: &mut Story| {};
    let sync_failed = |story: &mut Story| story.fails(Op::Sync);
    let no_room = |story: &mut Story| story.add(Event::Disk(op(Op::Write, &log(0), Err(Errno::ENOSPC))));
    assert_eq!(story(&nothing, &nothing), ["fenced"]);
    assert_eq!(story(&broken, &nothing), ["fenced"], "what failed before is no excuse any more");
    assert_eq!(story(&nothing, &broken), NONE);
    assert_eq!(story(&|story| story.lies(&log(0)), &nothing), NONE);
    assert_eq!(story(&nothing, &no_room), ["fenced"]);
    assert_eq!(story(&sync_failed, &nothing), ["fenced"]);
    assert_eq!(story(&sync_failed, &no_room), NONE, "there is no room to copy its log");
}

/// What is found is said in the words of the protocol, not of this program.
#[test]
fn an_answer_is_told_as_people_write_it() {
    let mut story = Story::quiet(Mode::Os, 1);
    story.add(Event::Healed);
    for _ in 0..2 {
        let id = story.asks("a");
        story.answer(id, refused(Code::Fenced));
    }
    story.add(Event::Ended);
    let found = story.in_words();
    assert!(
        found.iter().any(|found| found.contains("no produce was acknowledged: REFUSED FENCED")),
        "{found:?}"
    );
    assert!(found.iter().all(|found| !found.contains("Fenced") && !found.contains('{')), "{found:?}");
}

#[test]
fn a_broker_that_is_asked_to_stop_stops() {
    let stops = |fails: bool| {
        let mut story = Story::quiet(Mode::Os, 1);
        story.add(Event::World(World::Stopping));
        if fails {
            story.fails(Op::Sync);
        }
        story.add(Event::Crash { kind: CrashKind::FailedStop, during: "an error".into() });
        story.broken()
    };
    assert_eq!(stops(true), NONE);
    assert_eq!(stops(false), ["does not stop"]);
    let mut story = Story::quiet(Mode::Os, 1);
    story.add(Event::NotStopped { error: "it hangs".into() });
    assert_eq!(story.broken(), ["does not stop"]);
}

#[test]
fn a_broker_that_is_asked_to_stop_stops_soon() {
    let stops = |after: u64, before: &dyn Fn(&mut Story)| {
        let mut story = Story::quiet(Mode::Os, 1);
        before(&mut story);
        story.add(Event::World(World::Stopping));
        story.later(after);
        story.crash(CrashKind::Stop);
        story.broken()
    };
    assert_eq!(stops(100, &|_| {}), NONE);
    assert_eq!(stops(10_000, &|_| {}), ["stops late"]);
    let cut = |story: &mut Story| story.add(Event::World(World::Cut("client".into(), "broker".into())));
    assert_eq!(stops(10_000, &cut), NONE, "somebody may not be heard of");
    assert_eq!(stops(10_000, &|story| story.add(Event::World(World::Raw))), NONE);
    let slow = |sync| World::Pace(Pace { timeout: 2000, sync, ..Pace::default() });
    assert_eq!(stops(1500, &|story| story.add(Event::World(slow(60)))), NONE);
}

/// Whatever was in the way before, or still is: to a question that found no answer nothing else is asked.
#[test]
fn the_last_look_is_answered() {
    let story = |before: World, healed: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        story.add(Event::World(before));
        if healed {
            story.add(Event::Healed);
        }
        story.add(Event::LookBegins);
        let id = story.consume(0, 0);
        story.lost(id);
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.broken()
    };
    let slow = World::Pace(Pace { timeout: 2000, sync: 500, ..Pace::default() });
    for before in [World::Raw, World::Flaky(true), slow] {
        assert_eq!(story(before.clone(), false), NONE, "{before}");
        assert_eq!(story(before.clone(), true), ["no answer"], "{before}");
    }
}

/// Two partitions with a record each; of the first nothing is shown, and of the second nothing is left.
fn seen(complete: bool, unseen: &[u32]) -> Story {
    let mut story = Story::with_partitions(Mode::Os, 2);
    for partition in [0, 1] {
        let records = [Sent { key: None, value: value('a') }].into();
        let id = story.call(Request::Produce { topic: "orders".into(), partition: Some(partition), records });
        story.answer(id, Answer::Produced(vec![Placed::At(partition, 0)]));
    }
    story.add(Event::Healed);
    story.add(Event::LookBegins);
    let id = story.consume(0, 0);
    story.unreadable(id, Code::Corrupt, 0);
    let id = story.consume(1, 0);
    story.answer(id, Answer::Fetched { records: Vec::new(), start: 0, end: 0 });
    let unseen = unseen.iter().map(|partition| ("orders".into(), *partition)).collect();
    story.add(Event::LookEnds { complete, unseen });
    story
}

#[test]
fn a_partition_that_was_not_looked_at_to_its_end_hides_no_other() {
    assert_eq!(seen(true, &[]).broken(), ["unopened", "lost"]);
    assert_eq!(seen(true, &[0]).broken(), ["lost"]);
    assert_eq!(seen(true, &[0, 1]).broken(), NONE);
    assert_eq!(seen(false, &[]).broken(), NONE);
}

#[test]
fn everything_can_be_looked_at_in_the_end() {
    let ends = |mut story: Story| {
        for partition in [0, 1] {
            let records = [Sent { key: None, value: value('b') }].into();
            let produce = Request::Produce { topic: "orders".into(), partition: Some(partition), records };
            let id = story.call(produce);
            story.answer(id, Answer::Produced(vec![Placed::At(partition, 1)]));
            story.reads(partition, 1, 'b');
        }
        story.add(Event::Ended);
        story.broken()
    };
    assert_eq!(ends(seen(true, &[0, 1])), ["could not look"]);
    assert_eq!(ends(seen(false, &[])), ["could not look"]);
    let mut once_more = seen(false, &[]);
    once_more.look("a");
    assert_eq!(ends(once_more), NONE);
}
