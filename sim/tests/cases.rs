//! `scenarios/CASES.md` names what is there: each scenario and each test that it says holds a case.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

fn page() -> String {
    fs::read_to_string(top().join("scenarios/CASES.md")).expect("the page is there")
}

/// The scenario files that the page links.
fn linked(page: &str) -> BTreeSet<String> {
    let links = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links.map(|(file, _)| file.to_owned()).collect()
}

#[test]
fn every_scenario_that_a_case_names_is_there() {
    let linked = linked(&page());
    assert!(linked.len() > 100, "the page is read: {}", linked.len());
    for file in linked {
        assert!(
            top().join("scenarios").join(&file).is_file(),
            "CASES.md names scenarios/{file}, which is not there"
        );
    }
}

#[test]
fn every_test_that_a_case_names_is_there() {
    let page = page();
    // `name` (src/file.rs) or `name` (tests/file.rs)
    let named: Vec<(&str, &str)> = page
        .split('`')
        .zip(page.split('`').skip(1))
        .filter_map(|(name, behind)| Some((name, behind.strip_prefix(" (")?.split_once(".rs)")?.0)))
        .collect();
    assert!(named.len() > 30, "the page is read: {}", named.len());
    for (name, file) in named {
        let path = top().join("broker").join(format!("{file}.rs"));
        let code =
            fs::read_to_string(&path).unwrap_or_else(|e| panic!("CASES.md names {}: {e}", path.display()));
        assert!(
            code.contains(&format!("fn {name}()")),
            "CASES.md names {name} in broker/{file}.rs, which is not there"
        );
    }
}

#[test]
fn every_case_and_every_neighbour_is_on_the_page() {
    let (page, linked) = (page(), linked(&page()));
    for folder in fs::read_dir(top().join("scenarios")).expect("the folder is there") {
        let folder = folder.expect("it can be read").path();
        let Ok(files) = fs::read_dir(&folder) else { continue };
        for file in files {
            let file = file.expect("it can be read").path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let path = format!("{}/{name}", folder.file_name().unwrap_or_default().to_string_lossy());
            let case =
                name.strip_prefix('b').and_then(|rest| rest.get(..3)).filter(|rest| rest.ends_with('_'));
            let is_case = case.is_some_and(|rest| rest[..2].bytes().all(|b| b.is_ascii_digit()));
            if is_case || name.starts_with("n_") {
                assert!(linked.contains(&path), "{path} is not on CASES.md");
            }
        }
    }
    assert!(page.contains("| B65 |"), "all cases are on the page");
}
