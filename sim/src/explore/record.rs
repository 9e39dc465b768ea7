//! The run that is explored: a scenario, executed once, with all that its disk went through.

use faults::{History, Site};

use crate::executor;
use crate::scenario::{BrokerSettings, Profile, Scenario, unfold};
use crate::trace::{Event, Trace};

/// Why a scenario cannot be explored.
#[derive(Debug, thiserror::Error)]
pub enum Unexplorable {
    /// The harness failed.
    #[error("the scenario does not run: {0}")]
    Run(String),
}

/// A run to be explored.
#[derive(Clone, Debug)]
pub struct Run {
    /// The scenario, explicit and with one seed.
    pub scenario: Scenario,
    /// What the disk may leave.
    pub profile: faults::Profile,
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
    /// A sync that is switched off, in the history and in every recovery.
    pub off: Option<Site>,
}

impl Run {
    /// Executes a scenario with one seed.
    pub fn new(scenario: &Scenario, seed: u64, profile: Option<Profile>) -> Result<Run, Unexplorable> {
        let mut scenario = unfold(scenario, seed);
        if let Some(profile) = profile {
            scenario.disk.profile = Some(profile);
        }
        let recorded = executor::record(&scenario).map_err(|e| Unexplorable::Run(e.to_string()))?;
        let trace = recorded.executed.trace;
        let healed = trace.entries.iter().position(|e| matches!(e.event, Event::Healed));
        let healed = healed.unwrap_or(trace.entries.len());
        let len = recorded.marks.partition_point(|entry| *entry < healed);
        let profile = executor::profile(scenario.disk.profile.unwrap_or_default());
        let (history, marks, starts) = (recorded.history, recorded.marks, recorded.starts);
        Ok(Run { scenario, profile, trace, history, marks, len, starts, off: None })
    }

    /// The same run on a broker in which this place does not sync.
    pub fn without(&self, off: Site) -> Run {
        let is_off = |step: &faults::Step| step.site == Some(off);
        let steps = self.history.steps();
        let kept = steps.iter().zip(&self.marks).filter(|(step, _)| !is_off(step));
        let marks = kept.map(|(_, mark)| *mark).collect();
        let len = self.len - steps.iter().take(self.len).filter(|step| is_off(step)).count();
        Run { history: self.history.without_syncs(is_off), marks, len, off: Some(off), ..self.clone() }
    }

    /// The places that sync in it, with how often each did.
    pub fn sites(&self) -> std::collections::BTreeMap<Site, u64> {
        let mut sites = std::collections::BTreeMap::new();
        for site in self.history.steps().iter().filter_map(|step| step.site) {
            *sites.entry(site).or_default() += 1;
        }
        sites
    }
}
