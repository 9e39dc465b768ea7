//! The calls in the broker's source that sync, found by reading it.
//!
//! A function that is `#[track_caller]` and syncs stands for whoever calls it: the disk is told of the call to it, and not of the
//! one in it, unless that one is in a closure, which hands nothing on. So a call to such a function is a place like any other.
//! The seam itself and the offline commands are no part of the log, and neither are tests.

use std::path::Path;

use walkdir::WalkDir;

use crate::source_line::SourceLine;

/// The calls that sync by themselves.
const CALLS: [&str; 3] = ["sync_file(", "sync_dir(", "sync_data("];

/// Every call that syncs, where the disk is told of it.
pub fn places() -> Vec<SourceLine> {
    let Some(top) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() else { return Vec::new() };
    let files = WalkDir::new(top.join("broker/src")).sort_by_file_name().into_iter().flatten();
    let sources: Vec<(String, String)> = files
        .filter(|f| f.path().extension().is_some_and(|e| e == "rs"))
        .filter_map(|f| {
            let name = f.path().strip_prefix(top).ok()?.to_string_lossy().into_owned();
            let part =
                !(name.ends_with("src/disk.rs") || name.contains("/cli/") || name.ends_with("tests.rs"));
            Some((name, std::fs::read_to_string(f.path()).ok()?)).filter(|_| part)
        })
        .collect();
    let calls: Vec<String> = sources.iter().flat_map(|(name, text)| helpers(name, text)).collect();
    let places = sources.iter().flat_map(|(name, text)| {
        let found = lines(text).filter(|line| !line.hands_on && is_call(line.code, &calls));
        found.map(|line| SourceLine { file: name.clone(), line: line.number }).collect::<Vec<_>>()
    });
    places.collect()
}

/// Whether the broker syncs at a place; otherwise, which places there are that may have been meant.
pub fn known(place: &SourceLine) -> Result<(), String> {
    let places = places();
    let of_file: Vec<&SourceLine> = places.iter().filter(|known| known.file.ends_with(&place.file)).collect();
    // Without the source at hand, anything may be right.
    if places.is_empty() || of_file.iter().any(|known| known.line == place.line) {
        return Ok(());
    }
    let nearest = of_file.iter().min_by_key(|known| known.line.abs_diff(place.line));
    Err(match nearest {
        Some(nearest) => format!("no sync at {place}; the nearest is {nearest}"),
        None => {
            let mut files: Vec<&str> = places.iter().map(|known| known.file.as_str()).collect();
            files.dedup();
            format!("no sync at {place}; there are some in {}", files.join(", "))
        }
    })
}

fn is_call(code: &str, helpers: &[String]) -> bool {
    let calls = CALLS.into_iter().chain(helpers.iter().map(String::as_str));
    !code.contains("fn ") && calls.into_iter().any(|call| code.contains(call))
}

/// How the functions of a file are called that hand on who called them, and that sync.
fn helpers(file: &str, text: &str) -> Vec<String> {
    let module = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let mut found = Vec::new();
    let mut name = "";
    for line in lines(text) {
        if let Some((_, rest)) = line.code.split_once("fn ") {
            name = rest.split(['(', '<']).next().unwrap_or_default();
        }
        if line.hands_on && is_call(line.code, &[]) {
            found.extend([format!("{module}::{name}("), format!("self.{name}(")]);
        }
    }
    found
}

/// A line of code.
struct Line<'a> {
    number: u32,
    code: &'a str,
    /// Whether a call in it is told as a call of its function: that is `#[track_caller]`, and the line in no closure.
    hands_on: bool,
}

/// The lines of a file up to its tests, without comments.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let (mut depth, mut marked) = (0, false);
    // At which depth of braces the function began, and the outermost closure in it.
    let (mut function, mut closure) = (None, None);
    let code = text.lines().take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"));
    code.zip(1..).map(move |(line, number)| {
        let code = line.split("//").next().unwrap_or_default();
        marked |= code.trim() == "#[track_caller]";
        if marked && code.contains("fn ") {
            (function, marked) = (Some(depth), false);
        }
        let opens = code.contains("|| {") || code.contains("| {");
        let one_line = code.contains("|| ") || code.contains("(|");
        if function.is_some() && opens {
            closure = closure.or(Some(depth));
        }
        let hands_on = function.is_some() && closure.is_none() && !one_line;
        for brace in code.chars() {
            depth += i32::from(brace == '{') - i32::from(brace == '}');
        }
        let ended = |begun: Option<i32>| begun.is_some_and(|begun| depth <= begun) && code.contains('}');
        if ended(closure) {
            closure = None;
        }
        if ended(function) {
            function = None;
        }
        Line { number, code, hands_on }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        #[track_caller]
        pub fn replace(disk: &D) -> io::Result<()> {
            let done = (|| {
                disk::sync_file(&file)?;
                disk.rename(a, b)
            })();
            done?;
            disk::sync_dir(disk, dir)
        }

        /// As `sync_dir(` says.
        fn other(disk: &D) -> io::Result<()> {
            self.log.sync_data() // now
        }

        #[cfg(test)]
        fn nobody() { disk::sync_dir(disk, dir); }
    ";

    #[test]
    fn a_call_is_told_from_definitions_words_and_calls_that_are_handed_on() {
        let found: Vec<u32> =
            lines(TEXT).filter(|l| !l.hands_on && is_call(l.code, &[])).map(|l| l.number).collect();
        assert_eq!(found, [5, 14], "in a closure, and in a function that hands nothing on");
        assert_eq!(helpers("broker/src/files.rs", TEXT), ["files::replace(", "self.replace("]);
    }

    #[test]
    fn a_place_without_a_sync_is_told_from_one_with_it() {
        let there = places().into_iter().next().expect("the broker syncs");
        assert_eq!(known(&there), Ok(()));
        let beside = SourceLine { line: there.line + 1, ..there.clone() };
        assert_eq!(known(&beside), Err(format!("no sync at {beside}; the nearest is {there}")));
        let nowhere = known(&SourceLine { file: "broker/src/x.rs".into(), line: 1 })
            .expect_err("there is no such file");
        assert!(nowhere.contains(&there.file), "{nowhere}");
    }

    #[test]
    fn the_brokers_source_is_found() {
        let places = places();
        assert!(places.iter().any(|place| place.file == "broker/src/segment.rs"), "{places:?}");
    }
}
