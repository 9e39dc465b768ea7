//! What was done to a disk, from a beginning on: enough to build any state it went through, and any image that a power
//! loss could have left of it.

use std::sync::Arc;

use crate::event::{Op, Site};
use crate::image::Images;
use crate::limits::Limits;
use crate::machine::Call;
use crate::node::Ino;
use crate::profile::Profile;
use crate::state::{Change, Fate, State};

/// One change to a disk: an operation that changed nothing, or failed without effect, leaves none.
#[derive(Clone)]
pub struct Step {
    /// What was asked for.
    pub op: Op,
    /// Of which file or directory, by its name at the time.
    pub path: Arc<str>,
    /// The byte position of a write.
    pub position: u64,
    /// The bytes of a write; the new length.
    pub len: u64,
    /// Where in the program it was asked for.
    pub site: Option<Site>,
    /// The tag set by [`crate::Disk::set_phase`].
    pub phase: Arc<str>,
    /// What kept the disk from taking changes just before, or, where the step itself has come to such a limit, from then on.
    pub limits: Limits,
    pub(crate) change: Change,
}

impl Step {
    /// Whether this is no operation but a power loss: the disk is what it left from here on.
    pub fn is_power_loss(&self) -> bool {
        matches!(self.change, Change::Become(_))
    }

    /// Whether somebody has changed a file at rest: no program asked for it, and it is not what became of a file as it was read, or of
    /// the cache.
    pub fn is_by_hand(&self) -> bool {
        self.site.is_none() && !self.is_power_loss() && self.op != Op::Read
    }

    /// Whether it only ends the operation that the step before it belongs to: a process is told that its sync has failed.
    pub fn ends_a_failed_sync(&self) -> bool {
        matches!(self.change, Change::TellError { .. })
    }

    /// Whether it makes something durable.
    pub fn is_sync(&self) -> bool {
        matches!(self.change, Change::SyncFile { .. } | Change::SyncDir { .. })
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_power_loss() {
            return f.write_str("power loss");
        }
        write!(f, "{} {}", self.op, self.path)?;
        match self.op {
            Op::Write => write!(f, " at {} len {}", self.position, self.len),
            Op::SetLen => write!(f, " to {}", self.len),
            _ => Ok(()),
        }
    }
}

/// A history being recorded.
pub(crate) struct Recording {
    base: State,
    steps: Vec<Step>,
}

impl Recording {
    pub(crate) fn new(base: State) -> Recording {
        Recording { base, steps: Vec::new() }
    }

    pub(crate) fn push(&mut self, change: Change, call: &Call<'_>, (phase, limits): (&Arc<str>, Limits)) {
        let path = match self.steps.last() {
            Some(last) if &*last.path == call.path => last.path.clone(),
            _ => call.path.into(),
        };
        let len = match &change {
            Change::Write { data, .. } => data.len() as u64,
            _ => call.len,
        };
        let (op, position, site) = (call.op, call.position, call.site);
        self.steps.push(Step { op, path, position, len, site, phase: phase.clone(), limits, change });
    }

    /// The disk is in another state now, however it came to it.
    pub(crate) fn restart(&mut self, state: &State, limits: Limits) {
        self.push(Change::Become(Arc::new(state.clone())), &Call::new(Op::Open, "/"), (&"".into(), limits));
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn finish(self) -> History {
        History { base: Arc::new(self.base), steps: self.steps.into() }
    }
}

/// The changes made to a disk since a recording began. Clones share everything.
#[derive(Clone)]
pub struct History {
    base: Arc<State>,
    steps: Arc<[Step]>,
}

impl History {
    /// How many steps it has. A crash can strike before each, inside it, and after the last.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The disk after the first `n` steps. Steps are applied again from the beginning: to visit every prefix, a
    /// [`Cursor`] is cheaper.
    pub fn at(&self, n: usize) -> Images {
        let mut cursor = self.cursor();
        while cursor.position() < n && cursor.advance() {}
        cursor.images()
    }

    /// At the beginning, to go through every prefix.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { history: self, state: (*self.base).clone(), next: 0 }
    }

    /// The same operations on a disk of another profile. What was pending or settled when the recording began, or was
    /// left by a power loss on the way, stays as it was.
    pub fn under(&self, profile: Profile) -> History {
        let mut base = (*self.base).clone();
        base.set_rules(profile, profile.default_lies());
        let rule = |step: &Step| {
            let mut step = step.clone();
            if let Change::Become(state) = &step.change {
                let mut state = (**state).clone();
                state.set_rules(profile, profile.default_lies());
                step.change = Change::Become(Arc::new(state));
            }
            step
        };
        History { base: Arc::new(base), steps: self.steps.iter().map(rule).collect() }
    }

    /// The same history as if these syncs had been answered with yes and not done. A sync changes nothing that a
    /// process sees, so nothing need be run again.
    pub fn without_syncs(&self, off: impl Fn(&Step) -> bool) -> History {
        let steps = self.steps.iter().filter(|step| !(step.is_sync() && off(step))).cloned().collect();
        History { base: self.base.clone(), steps }
    }

    /// The same history with one more sync after the first `n` steps, of what `path` names then; nothing where it
    /// names nothing.
    pub fn with_sync(&self, n: usize, path: &str) -> Option<History> {
        let state = self.at(n).into_state();
        let ino = state.lookup(&crate::path::Parsed::new(path.as_ref()).ok()?).ok()?;
        let (op, change) = match state.dir(ino) {
            Some(_) => (Op::SyncDir, Change::SyncDir { ino }),
            None => (Op::Sync, Change::SyncFile { ino, all_but: 0 }),
        };
        let n = n.min(self.len());
        let limits = self.steps.get(n).or(self.steps.last()).map_or(Limits::default(), |step| step.limits);
        let sync =
            Step { op, path: path.into(), position: 0, len: 0, site: None, phase: "".into(), limits, change };
        let mut steps = self.steps[..n].to_vec();
        steps.push(sync);
        steps.extend_from_slice(&self.steps[n..]);
        Some(History { base: self.base.clone(), steps: steps.into() })
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.steps.iter()).finish()
    }
}

/// A place in a history: between two steps.
pub struct Cursor<'a> {
    history: &'a History,
    state: State,
    next: usize,
}

impl Cursor<'_> {
    /// How many steps lie behind it.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Goes on by one step; false at the end.
    pub fn advance(&mut self) -> bool {
        let Some(step) = self.history.steps.get(self.next) else { return false };
        self.state.apply(&step.change);
        self.next += 1;
        true
    }

    /// What a power loss here could leave.
    pub fn images(&self) -> Images {
        Images::new(self.state.clone())
    }

    /// Where the next step is a write, how many bytes it has: a crash can strike after any of them.
    pub fn next_write_len(&self) -> Option<u64> {
        match &self.history.steps.get(self.next)?.change {
            Change::Write { data, .. } => Some(data.len() as u64),
            _ => None,
        }
    }

    /// What a power loss could leave after the first `bytes` bytes of the next step, which is a write; nothing where
    /// it is not, or is not so long.
    pub fn images_inside(&self, bytes: u64) -> Option<Images> {
        let Change::Write { ino, position, data, .. } = &self.history.steps.get(self.next)?.change else {
            return None;
        };
        let part = data.get(..usize::try_from(bytes).ok()?)?;
        let mut state = self.state.clone();
        let (ino, position): (Ino, u64) = (*ino, *position);
        state.apply(&Change::Write { ino, position, data: part.into(), fate: Fate::Arrives });
        Some(Images::new(state))
    }
}
