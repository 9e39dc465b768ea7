//! Topics that come into being: what is known of them while nobody has been told, what is sent to them meanwhile,
//! and which of them a lying disk may take, or bring back.

use faults::Op;

use super::{
    Answer, At, Code, CrashKind, DiskOp, Event, Mode, Moment, Placed, Recovered, Request, Sent, Story, image,
    op, recovered, value,
};
use crate::oracle::p10_routed::partition_of;
use crate::trace::ListedPartition;

const NONE: [&str; 0] = [];

fn create() -> Request {
    let (retention_bytes, retention_ms) = (None, None);
    Request::CreateTopic { topic: "orders".into(), partitions: 1, retention_bytes, retention_ms }
}

fn delete() -> Request {
    Request::DeleteTopic { topic: "orders".into() }
}

fn refused(code: Code) -> Answer {
    Answer::Refused { code, message: String::new(), offset: None }
}

fn lost() -> Answer {
    Answer::Lost { why: "timeout".into(), sent: true, told: false }
}

fn looks_in_vain(story: &mut Story) {
    story.add(Event::LookBegins);
    let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Latest });
    story.answer(id, refused(Code::UnknownTopic));
    story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
}

#[test]
fn a_look_that_nobody_answered_says_nothing_of_a_topic() {
    let story = |answered: bool| {
        let mut story = Story::bare(Mode::Os);
        let id = story.call(create());
        story.lost(id);
        for last in [false, true] {
            story.add(Event::LookBegins);
            let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Latest });
            match (last, answered) {
                (true, _) => story.answer(id, refused(Code::UnknownTopic)),
                (false, true) => story.answer(id, Answer::Offset(Some((0, 0)))),
                (false, false) => story.lost(id),
            }
            story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
            story.again(CrashKind::Process);
        }
        story.broken()
    };
    assert_eq!(story(false), NONE);
    assert_eq!(story(true), ["topic lost"]);
}

#[test]
fn a_record_may_have_been_sent_before_anybody_knew_of_its_topic() {
    let mut story = Story::bare(Mode::Os);
    let made = story.call(create());
    let sent = story.asks("a");
    story.crash(CrashKind::Process);
    story.lost(sent);
    story.lost(made);
    story.start();
    story.look("a");
    assert_eq!(story.broken(), NONE);
    story.look("ab");
    assert_eq!(story.broken(), ["nobody's bytes"]);
}

#[test]
fn who_uses_a_topic_may_be_told_of_it_before_who_made_it() {
    let mut story = Story::bare(Mode::Os);
    let made = story.call(create());
    story.stored("a", 0);
    story.answer(made, Answer::Done);
    story.look("a");
    assert_eq!(story.broken(), NONE);
    story.look("");
    assert_eq!(story.broken(), ["lost"]);
}

/// Which of a deletion and a creation came first is not known where they overlap, and what is there then may be either. One that comes
/// after both is certain again.
#[test]
fn a_topic_that_is_made_while_it_is_deleted_is_there_or_not() {
    let story = |overlap: bool, then_deleted: bool, is_there: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        let made = overlap.then(|| story.call(create()));
        let gone = story.call(delete());
        made.into_iter().for_each(|made| story.answer(made, Answer::Done));
        story.answer(gone, Answer::Done);
        if then_deleted {
            let gone = story.call(delete());
            story.answer(gone, Answer::Done);
        }
        story.crash(CrashKind::Process);
        story.starts();
        story.image(Moment::Recovered, if is_there { &[(0, &[])] } else { &[] });
        story.broken()
    };
    for is_there in [true, false] {
        assert_eq!(story(true, false, is_there), NONE);
        let expected: &[&str] = if is_there { &["topic back"] } else { &[] };
        assert_eq!(story(false, false, is_there), expected);
        assert_eq!(story(true, true, is_there), expected);
    }
}

/// What was on its way as its topic was deleted went with that, or is in one of its name: nobody can hold the broker to it.
#[test]
fn a_record_that_is_stored_while_its_topic_is_deleted_is_in_no_topic_for_certain() {
    let story = |deleted: bool| {
        let mut story = Story::new(Mode::Always);
        let id = story.asks("a");
        if deleted {
            let gone = story.call(delete());
            story.answer(gone, Answer::Done);
            let made = story.call(create());
            story.told(id, 1, 0);
            story.answer(made, Answer::Done);
        } else {
            story.told(id, 1, 0);
        }
        story.again(CrashKind::Process);
        story.look("");
        story.broken()
    };
    assert_eq!(story(true), NONE);
    assert_eq!(story(false), ["lost"]);
}

/// A topic gets its name, or loses it, and the top directory is synced, or is said to be.
fn renames(story: &mut Story, from: &str, to: &str, lies: bool) {
    story.add(Event::Disk(DiskOp { to: Some(to.into()), ..op(Op::Rename, from, Ok(0)) }));
    syncs(story, lies);
}

fn syncs(story: &mut Story, lies: bool) {
    story.add(Event::Disk(DiskOp { lies, ..op(Op::SyncDir, "", Ok(0)) }));
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
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", lies);
        story.answer(id, Answer::Done);
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
    let mut story = Story::bare(Mode::Always);
    let id = story.call(create());
    story.add(Event::Disk(DiskOp { to: Some("orders".into()), ..op(Op::Rename, "orders~new", Ok(0)) }));
    story.answer(id, Answer::Done);
    story.again(CrashKind::Power);
    looks_in_vain(&mut story);
    assert_eq!(story.broken(), ["topic lost"]);
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
            let id = story.call(delete());
            renames(&mut story, "orders", "orders~gone", false);
            story.answer(id, Answer::Done);
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
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", lies);
        story.answer(id, Answer::Done);
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
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", lies);
        story.answer(id, Answer::Done);
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

#[test]
fn where_nobody_knows_whether_a_topic_was_made_anew_a_look_shows_it() {
    let story = |between: &str, looks: &[&str]| {
        let mut story = Story::new(Mode::Os);
        story.stored("ab", 0);
        for request in [delete(), create()] {
            let id = story.call(request);
            story.answer(id, lost());
        }
        for (offset, letter) in (0..).zip(between.chars()) {
            story.stored(&letter.to_string(), offset);
        }
        looks.iter().for_each(|found| story.look(found));
        story.broken()
    };
    assert_eq!(story("", &["ab", "ab"]), NONE, "it is the old one");
    assert_eq!(story("", &["", ""]), NONE, "it is the new one");
    assert_eq!(story("", &["a"]), ["lost"]);
    assert_eq!(story("", &["ab", ""]), ["lost"]);
    assert_eq!(story("c", &["c", "c"]), NONE);
    assert_eq!(story("c", &["c", ""]), ["lost"]);
    assert_eq!(story("cd", &["c"]), ["lost"]);
    assert_eq!(story("c", &["cx"]), ["nobody's bytes"]);
}

#[test]
fn of_two_empty_topics_the_number_of_partitions_shows_which_one_is_there() {
    // How many partitions the new one is to have, how many there are, and how many are listed then.
    let story = |new: u32, there: u32, listed: u32| {
        let mut story = Story::new(Mode::Os);
        let (retention_bytes, retention_ms) = (None, None);
        let topic = "orders".into();
        let made = Request::CreateTopic { topic, partitions: new, retention_bytes, retention_ms };
        for request in [delete(), made] {
            let id = story.call(request);
            story.answer(id, lost());
        }
        story.add(Event::LookBegins);
        for partition in 0..new.max(1) {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition, at: At::Latest });
            let answer = Answer::Offset(Some((0, 0)));
            story.answer(id, if partition < there { answer } else { refused(Code::UnknownPartition) });
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        let id = story.call(Request::ListPartitions { topic: "orders".into() });
        let (start, end, bytes, fenced, unopened) = (0, 0, 0, false, false);
        let partition = |number| ListedPartition { number, start, end, bytes, fenced, unopened };
        story.answer(id, Answer::Partitions((0..listed).map(partition).collect()));
        story.broken()
    };
    assert_eq!(story(2, 1, 1), NONE, "it is the old one");
    assert_eq!(story(2, 2, 2), NONE, "it is the new one");
    assert_eq!(story(2, 1, 2), ["partitions not listed"]);
    assert_eq!(story(2, 2, 1), ["partitions not listed"]);
}

/// A topic of two partitions that a lie has brought back: nobody knows how many it has.
#[test]
fn nobody_knows_where_a_record_goes_in_a_topic_that_came_back() {
    let story = |lies: bool, partition: u32| {
        let mut story = Story::with_partitions(Mode::Os, 2);
        if lies {
            let id = story.call(delete());
            renames(&mut story, "orders", "orders~gone", true);
            story.answer(id, Answer::Done);
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

/// Nobody knows whether a topic was made. It is asked for again, and a record is stored before that one's answer says that it is new.
#[test]
fn a_record_may_be_in_the_topic_whose_making_was_answered_last() {
    let story = |found: &str| {
        let mut story = Story::bare(Mode::Os);
        let id = story.call(create());
        story.answer(id, lost());
        let id = story.call(create());
        story.stored("a", 0);
        story.answer(id, Answer::Done);
        found.split(' ').for_each(|found| story.look(found));
        story.broken()
    };
    assert_eq!(story("a"), NONE);
    assert_eq!(story("a a"), NONE);
    assert_eq!(story("a "), ["lost"]);
    assert_eq!(story("aa"), ["a second copy"]);
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
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", lies);
        story.answer(id, Answer::Done);
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
        let id = story.call(delete());
        renames(&mut story, "orders", "orders~gone", true);
        story.answer(id, Answer::Done);
        story.again(CrashKind::Power);
        story.add(Event::LookBegins);
        for partition in 0..2 {
            let id = story.call(Request::Offsets { topic: "orders".into(), partition, at: At::Latest });
            let is_there = partition < there;
            story.answer(
                id,
                if is_there { Answer::Offset(Some((0, 0))) } else { refused(Code::UnknownPartition) },
            );
        }
        story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
        story.crash(CrashKind::Process);
        story.starts();
        story.says(Recovered { fenced: Some("its logs are gone".into()), ..recovered() });
        story.broken()
    };
    assert_eq!(story(1), NONE);
    assert_eq!(story(0), ["fenced"]);
}
