//! P7: a record's time is one that the broker's clock showed while it was appended.

use super::{Event, Mode, Story};
use crate::trace::{Clock, World};

const NONE: [&str; 0] = [];

/// A record that was stored after the clock had jumped to `shows`, and is read with its offset, 0, as its time.
fn story(shows: u64, alike: bool) -> Vec<&'static str> {
    let mut story = Story::new(Mode::Os);
    story.add(Event::World(World::Clock(Clock { shows, runs: true })));
    if alike {
        story.unknown("a");
    }
    story.stored("a", 0);
    story.reads(0, 0, 'a');
    story.broken()
}

#[test]
fn a_time_that_the_clock_did_not_show_is_wrong() {
    assert_eq!(story(0, false), NONE);
    assert_eq!(story(1000, false), ["not its time"]);
}

#[test]
fn of_records_with_the_same_bytes_nobody_knows_the_time() {
    assert_eq!(story(1000, true), NONE);
}
