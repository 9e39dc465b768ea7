//! The run that is explored: a scenario, executed once, with all that its disk went through.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker::settings::Settings;
use faults::{History, Limits, Site};

use super::report::{Choice, Point};
use super::visit::pick;
use crate::executor;
use crate::outcome::{Failure, failures};
use crate::scenario::{BrokerSettings, Profile, Scenario, unfold};
use crate::source_line::SourceLine;
use crate::trace::{Event, Millis, Trace};
use crate::world::host::log_settings;

/// Under which name the machine is started after the lights went out in the run.
const FIRST_BOOT: &str = "explored-1";

/// Why a scenario cannot be explored.
#[derive(Debug, thiserror::Error)]
#[error("the scenario does not run: {0}")]
pub struct Unexplorable(pub Box<Failure>);

/// A run to be explored.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario, explicit and with one seed.
    pub scenario: Scenario,
    /// What the disk may leave.
    pub profile: Profile,
    /// What happened.
    pub trace: Trace,
    /// What the disk went through, up to the end of the scenario's own steps.
    pub history: History,
    /// Of each step of the history, the entry of the trace that it belongs to.
    pub marks: Vec<usize>,
    /// How many steps of the history belong to the scenario; what comes behind them is the harness's own.
    pub len: usize,
    /// What the broker was started with, from which entry on.
    pub starts: Vec<(usize, BrokerSettings)>,
    /// What kept the disk from taking changes at the end of the scenario's own steps.
    pub limits_at_end: Limits,
    /// How the run itself did not go as it must: then its crash points are those of something else than the scenario says. On a
    /// disk that is not the scenario's own, only a broken promise is one: steps may find something else than they were written for.
    pub failures: Vec<Failure>,
    /// A sync that is switched off, in the history and in every recovery.
    pub off: Option<SourceLine>,
}

impl Run {
    /// Executes a scenario with one seed.
    pub fn new(scenario: &Scenario, seed: u64, profile: Option<Profile>) -> Result<Run, Unexplorable> {
        let mut scenario = unfold(scenario, seed);
        let its_own = profile.is_none_or(|profile| profile == scenario.disk.profile.unwrap_or_default());
        if let Some(profile) = profile {
            scenario.disk.profile = Some(profile);
        }
        let recorded = executor::record(&scenario).map_err(|why| Unexplorable(Box::new(why.into())))?;
        let trace = recorded.executed.trace;
        let healed = trace.entries.iter().position(|e| matches!(e.event, Event::Healed));
        let healed = healed.unwrap_or(trace.entries.len());
        let len = recorded.marks.partition_point(|entry| *entry < healed);
        let profile = scenario.disk.profile.unwrap_or_default();
        let (history, marks, starts) = (recorded.history, recorded.marks, recorded.starts);
        let mut failures = failures(&scenario, &trace, recorded.executed.panic);
        failures.retain(|failure| its_own || matches!(failure, Failure::Broken(_) | Failure::Panic(_)));
        let limits_at_end = recorded.limits_at_end;
        Ok(Run { scenario, profile, trace, history, marks, len, starts, limits_at_end, failures, off: None })
    }

    /// The same run on a broker in which this place does not sync.
    pub fn without(&self, off: &SourceLine) -> Run {
        let is_off = |step: &faults::Step| step.is_sync() && step.site.is_some_and(|site| off.is(site));
        let steps = self.history.steps();
        let kept = steps.iter().zip(&self.marks).filter(|(step, _)| !is_off(step));
        let marks = kept.map(|(_, mark)| *mark).collect();
        let len = self.len - steps.iter().take(self.len).filter(|step| is_off(step)).count();
        Run {
            history: self.history.without_syncs(is_off),
            marks,
            len,
            off: Some(off.clone()),
            ..self.clone()
        }
    }

    /// The same run with one more sync, of what `path` names after the first `steps` steps; none where it names nothing.
    pub fn with_sync(&self, steps: usize, path: &str) -> Option<Run> {
        let history = self.history.with_sync(steps, path)?;
        let mut marks = self.marks.clone();
        // It comes right after the change before it, and before anybody is told anything.
        let entry = steps.checked_sub(1).and_then(|before| marks.get(before)).map_or(0, |entry| entry + 1);
        marks.insert(steps.min(marks.len()), entry);
        Some(Run { history, marks, len: self.len + 1, ..self.clone() })
    }

    /// What a crash leaves.
    pub(super) fn image(&self, point: Point) -> Option<faults::Image> {
        let mut cursor = self.history.cursor();
        while cursor.position() < point.steps && cursor.advance() {}
        let images =
            point.bytes.map_or_else(|| Some(cursor.images()), |bytes| cursor.images_inside(bytes))?;
        Some(pick(&images, point.choice))
    }

    /// What the broker ran with at a crash behind so many steps.
    pub(super) fn settings_at(&self, steps: usize) -> Settings {
        let entry = self.entry_after(steps).unwrap_or(self.trace.entries.len());
        let start = self.starts.iter().rev().find(|(at, _)| *at <= entry).or(self.starts.first());
        start.map_or_else(|| log_settings(&BrokerSettings::default()), |(_, settings)| log_settings(settings))
    }

    /// Under which name the machine is started after a crash.
    pub(super) fn boot(&self, point: Point) -> Arc<str> {
        if point.choice != Choice::Process {
            return FIRST_BOOT.into();
        }
        let before = self.history.steps().iter().take(point.steps);
        let lost = before.filter(|step| step.is_power_loss()).count();
        format!("boot-{}", lost + 1).into()
    }

    /// What keeps the disk from taking changes after a crash.
    pub(super) fn limits(&self, point: Point) -> Limits {
        let step = self.history.steps().get(point.steps).filter(|_| point.steps < self.len);
        let limits = step.map_or(self.limits_at_end, |step| step.limits);
        if point.choice == Choice::Process { limits } else { limits.after_power_loss() }
    }

    /// When the operation is done of which a crash behind so many steps leaves a part out: some change the disk in two steps.
    pub(super) fn under_way(&self, steps: usize) -> Option<Millis> {
        let mark = self.marks.get(steps)?;
        let is_inside = steps > 0 && self.marks.get(steps - 1) == Some(mark);
        is_inside.then(|| self.trace.entries.get(*mark).map(|entry| entry.at))?
    }

    /// The places that sync in it.
    pub fn sites(&self) -> BTreeSet<Site> {
        self.history.steps().iter().filter(|step| step.is_sync()).filter_map(|step| step.site).collect()
    }

    /// The entry of the trace before which a crash strikes that lies behind so many steps; none behind the last.
    pub fn entry_after(&self, steps: usize) -> Option<usize> {
        self.marks.get(steps).copied().filter(|_| steps < self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::ExecuteError;

    #[test]
    fn a_broker_that_panics_is_told_from_a_harness_that_does() {
        let code = |why: ExecuteError| Unexplorable(Box::new(why.into())).0.exit_code();
        assert_eq!(code(ExecuteError::Panic("panicked at broker/src/log.rs:1:1:\nno".into())), 1);
        assert_eq!(code(ExecuteError::Panic("panicked at sim/src/log.rs:1:1:\nno".into())), 4);
        assert_eq!(code(ExecuteError::Stuck("it hangs".into())), 4);
    }
}
