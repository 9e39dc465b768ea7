//! Crashes inside recovery: after each of its operations, what could have been left is recovered again. That recovery is judged
//! like every other, and must come to the same bytes as the one that nobody disturbed.

use std::sync::Arc;

use broker::settings::Settings;
use faults::History;
use fnv::FnvHashSet;

use super::recover::Found;
use super::report::{Choice, Report};
use super::visit::{Shared, choose, judge, pick};
use crate::oracle::Broken;
use crate::oracle::walk::Walk;
use crate::trace::{Again, Millis};

/// Under which name the machine is started after a crash inside a recovery.
const BOOT: &str = "explored-2";

/// A recovery that nobody disturbed.
pub(super) struct First<'a> {
    pub(super) found: &'a Found,
    /// The run up to the crash before it.
    pub(super) crashed: &'a Walk,
    /// Which of the run's starts it is like, and what with.
    pub(super) start: usize,
    pub(super) settings: &'a Settings,
    pub(super) now: Millis,
    /// What it did to the disk.
    pub(super) history: &'a History,
    /// The first and the last of its steps behind which it is crashed.
    pub(super) range: (usize, usize),
}

/// Goes through the crash points of one recovery; the first violation, and where.
pub(super) fn visit(
    shared: &Shared<'_>,
    report: &mut Report,
    first: &First<'_>,
) -> Option<((usize, Choice), Broken)> {
    let once = first.found.image();
    let boot: Arc<str> = BOOT.into();
    let mut seen = FnvHashSet::default();
    let mut cursor = first.history.cursor();
    while cursor.advance() {
        let steps = cursor.position();
        if steps < first.range.0 || steps > first.range.1 {
            continue;
        }
        let images = cursor.images();
        let (choices, sampled) = choose(&images, shared.bounds.inner, steps as u64);
        report.sampled += u64::from(sampled);
        for choice in choices {
            let image = pick(&images, choice);
            report.images += 1;
            let hash = image.hash();
            if !seen.insert(hash) {
                continue;
            }
            let (found, new) = shared.recovered(&image, hash, (first.start, first.settings), &boot);
            report.nested += u64::from(new);
            report.judged += 1;
            let mut walk = first.crashed.clone();
            walk.disturbed(first.found.clean);
            judge(&mut walk, &found, first.now);
            if let Ok(again) = &*found {
                report.compared += 1;
                walk.again(Again::Killed { operation: steps as u64 }, &once, &again.image());
            }
            if let Some(broken) = walk.findings.first() {
                return Some(((steps, choice), broken.clone()));
            }
        }
    }
    None
}
