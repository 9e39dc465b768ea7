//! Which of the broker's syncs carry load? Each place that syncs a file or a directory is switched off alone, and the crash
//! points of the scenarios are visited again: one of them has to break a promise.
//!
//! Nothing is executed again for it. A sync changes nothing that a process sees, so it is left out of the recorded history
//! ([`crate::explore::Run::without`]); only in recoveries, which do run, it is switched off at the disk.
//!
//! A place is known by its line in the source, as the disk is told by its caller; and the source is read for calls that sync, so
//! that one which no scenario reaches is not forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use faults::Site;
use walkdir::WalkDir;

use crate::explore::{Bounds, Report, Run, explore};

/// A run, and the name of its scenario.
pub type Named = (String, Run);

/// One place in the broker that syncs.
#[derive(Clone, Debug)]
pub struct Barrier {
    /// Its file and line.
    pub place: String,
    /// In how many runs it syncs.
    pub runs: usize,
    /// The scenarios that notice when it does not, and what each sees break.
    pub noticed: Vec<(String, String)>,
}

/// What became of all of them.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// By place.
    pub barriers: Vec<Barrier>,
    /// Scenarios that break a promise with every sync in place, and how: nothing can be said about barriers with them.
    pub broken: Vec<(String, String)>,
    /// Calls in the source that no run reaches.
    pub unreached: Vec<String>,
}

impl Table {
    /// Whether every place is noticed by some scenario.
    pub fn holds(&self) -> bool {
        self.broken.is_empty()
            && self.unreached.is_empty()
            && self.barriers.iter().all(|b| !b.noticed.is_empty())
    }
}

/// Switches off each place in turn. `each` is told of every place when it is done.
pub fn barriers(runs: &[Named], bounds: Bounds, each: &mut dyn FnMut(&Barrier)) -> Table {
    let mut table = Table::default();
    let mut reached: BTreeMap<Site, Vec<&Named>> = BTreeMap::new();
    for named in runs {
        let report = explore(&named.1, bounds);
        if let Some(what) = broken(&report) {
            table.broken.push((named.0.clone(), what));
            continue;
        }
        for site in report.sites {
            reached.entry(site).or_default().push(named);
        }
    }
    for (site, named) in &reached {
        let mut barrier = Barrier { place: place(site), runs: named.len(), noticed: Vec::new() };
        for (name, run) in named {
            if let Some(what) = broken(&explore(&run.without(*site), bounds)) {
                barrier.noticed.push((name.clone(), what));
            }
        }
        each(&barrier);
        table.barriers.push(barrier);
    }
    let known: BTreeSet<String> = reached.keys().map(place).collect();
    table.unreached = in_source().into_iter().filter(|place| !known.contains(place)).collect();
    table
}

fn place(site: &Site) -> String {
    format!("{}:{}", site.file, site.line)
}

fn broken(report: &Report) -> Option<String> {
    let first = report.first.as_ref()?;
    Some(format!("{} ({})", first.broken.promise, first.broken.kind))
}

/// Every call in the broker's source that syncs, as `file:line`. The seam itself and the offline commands are no part of the
/// log, and neither are tests.
pub fn in_source() -> Vec<String> {
    let Some(top) = Path::new(env!("CARGO_MANIFEST_DIR")).parent() else { return Vec::new() };
    let files = WalkDir::new(top.join("broker/src")).sort_by_file_name().into_iter().flatten();
    let mut found = Vec::new();
    for file in files.filter(|f| f.path().extension().is_some_and(|e| e == "rs")) {
        let Ok(path) = file.path().strip_prefix(top) else { continue };
        let path = path.to_string_lossy().into_owned();
        if path.ends_with("src/disk.rs") || path.contains("/cli/") || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        let code = text.lines().take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"));
        found.extend(code.zip(1..).filter(|(line, _)| syncs(line)).map(|(_, n)| format!("{path}:{n}")));
    }
    found
}

fn syncs(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let calls = ["sync_file(", "sync_dir(", "sync_data("];
    calls.iter().any(|call| code.contains(call)) && !code.contains("fn sync_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_from_a_definition_and_from_words_about_it() {
        assert!(syncs("        disk::sync_dir(disk, data)?;"));
        assert!(syncs("    self.log.sync_data() // now"));
        assert!(!syncs("    /// As `sync_dir(` says."));
        assert!(!syncs("pub fn sync_file(file: &impl DiskFile) -> io::Result<()> {"));
    }

    #[test]
    fn the_brokers_source_is_found() {
        assert!(in_source().iter().any(|place| place.starts_with("broker/src/segment.rs:")));
    }
}
