//! What is in the way between clients and the broker. Where nothing is, every request has to be answered, and rightly so.
//!
//! In the way are: a broker that is down, or goes down, or comes up; a link that is cut, holds back, or breaks by itself, and what
//! a connection has lost by it; a disk or a network so slow that the client's patience is too short; few connections, short
//! deadlines, and clients that make their own bytes, since those can take what others need. Not in the way is a disk that fails:
//! who asks for what it cannot do is told so.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::trace::{Answer, Millis, Pace, Starting, World};
use broker::error::Code;

/// Fewer connections than this can all be taken.
const CONNECTIONS_FEW: u64 = 16;

/// A broker that gives up on a connection sooner than this may do so in the middle of a request.
const SILENCE_SHORT_MS: Millis = 10_000;

/// Ticks that pass until all have heard of the end of a process, beside what the message takes.
const TICKS: Millis = 5;

/// What is in the way now.
#[derive(Clone, Debug, Default)]
pub(super) struct Obstacles {
    serves: bool,
    cut: BTreeSet<(Arc<str>, Arc<str>)>,
    flaky: bool,
    accept_errors: bool,
    raw: bool,
    cramped: bool,
    pace: Pace,
    /// Until then, a connection to a process that is gone may not have heard of it.
    stale_until: Millis,
    /// Whether any link was ever cut, and who has a connection that is younger, or has lived through it.
    was_cut: bool,
    sound: BTreeSet<Arc<str>>,
    /// Grows with whatever may come between a call and its answer.
    changes: u64,
}

/// What was in the way when a request was made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    quiet: bool,
    changes: u64,
}

impl Obstacles {
    /// What is in the way of a request that this client makes now.
    pub(super) fn before(&self, client: &Arc<str>, now: Millis) -> Before {
        let whole = self.cut.is_empty() && !self.flaky && (!self.was_cut || self.sound.contains(client));
        let quiet =
            self.serves && whole && self.is_roomy() && self.pace.is_patient() && now > self.stale_until;
        Before { quiet, changes: self.changes }
    }

    /// What is in the way of a stop that was asked for just now.
    pub(super) fn before_stop(&self, now: Millis) -> Before {
        let whole = self.cut.is_empty() && !self.flaky && !self.was_cut;
        let quiet = whole && self.is_roomy() && self.pace.is_patient() && now > self.stale_until;
        Before { quiet, changes: self.changes }
    }

    /// Whether nobody can take what others need.
    fn is_roomy(&self) -> bool {
        !self.raw && !self.cramped && !self.accept_errors
    }

    /// Whether the broker serves, and nobody has asked it to stop.
    pub(super) fn serves(&self) -> bool {
        self.serves
    }

    /// Whether nothing was in the way, and nothing has come.
    pub(super) fn is_quiet(&self, before: Before) -> bool {
        before.quiet && before.changes == self.changes
    }

    /// Whether it was served by one process all the time, whatever else was in the way.
    pub(super) fn is_unchanged(&self, before: Before) -> bool {
        self.serves && before.changes == self.changes
    }

    /// How long a request takes at most.
    pub(super) fn bound(&self) -> Millis {
        self.pace.bound()
    }

    /// A disk operation took long, or something else has happened that a request may have had to do with.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// The world has changed.
    pub(super) fn world(&mut self, world: &World) {
        // What the clock shows is in nobody's way.
        self.changes += u64::from(!matches!(world, World::Clock(_)));
        match world {
            World::Cut(a, b) => {
                self.cut.insert((a.clone(), b.clone()));
                self.was_cut = true;
                self.sound.clear();
            }
            World::Mended(a, b) => {
                self.cut.remove(&(a.clone(), b.clone()));
            }
            World::Whole => self.cut.clear(),
            World::Flaky(flaky) => {
                self.flaky = *flaky;
                self.was_cut |= *flaky;
                self.sound.clear();
            }
            World::AcceptErrors(errors) => self.accept_errors = *errors > 0,
            World::Pace(pace) => self.pace = *pace,
            World::Clock(_) | World::Readable | World::CachesDropped => {}
            World::Raw => self.raw = true,
            World::Stopping => self.serves = false,
        }
    }

    /// All faults have stopped, and clients that are left make connections of their own.
    pub(super) fn healed(&mut self) {
        self.changes += 1;
        (self.flaky, self.accept_errors, self.raw, self.was_cut) = (false, false, false, false);
        self.cut.clear();
    }

    /// The broker begins to start.
    pub(super) fn starting(&mut self, starting: &Starting) {
        self.changes += 1;
        self.serves = false;
        self.cramped =
            starting.connections_max < CONNECTIONS_FEW || starting.silence_max_ms < SILENCE_SHORT_MS;
    }

    /// It serves from here on.
    pub(super) fn started(&mut self) {
        self.changes += 1;
        self.serves = true;
    }

    /// It is gone.
    pub(super) fn down(&mut self, now: Millis) {
        self.changes += 1;
        self.serves = false;
        self.stale_until = now + self.pace.message + TICKS;
    }

    /// A client was answered, or has given up its connection: what was lost before it asked is no matter any more.
    pub(super) fn answered(&mut self, client: &Arc<str>, answer: &Answer, before: Before) {
        if before.changes == self.changes && self.cut.is_empty() {
            self.sound.insert(client.clone());
        }
        // After these the broker hangs up, and what was sent behind is lost.
        if let Answer::Refused { code, .. } = answer
            && matches!(
                code,
                Code::FrameTooLarge | Code::Timeout | Code::TooManyConnections | Code::ShuttingDown
            )
        {
            self.changes += 1;
        }
    }
}
