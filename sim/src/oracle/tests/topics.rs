//! Topics that come into being: what is known of them while nobody has been told, and what is sent to them meanwhile.

use super::{Answer, At, Code, CrashKind, Event, Mode, Moment, Request, Story, create, delete, refused};

const NONE: [&str; 0] = [];

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
