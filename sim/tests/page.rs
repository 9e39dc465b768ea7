//! `scenarios/README.md` is held to the code: what it shows runs, and prints what it says; and it leaves no word out.

use std::path::Path;

use sim::scenario::{Scenario, Step, parse, syntax};
use sim::{snapshot, suite};

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

/// The page.
fn page() -> String {
    std::fs::read_to_string(top().join("scenarios/README.md")).expect("the page is there")
}

/// A block of the page: its language, its text, and the line where it begins.
struct Block {
    language: String,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in page.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            open = !open;
            if open {
                blocks.push(Block { language: language.to_owned(), text: String::new(), line: number + 1 });
            }
        } else if let (true, Some(block)) = (open, blocks.last_mut()) {
            block.text += line;
            block.text.push('\n');
        }
    }
    blocks
}

fn scenario(block: &Block) -> Scenario {
    let name = format!("scenarios/README.md, block at line {}", block.line);
    parse(&name, &block.text).unwrap_or_else(|mistakes| panic!("{}", mistakes.shown()))
}

#[test]
fn every_scenario_of_the_page_holds() {
    let page = page();
    let blocks = blocks(&page);
    assert!(blocks.iter().filter(|block| block.language == "kdl").count() >= 10);
    for block in blocks.iter().filter(|block| block.language == "kdl") {
        let ran = suite::run_seeds(&scenario(block));
        if let Some(outcome) = &ran.failed {
            let failures: Vec<String> = outcome.failures.iter().map(ToString::to_string).collect();
            panic!("line {}, seed {}:\n{}", block.line, outcome.seed(), failures.join("\n"));
        }
    }
}

#[test]
fn what_the_page_says_that_it_prints_it_prints() {
    let page = page();
    let blocks = blocks(&page);
    let shown = blocks.windows(2).filter(|two| two[0].language == "kdl" && two[1].language == "text");
    let mut compared = 0;
    for two in shown {
        let ran = suite::run_seeds(&scenario(&two[0]));
        assert_eq!(snapshot::render(&ran.first), two[1].text, "the block at line {}", two[1].line);
        compared += 1;
    }
    assert!(compared > 0);
}

/// The tutorial breaks its own scenario, and shows what that prints.
#[test]
fn a_wrong_expectation_prints_what_the_page_says() {
    let page = page();
    let blocks = blocks(&page);
    let tutorial =
        blocks.iter().find(|block| block.language == "kdl" && block.text.contains("expect-cut=15"));
    let mut tutorial = scenario(tutorial.expect("the tutorial's scenario"));
    for step in &mut tutorial.steps {
        if let Step::Start(start) = step {
            start.expect_cut = start.expect_cut.map(|_| 14);
        }
    }
    let ran = suite::run_seeds(&tutorial);
    let failed = ran.failed.expect("14 is wrong");
    let shown = blocks.iter().find(|block| block.text.starts_with("FAILED")).expect("the page shows it");
    let told: Vec<String> = failed.failures[0].to_string().lines().map(|line| format!("  {line}")).collect();
    assert!(
        shown.text.contains(&told.join("\n")),
        "the page says:\n{}\nand it prints:\n{}",
        shown.text,
        told.join("\n")
    );
}

/// A property may stand in an example (`name=`), and everything in a table (`` `name …` ``).
#[test]
fn the_page_knows_every_word_of_the_language() {
    let page = page();
    let part_of_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let stands = |word: &str, ending: &str| {
        page.match_indices(&format!("{word}{ending}")).any(|(at, _)| {
            let before = page[..at].chars().next_back().is_some_and(part_of_word);
            let after = page[at + word.len()..].chars().next().is_some_and(part_of_word);
            !before && !after
        })
    };
    let missing: Vec<String> = syntax::vocabulary()
        .into_iter()
        .filter(|word| match word.what.starts_with("property") {
            true => !stands(&word.word, "=") && !stands(&word.word, "`"),
            false => !stands(&word.word, ""),
        })
        .map(|word| format!("{}: {}", word.what, word.word))
        .collect();
    assert!(missing.is_empty(), "not on the page:\n{}", missing.join("\n"));
}

/// What can go wrong and is aimed at by nobody has never been seen to.
#[test]
fn every_fault_of_the_page_is_aimed_by_a_scenario() {
    let files = suite::find(&top().join("scenarios")).expect("the scenarios");
    let texts = files.iter().map(|file| std::fs::read_to_string(&file.path).expect("a scenario"));
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let faults = lines.iter().filter_map(|line| {
        let line = line.trim_start().split("//").next().unwrap_or_default();
        let line = line.strip_prefix("each ").or(line.strip_prefix("draw ")).unwrap_or(line);
        line.strip_prefix("fault ")
    });
    let words = faults.flat_map(|line| line.split_whitespace().filter_map(|word| word.split('=').next()));
    let aimed: std::collections::BTreeSet<&str> = words.collect();
    let missing: Vec<String> = syntax::vocabulary()
        .into_iter()
        .filter(|word| ["operation", "property of fault"].contains(&word.what.as_str()))
        .filter(|word| !aimed.contains(word.word.as_str()))
        .map(|word| format!("{}: {}", word.what, word.word))
        .collect();
    assert!(missing.is_empty(), "in no scenario:\n{}", missing.join("\n"));
}

#[test]
fn the_page_knows_every_folder() {
    let page = page();
    let folders = std::fs::read_dir(top().join("scenarios")).expect("scenarios").flatten();
    for folder in folders.filter(|entry| entry.path().is_dir()) {
        let name = folder.file_name().to_string_lossy().into_owned();
        assert!(page.contains(&format!("| `{name}` |")), "the page says nothing about the folder {name}");
    }
}
