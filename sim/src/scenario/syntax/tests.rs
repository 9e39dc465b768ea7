//! The language, read and printed: what is printed reads back as it was, no text is too much for the reader, and every word is on
//! the page for people.

mod mistakes;
mod reading;
mod shown;

use proptest::prelude::*;

use super::{Mistakes, parse, print};
use crate::scenario::{Scenario, arbitrary};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_printed_reads_back_as_it_was(scenario in arbitrary::scenario()) {
        let text = print(&scenario);
        let read = super::file::parse_unlimited("printed.kdl", &text);
        prop_assert!(read.is_ok(), "{text}\n{:#?}", read.err().map(|mistakes| mistakes.lines()));
        prop_assert_eq!(read.ok(), Some(scenario), "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(scenario|topic|fault|draw|each|random|[{}=\"/ \n|]|[a-z0-9é]{1,4}|[“”«‘]|\\\\|/\\*|\\*/|#){0,30}") {
        let _ = parse("noise.kdl", &text);
    }
}

fn read(body: &str) -> Scenario {
    parse("t.kdl", &format!("scenario \"t\"\n{body}"))
        .unwrap_or_else(|mistakes| panic!("{:#?}", mistakes.lines()))
}

fn mistakes(body: &str) -> Mistakes {
    parse("t.kdl", &format!("scenario \"t\"\n{body}")).expect_err("there are mistakes in it")
}

/// The one mistake: its line, and the text that it underlines.
fn mistake(body: &str) -> (String, String) {
    let mistakes = mistakes(body);
    assert_eq!(mistakes.list.len(), 1, "{:#?}", mistakes.lines());
    (mistakes.lines().remove(0), mistakes.underlined(&mistakes.list[0]).to_owned())
}

/// The page for people who write scenarios, with its examples.
const PAGE: &str = include_str!("../../../../scenarios/README.md");

fn examples() -> impl Iterator<Item = &'static str> {
    PAGE.split("```kdl\n").skip(1).filter_map(|rest| rest.split("```").next())
}

#[test]
fn every_word_of_the_language_has_an_example_on_the_page() {
    let used: Vec<&str> =
        examples().flat_map(str::lines).filter_map(|line| line.split_whitespace().next()).collect();
    for word in super::steps::words().chain(["scenario", "broker", "disk", "net", "clock", "sometimes"]) {
        assert!(used.contains(&word), "`{word}` has no example");
    }
}
