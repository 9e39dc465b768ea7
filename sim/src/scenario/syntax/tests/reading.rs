//! What a line comes to that is right: a value, the world at the start, or a step.

use super::super::{parse, print, print_step};
use super::{mistake, read};
use crate::scenario::{Capacity, DiskSettings, Step, unfold};

/// Whether a listed value is a number or a text, the property decides.
#[test]
fn a_listed_value_is_what_its_property_takes() {
    for (line, written) in [
        ("each produce orders value=\"0 | 1\"", "produce orders value=\"0\""),
        ("each produce orders key=\"007 | 7\" count=\"007 | 8\"", "produce orders key=\"007\" count=7"),
        ("each write \"a\" text=\"-5 | 1.50\"", "write \"a\" text=\"-5\""),
        ("each write \"a\" text=\"1.50 | 2\" at=\"-1 | 0\"", "write \"a\" at=-1 text=\"1.50\""),
        ("each net fail-rate=\"0.25 | 5%\"", "net fail-rate=0.25"),
        ("each corrupt \"a\" at=\"0x10 | 50%\" xor=\"0x01 | 0x80\"", "corrupt \"a\" at=16 xor=0x01"),
        ("each consume orders expect-value=\"inf | nan\"", "consume orders expect-value=\"inf\""),
    ] {
        let text = format!("scenario \"t\" seeds=\"0..9\"\ncrash\n{line}\n");
        let scenario = parse("t.kdl", &text).unwrap_or_else(|mistakes| panic!("{:#?}", mistakes.lines()));
        let explicit = unfold(&scenario, 0);
        assert_eq!(explicit.steps.last().map(print_step).as_deref(), Some(written), "{line}");
    }
    let (found, text) = mistake("each produce orders count=\"1 | 0\" value=\"0 | 1\"");
    assert!(found.ends_with("`count` cannot be `0`; expected a whole number, 1 or more"), "{found}");
    assert_eq!(text, "count=\"1 | 0\"");
}

#[test]
fn the_comment_at_the_head_says_what_it_is_about() {
    let scenario = parse("t.kdl", "// One.\n//\n// Two.\n\n// not this\nscenario \"t\"\n").expect("it reads");
    assert_eq!(scenario.about, ["One.", "", "Two."]);
}

#[test]
fn a_change_of_the_world_as_the_first_step_stays_a_step() {
    for line in ["disk capacity=8", "net latency=\"1ms\"", "clock at=5"] {
        let word = line.split(' ').next().unwrap_or_default();
        let scenario = read(&format!("{word}\n{line}\ncrash\n"));
        assert_eq!(scenario.steps.len(), 2);
        assert_eq!(parse("t.kdl", &print(&scenario)).ok(), Some(scenario), "{line}");
    }
}

#[test]
fn a_second_line_of_the_world_before_the_first_step_is_a_step() {
    let scenario = read("disk capacity=9\ndisk capacity=8\n");
    assert_eq!(scenario.disk.capacity, Some(Capacity::Bytes(9)));
    assert_eq!(scenario.steps.len(), 1);
}

#[test]
fn a_world_that_changes_by_a_draw_is_a_step() {
    let scenario = read("crash\ndraw disk free=\"7 | 7\"");
    let explicit = unfold(&scenario, 3);
    let change = DiskSettings { capacity: Some(Capacity::Free(7)), ..Default::default() };
    assert_eq!(explicit.steps.last(), Some(&Step::Disk(change)));
}
