//! Topics that come into being: what is known of them while nobody has been told, and what is sent to them meanwhile.

use super::{Answer, At, Code, CrashKind, Event, Mode, Request, Story};

const NONE: [&str; 0] = [];

fn create() -> Request {
    let (retention_bytes, retention_ms) = (None, None);
    Request::CreateTopic { topic: "orders".into(), partitions: 1, retention_bytes, retention_ms }
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
                (true, _) => story.answer(
                    id,
                    Answer::Refused { code: Code::UnknownTopic, message: String::new(), offset: None },
                ),
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
