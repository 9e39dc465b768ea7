//! Topics that a power loss takes, or brings back, over a disk that has lied about what lies above their partitions.

use faults::Op;

use super::{
    Answer, Code, CrashKind, DiskOp, Event, Mode, Moment, Placed, Recovered, Request, Sent, Story, create,
    delete, image, looks_in_vain, lost, op, recovered, refused, value,
};
use crate::oracle::p10_routed::partition_of;

const NONE: [&str; 0] = [];

/// A topic gets its name, or loses it, and the top directory is synced, or is said to be.
fn renames(story: &mut Story, from: &str, to: &str, lies: bool) {
    story.add(Event::Disk(DiskOp { to: Some(to.into()), ..op(Op::Rename, from, Ok(0)) }));
    syncs(story, lies);
}

fn syncs(story: &mut Story, lies: bool) {
    story.add(Event::Disk(DiskOp { lies, ..op(Op::SyncDir, "", Ok(0)) }));
}

/// The topic is deleted, and whoever asked for it is told.
fn deletes(story: &mut Story, lies: bool) {
    let id = story.call(delete());
    renames(story, "orders", "orders~gone", lies);
    story.answer(id, Answer::Done);
}

/// A topic is made and written to, and perhaps deleted, and then the lights go out. Of its making and of its deletion: whether the sync
/// is a lie.
fn made_and_deleted(made: bool, deleted: Option<bool>, mends: bool, kind: CrashKind) -> Story {
    let mut story = Story::bare(Mode::Always);
    let id = story.call(create());
    renames(&mut story, "orders~new", "orders", made);
    story.answer(id, Answer::Done);
    story.stored("a", 0);
    if let Some(lies) = deleted {
        deletes(&mut story, lies);
    }
    if mends {
        syncs(&mut story, false);
    }
    story.crash(kind);
    story
}

/// What the oracle says where the topic is there then with its record, where it is there without it, and where it is not.
fn then_there_or_not(story: impl Fn() -> Story) -> [Vec<&'static str>; 3] {
    let looks = |found: &str| {
        let mut story = story();
        story.starts();
        story.add(Event::Image { moment: Moment::Recovered, image: image(&[(0, &[])]) });
        story.started(&[]);
        story.look(found);
        story.broken()
    };
    let mut gone = story();
    gone.start();
    looks_in_vain(&mut gone);
    [looks("a"), looks(""), gone.broken()]
}

#[test]
fn a_lie_about_the_top_directory_may_cost_a_topic_that_was_made_or_bring_back_one_that_was_deleted() {
    let [power, process] = [CrashKind::Power, CrashKind::Process];
    let made = |lies, mends, kind| then_there_or_not(|| made_and_deleted(lies, None, mends, kind));
    assert_eq!(made(true, false, power)[2], NONE);
    for (lies, mends, kind) in [(false, false, power), (true, true, power), (true, false, process)] {
        let [with, without, gone] = made(lies, mends, kind);
        assert_eq!(with, NONE);
        assert_eq!((&without[..], &gone[..]), (&["lost"][..], &["topic lost"][..]), "{lies} {mends}");
    }
    let deleted = |lies, mends, kind| then_there_or_not(|| made_and_deleted(false, Some(lies), mends, kind));
    assert_eq!(deleted(true, false, power), [NONE; 3]);
    for (lies, mends, kind) in [(false, false, power), (true, true, power), (true, false, process)] {
        let [with, _, gone] = deleted(lies, mends, kind);
        assert_eq!((&with[..], &gone[..]), (&["topic back"][..], &NONE[..]), "{lies} {mends}");
    }
}

/// The disk lies about a directory while a topic is made, and the lights go out.
#[test]
fn a_lie_about_a_topic_in_the_making_may_cost_what_is_in_it() {
    let story = |path: &str, found: Option<&str>| {
        let mut story = Story::bare(Mode::Always);
        let id = story.call(create());
        story.struck(DiskOp { lies: true, ..op(Op::SyncDir, path, Ok(0)) });
        renames(&mut story, "orders~new", "orders", false);
        story.answer(id, Answer::Done);
        story.stored("a", 0);
        story.again(CrashKind::Power);
        match found {
            Some(found) => story.look(found),
            None => looks_in_vain(&mut story),
        }
        story.broken()
    };
    assert_eq!(story("orders~new", None), NONE);
    assert_eq!(story("orders~new", Some("")), NONE);
    assert_eq!(story("orders~new/0", Some("")), NONE);
    assert_eq!(story("orders~new/0", None), ["topic lost"], "its name is there");
    for path in ["parcels~new", "parcels~new/0", "orders~new/1"] {
        assert!(story(path, Some("")).contains(&"lost"), "{path}");
        assert_eq!(story(path, None), ["topic lost"], "{path}");
    }
}

#[test]
fn a_directory_that_nobody_has_synced_is_no_lie() {
    let story = |lied_before: bool| {
        let mut story = Story::bare(Mode::Always);
        if lied_before {
            syncs(&mut story, true);
            syncs(&mut story, false);
        }
        let id = story.call(create());
        let renamed = DiskOp { to: Some("orders".into()), ..op(Op::Rename, "orders~new", Ok(0)) };
        story.add(Event::Disk(renamed));
        story.answer(id, Answer::Done);
        story.again(CrashKind::Power);
        looks_in_vain(&mut story);
        story.broken()
    };
    assert_eq!([story(false), story(true)], [["topic lost"]; 2]);
}

#[test]
fn a_lie_costs_nothing_that_was_synced_before() {
    let story = |synced: bool| {
        let mut story = Story::bare(Mode::Always);
        let id = story.call(create());
        renames(&mut story, "orders~new", "orders", !synced);
        story.answer(id, Answer::Done);
        renames(&mut story, "parcels~new", "parcels", true);
        story.again(CrashKind::Power);
        looks_in_vain(&mut story);
        story.broken()
    };
    assert_eq!(story(true), ["topic lost"]);
    assert_eq!(story(false), NONE);
}

#[test]
fn where_a_lie_covers_a_deletion_and_the_making_after_it_either_topic_may_be_there() {
    let story = |lies: bool| {
        let mut story = Story::new(Mode::Always);
        story.stored("a", 0);
        for (request, from, to) in [(delete(), "orders", "orders~gone"), (create(), "orders~new", "orders")] {
            let id = story.call(request);
            renames(&mut story, from, to, lies);
            story.answer(id, Answer::Done);
        }
        story.stored("b", 0);
        story.crash(CrashKind::Power);
        story
    };
    assert_eq!(then_there_or_not(|| story(true)), [NONE; 3]);
    let [old, empty, gone] = then_there_or_not(|| story(false));
    assert_eq!([old, empty, gone], [vec!["other bytes"], vec!["lost"], vec!["topic lost"]]);
}

#[test]
fn what_was_in_a_topic_that_was_half_synced_goes_with_it() {
    let story = |anew: bool| {
        let mut story = Story::bare(Mode::Always);
        for last in [false, true] {
            let id = story.call(create());
            if !last {
                story.struck(DiskOp { lies: true, ..op(Op::SyncDir, "orders~new", Ok(0)) });
            }
            renames(&mut story, "orders~new", "orders", false);
            story.answer(id, Answer::Done);
            if last || !anew {
                break;
            }
            deletes(&mut story, false);
        }
        story.again(CrashKind::Power);
        looks_in_vain(&mut story);
        story.broken()
    };
    assert_eq!(story(false), NONE);
    assert_eq!(story(true), ["topic lost"]);
}

/// A topic that a lie has brought back is deleted once more, and nobody knows whether that was carried out.
#[test]
fn a_topic_that_came_back_may_outlast_another_deletion_that_nobody_answers() {
    let story = |lies: bool| {
        let mut story = Story::new(Mode::Always);
        deletes(&mut story, lies);
        story.again(CrashKind::Power);
        let id = story.call(delete());
        story.answer(id, lost());
        story.crash(CrashKind::Process);
        story.starts();
        story.add(Event::Image { moment: Moment::Recovered, image: image(&[(0, &[])]) });
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["topic back"]);
}

/// A topic that a lie has brought back may have taken a record, of which nobody can say that it proves that another one was made.
#[test]
fn who_stores_a_record_in_a_topic_that_came_back_proves_nothing() {
    let story = |lies: bool| {
        let mut story = Story::new(Mode::Always);
        deletes(&mut story, lies);
        story.again(CrashKind::Power);
        let id = story.call(create());
        story.stored("a", 0);
        story.answer(id, lost());
        looks_in_vain(&mut story);
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["topic lost"]);
}

/// A topic is deleted, or is about to be, when the lights go out, and a start finds a partition of it that it cannot open.
#[test]
fn a_topic_that_comes_back_may_lack_what_was_removed_of_it() {
    let story = |lies: bool, answered: bool| {
        let mut story = Story::new(Mode::Always);
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", lies);
        story.answer(id, if answered { Answer::Done } else { lost() });
        story.crash(CrashKind::Power);
        story.starts();
        story.says(Recovered { fenced: Some("its logs are gone".into()), ..recovered() });
        story.broken()
    };
    assert_eq!([story(true, true), story(true, false)], [NONE; 2]);
    assert_eq!([story(false, true), story(false, false)], [["fenced"]; 2]);
}

/// A topic of two partitions that a lie has brought back: nobody knows how many it has.
#[test]
fn nobody_knows_where_a_record_goes_in_a_topic_that_came_back() {
    let story = |lies: bool, partition: u32| {
        let mut story = Story::with_partitions(Mode::Os, 2);
        if lies {
            deletes(&mut story, true);
            story.again(CrashKind::Power);
        }
        let records = [Sent { key: Some("k0".into()), value: value('a') }].into();
        let id = story.call(Request::Produce { topic: "orders".into(), partition: None, records });
        story.answer(id, Answer::Produced(vec![Placed::At(partition, 0)]));
        story.broken()
    };
    let right = partition_of(b"k0", 2);
    assert_eq!(story(false, right), NONE);
    assert_eq!(story(false, 1 - right), ["wrong partition"]);
    assert_eq!([story(true, 0), story(true, 1)], [NONE; 2]);
}

/// Whoever makes or deletes a topic is answered when the lights have gone out already.
#[test]
fn what_a_late_answer_tells_of_a_topic_a_lie_may_have_undone() {
    let crossed = |there: bool, lies: bool, answer: Answer| {
        let mut story = if there { Story::new(Mode::Always) } else { Story::bare(Mode::Always) };
        let (request, from, to) =
            if there { (delete(), "orders", "orders~gone") } else { (create(), "orders~new", "orders") };
        let id = story.call(request);
        renames(&mut story, from, to, lies);
        story.crash(CrashKind::Power);
        story.answer(id, answer);
        story
    };
    let made = |lies| then_there_or_not(|| crossed(false, lies, Answer::Done));
    assert_eq!(made(true)[2], NONE);
    assert_eq!(made(false)[2], ["topic lost"]);
    let deleted = |lies| then_there_or_not(|| crossed(true, lies, Answer::Done));
    assert_eq!(deleted(true)[1], NONE);
    assert_eq!(deleted(false)[1], ["topic back"]);
}

/// A topic is deleted, and somebody asks for it again, to whom the lights going out leave nothing but an error.
#[test]
fn who_could_not_make_a_topic_anew_does_not_know_that_there_is_none() {
    let story = |lies: bool, answer: Answer| {
        let mut story = Story::new(Mode::Always);
        deletes(&mut story, lies);
        let id = story.call(create());
        story.crash(CrashKind::Power);
        story.answer(id, answer);
        story
    };
    let unsent = || Answer::Lost { why: "no connection".into(), sent: false, told: false };
    for answer in [unsent(), refused(Code::StorageFull)] {
        let is_back = |lies| then_there_or_not(|| story(lies, answer.clone()))[1].clone();
        assert_eq!(is_back(true), NONE);
        assert_eq!(is_back(false), ["topic back"]);
    }
}

/// A topic that a lie has brought back has fewer partitions than the one that was made after it.
#[test]
fn a_topic_that_came_back_with_fewer_partitions_is_there() {
    let story = |there: u32| {
        let mut story = Story::new(Mode::Always);
        deletes(&mut story, true);
        story.again(CrashKind::Power);
        story.looks_at_two(there, Code::UnknownPartition);
        story.crash(CrashKind::Process);
        story.starts();
        story.says(Recovered { fenced: Some("its logs are gone".into()), ..recovered() });
        story.broken()
    };
    assert_eq!(story(1), NONE);
    assert_eq!(story(0), ["fenced"]);
}

/// A topic may be back, or gone. Then somebody is told that it was made or deleted, or looks at it: from then on, it is as any other.
#[test]
fn what_is_told_after_the_power_loss_is_certain() {
    let brought_back = || {
        let mut story = Story::new(Mode::Always);
        deletes(&mut story, true);
        story.again(CrashKind::Power);
        story
    };
    let mut made = brought_back();
    let id = made.call(create());
    made.answer(id, Answer::Done);
    let again = |mut story: Story| {
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", false);
        story.crash(CrashKind::Power);
        story.answer(id, Answer::Done);
        story.starts();
        story.add(Event::Image { moment: Moment::Recovered, image: image(&[(0, &[])]) });
        story.broken()
    };
    assert_eq!(again(made), ["topic back"]);
    assert_eq!(again(made_by_a_lie()), NONE);
    let mut seen = made_by_a_lie();
    seen.look("");
    assert_eq!(again(seen), ["topic back"]);

    let mut made = brought_back();
    let id = made.call(create());
    made.answer(id, Answer::Done);
    looks_in_vain(&mut made);
    assert_eq!(made.broken(), ["topic lost"]);

    let fenced = |mut story: Story| {
        story.crash(CrashKind::Process);
        story.starts();
        story.says(Recovered { fenced: Some("its logs are gone".into()), ..recovered() });
        story.broken()
    };
    let mut deleted = brought_back();
    let id = deleted.call(delete());
    deleted.answer(id, Answer::Done);
    assert_eq!(fenced(brought_back()), NONE);
    assert_eq!(fenced(deleted), ["fenced"]);
}

/// A topic that was made while the disk lied about its name, after a power loss.
fn made_by_a_lie() -> Story {
    let mut story = Story::bare(Mode::Always);
    let id = story.call(create());
    renames(&mut story, "orders~new", "orders", true);
    story.answer(id, Answer::Done);
    story.again(CrashKind::Power);
    story
}

/// A topic may be back when somebody asks for one of its name, and is not told whether that was made.
#[test]
fn what_is_read_where_a_topic_may_be_back_may_be_its_own() {
    let story = |lies: bool| {
        let mut story = Story::new(Mode::Always);
        story.stored("a", 0);
        deletes(&mut story, lies);
        story.again(CrashKind::Power);
        let id = story.call(create());
        story.answer(id, lost());
        story.look("a");
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["nobody's bytes"]);
}

/// The disk lies about a topic of two partitions while it is made, and one of them is gone after a power loss.
#[test]
fn a_topic_that_was_half_synced_may_have_fewer_partitions() {
    let story = |path: &str, looks: &[u32]| {
        let mut story = Story::bare(Mode::Always);
        let (retention_bytes, retention_ms) = (None, None);
        let topic = "orders".into();
        let id = story.call(Request::CreateTopic { topic, partitions: 2, retention_bytes, retention_ms });
        story.struck(DiskOp { lies: true, ..op(Op::SyncDir, path, Ok(0)) });
        renames(&mut story, "orders~new", "orders", false);
        story.answer(id, Answer::Done);
        story.again(CrashKind::Power);
        for there in looks {
            story.looks_at_two(*there, Code::UnknownPartition);
        }
        story.broken()
    };
    assert_eq!(story("orders~new", &[1, 1]), NONE);
    assert_eq!(story("orders~new", &[2, 2]), NONE);
    assert_eq!(story("orders~new", &[2, 1]), ["topic lost"]);
    assert_eq!(story("parcels~new", &[1]), ["topic lost"]);
}

#[test]
fn a_refusal_that_comes_late_says_nothing_of_another_topic() {
    let story = |answer: Answer| {
        let mut story = Story::bare(Mode::Always);
        let id = story.call(create());
        renames(&mut story, "orders~new", "orders", true);
        story.answer(id, Answer::Done);
        let id = story.call(create());
        story.crash(CrashKind::Power);
        story.answer(id, answer);
        story.start();
        story.stored("a", 0);
        story.look("");
        story.broken()
    };
    assert_eq!(story(refused(Code::TopicExists)), ["lost"]);
    assert_eq!(story(lost()), NONE);
}
