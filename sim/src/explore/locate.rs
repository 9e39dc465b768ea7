//! Which sync is missing: the history of a violation, with one sync more at each place where one could help.
//!
//! A sync can help where something has just been changed: of the file that was written or cut, or of the directory in which a
//! name was given or taken away. Each is added alone, and the crash points from there up to the violation are visited again. The
//! earliest with which none of them breaks a promise is named, with the change before it and the line that made the change.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use faults::{History, Op, Site, Step};

use super::recover::recover;
use super::report::Violation;
use super::visit::{AddedSync, explore_telling, explore_with};
use super::whereabouts::Whereabouts;
use super::{Bounds, Run};

/// A sync that mends a violation.
#[derive(Clone, Debug)]
pub struct Mend {
    /// After so many steps of the disk's history, or of the recovery's.
    pub steps: usize,
    /// Whether it belongs into the recovery in which the second crash strikes.
    pub in_recovery: bool,
    /// What has to be synced, as the disk names it.
    pub path: String,
    /// The change before it.
    pub after: String,
    /// Where in the broker that change was asked for.
    pub site: Option<Site>,
    /// How many syncs were tried, this one included.
    pub tried: usize,
}

/// The earliest sync that mends a violation; none where no single one does. So many images of each crash point have to hold.
pub fn locate(run: &Run, violation: &Violation, images: u64, whereabouts: &Whereabouts) -> Option<Mend> {
    match violation.nested {
        None => in_the_run(run, violation.point.steps, images, whereabouts),
        Some(nested) => in_recovery(run, violation, (nested.steps, images), whereabouts),
    }
}

fn in_the_run(run: &Run, until: usize, images: u64, whereabouts: &Whereabouts) -> Option<Mend> {
    let holds = |run: &Run, from: usize| {
        let bounds = Bounds { images, from, to: Some(until + 1), depth: 1, ..Bounds::default() };
        explore_telling(run, bounds, whereabouts, &|| ControlFlow::Continue(())).holds()
    };
    earliest(run.history.steps(), until, |behind, path| {
        let mended = run.with_sync(behind, path);
        mended.is_some_and(|mended| holds(&mended, until + 1) && holds(&mended, behind))
    })
}

/// The violation came of a crash inside a recovery, so the sync is added to what that recovery did.
fn in_recovery(
    run: &Run,
    violation: &Violation,
    (until, images): (usize, u64),
    whereabouts: &Whereabouts,
) -> Option<Mend> {
    let point = violation.point;
    let history = recovery_of(run, violation)?;
    let mut mend = earliest(history.steps(), until, |behind, path| {
        let added = AddedSync { point, behind, until: until + 1, path: path.to_owned() };
        let (from, to) = (point.steps, Some(point.steps));
        let threads = Some(NonZeroUsize::MIN);
        let bounds = Bounds { inner: images, from, to, threads, ..Bounds::default() };
        let report = explore_with(run, bounds, Some(&added), (whereabouts, &|| ControlFlow::Continue(())));
        report.compared > 0 && report.holds()
    })?;
    mend.in_recovery = true;
    Some(mend)
}

/// What the recovery of a violation's image does to the disk.
fn recovery_of(run: &Run, violation: &Violation) -> Option<History> {
    let disk = run.image(violation.point)?.to_disk(faults::Config::new(run.profile));
    disk.limit(run.limits(violation.point));
    let settings = run.settings_at(violation.point.steps);
    let found = recover(&disk, &settings, run.boot(violation.point), run.off.as_ref()).ok()?;
    found.history
}

/// Tries a sync after each of the first so many steps.
fn earliest(steps: &[Step], until: usize, mends: impl Fn(usize, &str) -> bool) -> Option<Mend> {
    let mut tried = 0;
    for (before, step) in steps.iter().enumerate().take(until) {
        for path in changed(step) {
            tried += 1;
            if mends(before + 1, &path) {
                let (after, site) = (format!("{step:?}"), step.site);
                return Some(Mend { steps: before + 1, in_recovery: false, path, after, site, tried });
            }
        }
    }
    None
}

/// What a step has changed that only a sync makes durable.
fn changed(step: &Step) -> Vec<String> {
    let path = step.path.to_string();
    let dir =
        || path.rsplit_once('/').map_or("/", |(dir, _)| if dir.is_empty() { "/" } else { dir }).to_owned();
    match step.op {
        Op::Write | Op::SetLen => vec![path],
        Op::Open | Op::Rename | Op::Remove | Op::MakeDir | Op::RemoveDir => vec![dir()],
        _ => Vec::new(),
    }
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "a sync is missing: of {}, at the earliest after disk operation {}:",
            self.path, self.steps
        )?;
        write!(f, "  {}", self.after)?;
        if let Some(site) = self.site {
            write!(f, "\n  asked for in {}:{}", site.file, site.line)?;
        }
        write!(
            f,
            "\n  with it, no crash up to the violation breaks a promise ({} syncs were tried)",
            self.tried
        )
    }
}
