//! The calls in the broker's source that sync, found by reading it.
//!
//! A function that is `#[track_caller]` and syncs stands for whoever calls it: the disk is told of the call to it, and not of the
//! one in it, unless that one is in a closure, which hands nothing on. So a call to such a function is a place like any other.
//! The seam itself and the offline commands are no part of the log, and neither are tests.

use std::collections::BTreeSet;
use std::path::Path;

use walkdir::WalkDir;

use crate::source_line::SourceLine;

/// The calls that sync by themselves.
const CALLS: [&str; 3] = ["sync_file", "sync_dir", "sync_data"];

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
    places_in(&sources)
}

/// Every such call in these files, by their names.
fn places_in(sources: &[(String, String)]) -> Vec<SourceLine> {
    let helpers = helpers(sources);
    let places = sources.iter().flat_map(|(name, text)| {
        let calls = Calls::of(name, text, &helpers);
        let found = lines(text).filter(move |line| calls.stand_in(line.told));
        found.map(|line| SourceLine { file: name.clone(), line: line.number })
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

/// A function that hands on who called it, and that syncs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Helper {
    module: String,
    name: String,
}

/// All of them. One that only calls another is one too, so they are looked for until no more are found.
fn helpers(sources: &[(String, String)]) -> BTreeSet<Helper> {
    let mut found = BTreeSet::new();
    loop {
        let more: BTreeSet<Helper> =
            sources.iter().flat_map(|(file, text)| helpers_in(file, text, &found)).collect();
        if more == found {
            return found;
        }
        found = more;
    }
}

/// Those of a file, where these are known.
fn helpers_in(file: &str, text: &str, known: &BTreeSet<Helper>) -> Vec<Helper> {
    let calls = Calls::of(file, text, known);
    let mut found = Vec::new();
    let mut name = "";
    for line in lines(text) {
        if let Some(defined) = defined(line.code) {
            name = defined;
        }
        if calls.stand_in(line.handed_on) {
            found.push(Helper { module: module(file).to_owned(), name: name.to_owned() });
        }
    }
    found
}

/// The last part of a module's path: who calls what is in it says that before the name.
fn module(file: &str) -> &str {
    file.trim_end_matches("/mod.rs").rsplit('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// The name of the function that begins in a line.
fn defined(code: &str) -> Option<&str> {
    let (_, rest) = code.split_once("fn ")?;
    rest.split(['(', '<']).next()
}

/// How the calls that sync are written in one file.
struct Calls(Vec<String>);

impl Calls {
    /// Of `file`, where these functions hand on who called them.
    fn of(file: &str, text: &str, helpers: &BTreeSet<Helper>) -> Self {
        let own: BTreeSet<&str> = lines(text).filter_map(|line| defined(line.code)).collect();
        let named = helpers.iter().flat_map(|Helper { module: of, name }| {
            // The name alone means the function of this file, and only without one that which was imported.
            let alone = of == module(file) || !own.contains(name.as_str());
            let alone = alone.then(|| name.clone());
            [format!("{of}::{name}"), format!("self.{name}"), format!("Self::{name}")]
                .into_iter()
                .chain(alone)
        });
        // The disk's own are called as functions, and as methods of a file or a disk.
        let theirs =
            CALLS.iter().flat_map(|call| [format!("disk::{call}"), format!(".{call}"), (*call).to_owned()]);
        Self(theirs.chain(named).collect())
    }

    /// Whether one of them stands in a line.
    fn stand_in(&self, code: &str) -> bool {
        self.0.iter().any(|call| {
            code.match_indices(call.as_str()).any(|(at, _)| {
                let (before, after) = (&code[..at], &code[at + call.len()..]);
                let part_of_more = |c: char| c.is_alphanumeric() || "_.:".contains(c);
                let apart = call.starts_with('.') || call.contains("::") || !before.ends_with(part_of_more);
                apart && after.starts_with('(') && !before.ends_with("fn ")
            })
        })
    }
}

/// A line of code.
struct Line<'a> {
    number: u32,
    code: &'a str,
    /// What of it stands in a function that is `#[track_caller]`, and in no closure: a call in it is told as a call of that function.
    handed_on: &'a str,
    /// The rest: a call in it is told as what it is.
    told: &'a str,
}

/// The lines of a file up to its tests, without comments.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let (mut depth, mut marked) = (0, false);
    // At which depth of braces the function began, and the outermost closure in it.
    let (mut function, mut closure) = (None, None);
    text.lines().take(before_tests(text)).zip(1..).map(move |(line, number)| {
        let code = line.split("//").next().unwrap_or_default();
        marked |= code.trim() == "#[track_caller]";
        if marked && code.contains("fn ") {
            (function, marked) = (Some(depth), false);
        }
        let begins = begin_of_closure(code).filter(|_| function.is_some());
        let (handed_on, told) = match (function, closure) {
            (Some(_), None) => code.split_at(begins.unwrap_or(code.len())),
            _ => ("", code),
        };
        if begins.is_some() && code.trim_end().ends_with("| {") {
            closure = closure.or(Some(depth));
        }
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
        Line { number, code, handed_on, told }
    })
}

/// Where the first closure in a line begins. An "or" at the beginning of a line looks like one, and is taken for one: then a place
/// is shown that is none, and not one overlooked.
fn begin_of_closure(code: &str) -> Option<usize> {
    let indent = code.len() - code.trim_start().len();
    let alone = code.trim_start().starts_with('|') && !code.trim_start().starts_with("| ");
    let first = ["(|", ", |", "= |", "move |"].iter().filter_map(|bar| code.find(bar)).min();
    if alone { Some(indent) } else { first }
}

/// How many lines of a file come before its module of tests. What is for tests alone may stand between the rest, too.
fn before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let tests = |at: usize| {
        let marked = lines.get(at..).unwrap_or_default();
        let what = marked.iter().find(|line| !line.starts_with("#["));
        marked.first() == Some(&"#[cfg(test)]")
            && what.is_some_and(|l| l.starts_with("mod ") && l.ends_with('{'))
    };
    (0..lines.len()).find(|at| tests(*at)).unwrap_or(lines.len())
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
        mod tests {
            fn nobody() { disk::sync_dir(disk, dir); }
        }
    ";

    /// The lines of the first of these files that sync.
    fn found(files: &[(&str, &str)]) -> Vec<u32> {
        let sources: Vec<(String, String)> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let places = places_in(&sources).into_iter().filter(|place| place.file == files[0].0);
        places.map(|place| place.line).collect()
    }

    #[test]
    fn a_call_is_told_from_definitions_words_and_calls_that_are_handed_on() {
        let lines = found(&[("broker/src/files.rs", TEXT)]);
        assert_eq!(lines, [5, 14], "in a closure, and in a function that hands nothing on");
    }

    /// The chain is found however long it is, and in whichever order the files come.
    #[test]
    fn whoever_calls_one_that_calls_one_that_syncs_is_found() {
        let caller = "
            use crate::between::{put, through};
            fn plain(disk: &D) -> io::Result<()> { files::replace(disk) }
            fn far(disk: &D) {
                files::replaced(disk);
                std::mem::swap(a, b);
                between::put(disk)?;
                through(disk, path)
            }
        ";
        let between = "
            #[track_caller]
            pub fn put(disk: &D) -> io::Result<()> { through(disk) }

            #[track_caller]
            fn through(
                disk: &D,
            ) -> io::Result<()> {
                files::replace(disk, |file| disk::write(file, || a || b))
            }
        ";
        let files = [("broker/src/caller.rs", caller), ("broker/src/between.rs", between)];
        assert_eq!(found(&[files[0], files[1], ("broker/src/files.rs", TEXT)]), [3, 7, 8]);
        let [caller, between] = files;
        assert_eq!(found(&[between, caller, ("broker/src/files.rs", TEXT)]), [] as [u32; 0]);
    }

    #[test]
    fn a_function_of_the_same_name_is_another() {
        let text = "
            fn replace(disk: &D) {}
            fn other() {
                replace(disk);
                std::mem::replace(a, b);
                self.held.replace(a);
                files::replace(disk);
            }
        ";
        assert_eq!(found(&[("broker/src/other.rs", text), ("broker/src/files.rs", TEXT)]), [7]);
    }

    #[test]
    fn what_is_for_tests_alone_ends_a_file_only_where_it_is_a_module() {
        let text = "
            #[cfg(test)]
            mod tests;
            fn other() { disk::sync_file(file) }
        ";
        assert_eq!(found(&[("broker/src/other.rs", text)]), [4]);
    }

    #[test]
    fn a_place_without_a_sync_is_told_from_one_with_it() {
        let places = places();
        for place in &places {
            assert_eq!(known(place), Ok(()));
        }
        let there = places.into_iter().next().expect("the broker syncs");
        let beside = SourceLine { line: there.line + 1, ..there.clone() };
        assert_eq!(known(&beside), Err(format!("no sync at {beside}; the nearest is {there}")));
        let nowhere = known(&SourceLine { file: "broker/src/x.rs".into(), line: 1 })
            .expect_err("there is no such file");
        assert!(nowhere.contains(&there.file), "{nowhere}");
    }

    #[test]
    fn the_readme_says_how_many_there_are() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        let readme = std::fs::read_to_string(readme).expect("it is there");
        let said =
            format!("There are {} places in the broker that sync a file or a directory.", places().len());
        assert!(readme.contains(&said), "README.md does not say: {said}");
    }
}
