//! P8: a second recovery changes nothing, of what a person has damaged neither.

use faults::{Errno, Op};

use super::{CrashKind, Event, Mode, Moment, Story, image, op, records};
use crate::trace::{Again, Image, ImageFile};

#[test]
fn damage_is_recovered_to_the_same_twice() {
    let story_of = |is_known: bool, before: CrashKind, how: Again, again: &str| {
        let mut story = if is_known { Story::new(Mode::Os) } else { Story::bare(Mode::Os) };
        if is_known {
            story.stored("abc", 0);
        }
        story.crash(before);
        let whole = records(0, "abc");
        let damaged = [&whole[..29], &[0; 29], &whole[58..]].concat();
        story.image(Moment::Untouched, &[(0, &whole)]);
        story.image(Moment::Touched, &[(0, &damaged)]);
        story.starts();
        let other = Ok(image(&[(0, &records(0, again))]));
        story.add(Event::Again { how, once: image(&[(0, &records(0, "a"))]), other });
        story.broken()
    };
    for (how, is_known) in
        [(Again::Twice, true), (Again::Killed { operation: 3 }, true), (Again::Twice, false)]
    {
        let story = |before, again| story_of(is_known, before, how, again);
        assert_eq!(story(CrashKind::Process, "a"), [""; 0]);
        assert_eq!(story(CrashKind::Process, "ab").len(), 1, "{how:?}");
        // The first one may have trusted the stop, and not have looked.
        assert_eq!(story(CrashKind::Stop, "ab"), [""; 0]);
    }
}

/// A stop that a start could not take back for good may be what the next one goes by.
#[test]
fn a_stop_that_was_not_taken_back_for_good_may_be_trusted_by_the_next_start_too() {
    let story = |does: &dyn Fn(&mut Story)| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
        let whole = records(0, "abc");
        let damaged = [&whole[..29], &[0; 29], &whole[58..]].concat();
        story.image(Moment::Untouched, &[(0, &whole)]);
        story.image(Moment::Touched, &[(0, &damaged)]);
        story.crash(CrashKind::Stop);
        story.starts();
        does(&mut story);
        story.started(&[]);
        story.crash(CrashKind::Power);
        story.starts();
        let other = Ok(image(&[(0, &records(0, "ab"))]));
        story.add(Event::Again { how: Again::Twice, once: image(&[(0, &records(0, "a"))]), other });
        story.broken()
    };
    let refuses = |story: &mut Story, what| {
        story.struck(op(what, if what == Op::Remove { "clean" } else { "" }, Err(Errno::EIO)))
    };
    assert_eq!(story(&|story| refuses(story, Op::Remove)), [""; 0]);
    assert_eq!(
        story(&|story| {
            story.takes_back();
            refuses(story, Op::SyncDir);
        }),
        [""; 0]
    );
    let takes_back = |story: &mut Story| {
        story.takes_back();
        story.does_above(Op::SyncDir, "", None);
    };
    assert_eq!(story(&takes_back).len(), 1);
    assert_eq!(
        story(&|story| {
            takes_back(story);
            story.fails(Op::Write);
        })
        .len(),
        1,
        "what fails behind it gives it nobody back"
    );
}

#[test]
fn what_one_recovery_has_left_the_next_one_does_not_refuse() {
    for (other, broken) in [(Ok(image(&[])), 0), (Err("running is not what this broker writes".into()), 1)] {
        for how in [Again::Twice, Again::Killed { operation: 3 }] {
            let mut story = Story::new(Mode::Os);
            story.crash(CrashKind::Process);
            story.add(Event::Again { how, once: image(&[]), other: other.clone() });
            assert_eq!(story.broken().len(), broken, "{how:?}");
        }
    }
}

/// One recovery leaves word of a sync that has failed, and the next one does what is to be done, until a start has done it.
#[test]
fn the_mark_of_a_failed_sync_is_left_to_the_next_recovery_until_a_start_has_copied_the_log() {
    let mark = format!("{}.unsynced", super::log(0));
    let story = |copies: bool, comes_up: bool| {
        let mut story = Story::new(Mode::Os);
        story.stored("a", 0);
        story.fails(Op::Sync);
        story.crash(CrashKind::Process);
        story.starts();
        if copies {
            story.add(Event::Disk(op(Op::Remove, &mark, Ok(0))));
        }
        if comes_up {
            story.started(&[]);
        }
        story.crash(CrashKind::Process);
        story.starts();
        let log = ImageFile { path: super::log(0).into(), bytes: records(0, "a").into() };
        let left = ImageFile { path: mark.as_str().into(), bytes: [0][..].into() };
        let once = std::sync::Arc::new(Image(vec![log, left]));
        let other = Ok(image(&[(0, &records(0, "a"))]));
        story.add(Event::Again { how: Again::Twice, once, other });
        story.broken()
    };
    assert_eq!(story(false, true), [""; 0]);
    assert_eq!(story(true, false), [""; 0]);
    assert_eq!(story(true, true), ["second recovery"]);
}
