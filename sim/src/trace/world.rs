//! What stands between clients and the broker, as far as the scenario has put it there. The oracle has to know it to say of an
//! answer that did not come whether it had to.

use std::fmt;
use std::sync::Arc;

use super::Millis;

/// Something about the world that changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum World {
    /// Messages between these two hosts are lost, or held back, from here on.
    Cut(Arc<str>, Arc<str>),
    /// What was held back between these two comes, and nothing is held back any more.
    Mended(Arc<str>, Arc<str>),
    /// All links are whole. What was lost meanwhile stays lost: a connection that lived through it may be silent for ever.
    Whole,
    /// Whether links break by themselves.
    Flaky(bool),
    /// So many of the next connections cannot be accepted.
    AcceptErrors(u64),
    /// How long things take.
    Pace(Pace),
    /// What the broker's clock shows now, and whether it goes on from there.
    Clock(Clock),
    /// A client that makes its own bytes is at work.
    Raw,
    /// The broker was asked to stop.
    Stopping,
    /// Every sector of the disk can be read again.
    Readable,
    /// Pages that count as clean have left the page cache: what a failed sync has dropped is no longer read from there.
    CachesDropped,
}

/// A clock that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    /// Milliseconds since the Unix epoch.
    pub shows: u64,
    /// Whether it goes on; otherwise it stands still.
    pub runs: bool,
}

impl Clock {
    /// The last time that it can show: there it stays.
    pub const LAST: u64 = i64::MAX.unsigned_abs();

    /// What it shows so much later, where nobody has touched it meanwhile.
    pub fn later(&self, by: Millis) -> u64 {
        let shows = if self.runs { self.shows.saturating_add(by) } else { self.shows };
        shows.min(Self::LAST)
    }
}

/// How long things take at most, and how long clients wait. In milliseconds, rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pace {
    /// For a client: until it takes an answer for lost.
    pub timeout: Millis,
    /// For a message: from one host to another.
    pub message: Millis,
    /// For a read or write of the disk.
    pub disk: Millis,
    /// For a sync of the disk.
    pub sync: Millis,
}

/// How many messages, disk operations and syncs one request may have to wait for, with those of others that come before it.
const MESSAGES: Millis = 8;
const OPERATIONS: Millis = 64;
const SYNCS: Millis = 8;

/// A timer fires up to a tick late, and a sync may begin as late again.
const TIMER: Millis = 5;

impl Pace {
    /// How long a client waits for a connection.
    pub const CONNECT: Millis = 500;

    /// Whether clients wait as long as what they ask for may take.
    pub fn is_patient(&self) -> bool {
        self.bound() <= self.timeout.min(Self::CONNECT)
    }

    /// The longest that a record may have to wait for its sync beyond the interval, with all that may delay it: one that is
    /// under way does not cover it, and it takes the next one, too.
    pub fn sync_slack(&self) -> Millis {
        TIMER + 2 * self.sync
    }

    /// How long a request takes at most with all it has to wait for.
    pub fn bound(&self) -> Millis {
        MESSAGES * self.message + OPERATIONS * self.disk + SYNCS * self.sync
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            World::Cut(a, b) => write!(f, "nothing gets from {a} to {b}, or back"),
            World::Mended(a, b) => write!(f, "the link between {a} and {b} works again"),
            World::Whole => write!(f, "all links work"),
            World::Flaky(true) => write!(f, "links break by themselves"),
            World::Flaky(false) => write!(f, "links do not break by themselves"),
            World::AcceptErrors(0) => write!(f, "connections can be accepted"),
            World::AcceptErrors(n) => write!(f, "the next {n} accepts fail"),
            World::Pace(pace) => write!(
                f,
                "clients wait {} ms; a message takes up to {} ms, the disk up to {} ms, a sync up to {} ms",
                pace.timeout, pace.message, pace.disk, pace.sync
            ),
            World::Clock(Clock { shows, runs }) => {
                write!(
                    f,
                    "the broker's clock shows {shows}, and {}",
                    if *runs { "runs" } else { "stands still" }
                )
            }
            World::Raw => write!(f, "a client sends bytes of its own making"),
            World::Stopping => write!(f, "the broker is asked to stop"),
            World::Readable => write!(f, "every sector can be read again"),
            World::CachesDropped => write!(f, "clean pages leave the page cache"),
        }
    }
}
