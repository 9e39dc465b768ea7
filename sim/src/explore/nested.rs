//! Crashes inside recovery: after each of its operations, what could have been left is recovered again, and must come to the
//! same bytes as the recovery that nobody disturbed.

use std::sync::Arc;

use broker::settings::Settings;
use fnv::FnvHashSet;

use super::recover::Found;
use super::report::{Choice, Report};
use super::visit::{Shared, choose, pick};
use crate::oracle::walk::Walk;
use crate::oracle::{Broken, Promise};
use crate::trace::Again;

/// Goes through the crash points of one recovery; the first violation, and where.
pub(super) fn visit(
    shared: &Shared<'_>,
    report: &mut Report,
    once: &Found,
    crashed: &Walk,
    settings: (usize, &Settings),
) -> Option<((usize, Choice), Broken)> {
    let history = once.history.as_ref()?;
    let boot: Arc<str> = "explored-2".into();
    let mut seen = FnvHashSet::default();
    let mut cursor = history.cursor();
    while cursor.advance() {
        let steps = cursor.position();
        let images = cursor.images();
        let (choices, sampled) = choose(&images, shared.bounds.inner, steps as u64);
        report.sampled += u64::from(sampled);
        for choice in choices {
            let Some(image) = pick(&images, choice) else { continue };
            report.images += 1;
            let hash = image.hash();
            if !seen.insert(hash) {
                continue;
            }
            let (found, new) = shared.recovered(&image, hash, settings, &boot);
            report.nested += u64::from(new);
            report.distinct += u64::from(new);
            let mut walk = crashed.clone();
            match &*found {
                Err(why) => {
                    let said = ("the broker starts", why.as_str());
                    walk.findings.broke(Promise::Live, "does not start again", "the broker", said, &[]);
                }
                Ok(again) => {
                    let how = Again::Killed { operation: steps as u64 };
                    walk.again(how, &once.image(), &again.image());
                }
            }
            if let Some(broken) = walk.findings.first() {
                return Some(((steps, choice), broken.clone()));
            }
        }
    }
    None
}
