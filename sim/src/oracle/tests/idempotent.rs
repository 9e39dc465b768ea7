//! P8: a second recovery changes nothing, of what a person has damaged neither.

use super::{CrashKind, Event, Mode, Moment, Story, image, records};
use crate::trace::Again;

#[test]
fn damage_is_recovered_to_the_same_twice() {
    let story = |before: CrashKind, how: Again, again: &str| {
        let mut story = Story::new(Mode::Os);
        story.stored("abc", 0);
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
    for how in [Again::Twice, Again::Killed { operation: 3 }] {
        assert_eq!(story(CrashKind::Process, how, "a"), [""; 0]);
        assert_eq!(story(CrashKind::Process, how, "ab").len(), 1, "{how:?}");
        // The first one may have trusted the stop, and not have looked.
        assert_eq!(story(CrashKind::Stop, how, "ab"), [""; 0]);
    }
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
