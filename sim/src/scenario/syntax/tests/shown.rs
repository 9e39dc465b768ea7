//! How mistakes are shown: each where it stands, all of them at once, and none that follows from another.

use super::super::parse;
use super::{mistake, mistakes};

/// What stands below a mistake says something that does not stand beside it already.
#[test]
fn help_does_not_repeat_the_label() {
    for body in ["consume orders from=-1", "advance soon", "fault write \"*.log\" error=EBAD", "check P13"] {
        let mistakes = mistakes(body);
        let mistake = &mistakes.list[0];
        assert_ne!(mistake.help.as_ref(), Some(&mistake.label), "{body}");
    }
}

#[test]
fn many_words_stand_below_and_not_beside_the_line() {
    for body in [
        "produce orders expect=EVERYTHING",
        "produce orders expect=STORAGE_FUL",
        "fault wirte \"*.log\" full",
    ] {
        let shown = mistakes(body).shown();
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
        assert!(shown.contains("one of "), "{shown}");
    }
}

#[test]
fn of_very_many_mistakes_the_first_are_shown() {
    let mistakes = mistakes(&"crsh\n".repeat(1000));
    let shown = mistakes.shown();
    assert_eq!(shown.matches("did you mean `crash`?").count(), 50);
    assert!(shown.ends_with("and 950 more\n"), "{shown}");
}

#[test]
fn a_word_that_needs_quotes_hides_no_other_mistake_of_its_line() {
    let lines =
        mistakes("broker durabilty=always segment-bytes=4KiB index-interval=x max-record-bytes=5MiB\n")
            .lines();
    let places: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["t.kdl:2:8", "t.kdl:2:39", "t.kdl:2:44", "t.kdl:2:78"], "{lines:#?}");
}

#[test]
fn one_thing_that_is_missing_is_enough() {
    let (found, _) = mistake("fault");
    assert!(found.starts_with("t.kdl:2:1: `fault` needs an operation"), "{found}");
    let (found, _) = mistake("topic");
    assert!(found.starts_with("t.kdl:2:1: `topic` needs a name"), "{found}");
    let lines = mistakes("produce keyy=1").lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
}

#[test]
fn all_mistakes_of_a_file_are_shown_at_once() {
    let lines =
        mistakes("prodce orders\nadvance 5s\nrepeat 2\n  crsh\n}\nproduce orders valeu=\"x\"\n").lines();
    let places: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["t.kdl:2:1", "t.kdl:3:9", "t.kdl:4:1", "t.kdl:5:3", "t.kdl:7:16"], "{lines:#?}");
}

#[test]
fn a_mistake_is_shown_in_its_line_with_the_text_underlined() {
    let shown = format!("{:?}", miette::Report::new(mistakes("produce orders valeu=\"x\"")));
    for part in ["t.kdl:2:16", "produce orders valeu=\"x\"", "unknown property", "did you mean `value`?"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

#[test]
fn a_file_needs_a_title() {
    let lines = parse("t.kdl", "crash\n").expect_err("no title").lines();
    assert_eq!(
        lines,
        ["t.kdl:1:1: the scenario has no title; start with a line `scenario \"what it shows\"`"]
    );
    assert!(parse("t.kdl", "").is_err());
}
