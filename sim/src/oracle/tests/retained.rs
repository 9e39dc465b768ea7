//! P2: retention takes no more than it must.

use faults::Op;

use super::{Answer, Mode, Request, Story};

const NONE: [&str; 0] = [];

/// A topic that keeps so many bytes has two segments of 100, and the first one goes.
fn goes(retention_bytes: Option<u64>, leaving: bool) -> Vec<&'static str> {
    let mut story = Story::bare(Mode::Os);
    let (topic, retention_ms) = ("orders".into(), None);
    let id = story.call(Request::CreateTopic { topic, partitions: 1, retention_bytes, retention_ms });
    story.answer(id, Answer::Done);
    story.does(Op::Write, 0, 100);
    story.does(Op::Write, 5, 100);
    if leaving {
        story.call(Request::DeleteTopic { topic: "orders".into() });
    }
    story.does(Op::Remove, 0, 0);
    story.broken()
}

#[test]
fn a_segment_goes_only_while_there_is_more_than_what_is_kept() {
    assert_eq!(goes(Some(199), false), NONE);
    assert_eq!(goes(Some(200), false), ["removed too soon"]);
    assert_eq!(goes(None, false), ["removed too soon"]);
    assert_eq!(goes(None, true), NONE);
}
