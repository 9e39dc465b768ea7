//! What is printed reads back as it was, and what is wrong is said so that it can be mended.

use proptest::prelude::*;

use super::{Mistakes, parse, print};
use crate::scenario::{Scenario, arbitrary};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_printed_reads_back_as_it_was(scenario in arbitrary::scenario()) {
        let text = print(&scenario);
        let read = parse("printed.kdl", &text);
        prop_assert!(read.is_ok(), "{text}\n{:#?}", read.err().map(|mistakes| mistakes.lines()));
        prop_assert_eq!(read.ok(), Some(scenario), "{}", text);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(scenario|topic|fault|draw|each|random|[{}=\"/ \n|]|[a-z0-9é]{1,4}){0,30}") {
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

#[test]
fn the_nearest_word_is_offered() {
    for (body, line, underlined) in [
        ("prodce orders", "t.kdl:2:1: there is no word `prodce`; did you mean `produce`?", "prodce"),
        (
            "produce orders valeu=\"x\"",
            "t.kdl:2:16: `produce` has no property `valeu`; did you mean `value`?",
            "valeu",
        ),
        (
            "disk profile=strct",
            "t.kdl:2:6: `profile` cannot be `strct`; did you mean `strict`?",
            "profile=strct",
        ),
        (
            "produce orders expect=storage_full",
            "t.kdl:2:16: `expect` cannot be `storage_full`; did you mean `STORAGE_FULL`?",
            "expect=storage_full",
        ),
        (
            "fault wirte \"*.log\" full",
            "t.kdl:2:7: an operation cannot be `wirte`; did you mean `write`?",
            "wirte",
        ),
        (
            "fault write \"*.log\" ful",
            "t.kdl:2:21: `fault` does not know what to do with `ful`; did you mean `full`?",
            "ful",
        ),
        ("check P13", "t.kdl:2:7: a promise cannot be `P13`; expected promises, P1 to P12", "P13"),
        (
            "partition a broker oneway",
            "t.kdl:2:20: `partition` does not know what to do with `oneway`; did you mean `one-way`?",
            "oneway",
        ),
    ] {
        let (found, text) = mistake(body);
        assert!(found.starts_with(line), "{found}\n{line}");
        assert_eq!(text, underlined, "{line}");
    }
}
