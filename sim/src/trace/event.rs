//! One thing that happened.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use faults::Errno;

use super::{
    Again, Answer, CallId, CrashKind, Image, Millis, Moment, Recovered, Request, Starting, TopicPartition,
    World,
};

/// A disk operation as the trace keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOp {
    /// What was asked.
    pub op: faults::Op,
    /// The file or directory, relative to the data directory.
    pub path: Arc<str>,
    /// The second path of a rename.
    pub to: Option<Arc<str>>,
    /// Where a misdirected write has landed: the file, and the byte position in it.
    pub hit: Option<(Arc<str>, u64)>,
    /// Byte position; 0 where it has none.
    pub position: u64,
    /// Bytes asked for; the new length of a `set_len`.
    pub len: u64,
    /// Bytes done, or the error.
    pub result: Result<u64, Errno>,
    /// The fault that struck it, in words.
    pub fault: Option<String>,
    /// Whether it answered yes and did not do it: a lost or misdirected write, a sync that keeps nothing.
    pub lies: bool,
    /// Whether bytes that were well stored are no longer what they were.
    pub rots: bool,
    /// Whether what was written before the next sync is then not written back: that sync fails, and says so.
    pub drops: bool,
    /// How long a fault has made whoever asked wait.
    pub stalled_ms: Millis,
}

/// By the names of operations and errors, and without what was never so, so that one more of them changes no other run's hash.
impl Hash for DiskOp {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { op, path, to, hit, position, len, result, fault, lies, rots, drops, stalled_ms } = self;
        (op.name(), path, to, position, len).hash(hasher);
        (result.map_err(|errno| errno.to_string()), fault, lies, rots, stalled_ms).hash(hasher);
        if *drops {
            "drops".hash(hasher);
        }
        if let Some(hit) = hit {
            ("hits", hit).hash(hasher);
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A step of the scenario begins.
    Step {
        /// Its place in the scenario.
        step: u32,
        /// Its text.
        text: Arc<str>,
    },
    /// What came of a step, as a snapshot shows it.
    Said {
        /// The step.
        step: u32,
        /// What came of it, where timing does not decide that.
        text: Arc<str>,
        /// What came of it this time.
        fact: Arc<str>,
    },
    /// A client asks.
    Call {
        /// Ties the answer to it.
        id: CallId,
        /// Who.
        client: Arc<str>,
        /// What.
        request: Request,
        /// The oracle's own question, not the scenario's.
        probe: bool,
    },
    /// A client has its answer, or has given up.
    Answer {
        /// The call.
        id: CallId,
        /// What it was told.
        answer: Answer,
    },
    /// The disk did something.
    Disk(DiskOp),
    /// A fault struck that is not part of one disk operation (rot at rest, a sector going bad …).
    Fault {
        /// What.
        text: Arc<str>,
        /// The file it concerns, relative to the data directory, where it concerns one.
        path: Option<Arc<str>>,
        /// Whether bytes that were stored are no longer what was stored.
        damages: bool,
    },
    /// The broker went down.
    Crash {
        /// How.
        kind: CrashKind,
        /// What it was in the middle of, in words; empty between operations. Of a failed stop, why it failed.
        during: Arc<str>,
    },
    /// The scenario did something to a file behind the broker's back. An image before it and one after it tell what.
    Surgery {
        /// The file, relative to the data directory.
        path: Arc<str>,
        /// What.
        text: Arc<str>,
    },
    /// The broker's files at a moment that matters.
    Image {
        /// Which moment.
        moment: Moment,
        /// The files.
        image: Arc<Image>,
    },
    /// The broker is about to start, with this.
    Starting(Starting),
    /// The broker has started.
    Started {
        /// Whether it found the last shutdown clean.
        clean: bool,
        /// What it found and did, by topic and partition.
        partitions: Vec<Recovered>,
        /// Foreign files and leftovers.
        notes: Vec<String>,
    },
    /// The broker could not start.
    NotStarted {
        /// Why.
        error: Arc<str>,
    },
    /// The broker was asked to stop, and did not come to an end.
    NotStopped {
        /// What it is at.
        error: Arc<str>,
    },
    /// A copy of the disk was recovered beside the run, and then in another way.
    Again {
        /// In which other way.
        how: Again,
        /// What one recovery left.
        once: Arc<Image>,
        /// What the other way left, or why the broker did not start.
        other: Result<Arc<Image>, Arc<str>>,
    },
    /// Something about the world changes that stands between clients and the broker.
    World(World),
    /// The oracle's questions begin: what comes until they end is one consistent look at the broker.
    LookBegins,
    /// They end.
    LookEnds {
        /// Whether all of them were answered; a crash may have come between.
        complete: bool,
        /// Partitions with more behind what cannot be read than was asked for.
        unseen: Vec<TopicPartition>,
    },
    /// What a step said must come of it did not.
    Unmet {
        /// The step.
        step: u32,
        /// What had to come.
        expected: Arc<str>,
        /// What came.
        found: Arc<str>,
    },
    /// A fault that was aimed has not struck as often as it should: the run has not tested what it says.
    Inert {
        /// The step that aimed it.
        step: u32,
        /// The fault.
        text: Arc<str>,
        /// How often it has struck.
        struck: u64,
        /// How often it had to.
        due: u64,
    },
    /// The run cannot go on as the scenario says: a file to be changed is not there, a host has no such name …
    Impossible {
        /// The step.
        step: u32,
        /// Why.
        text: Arc<str>,
    },
    /// Faults have stopped and everything is healed: from here on the broker must work.
    Healed,
    /// All that was asked is done.
    Ended,
    /// The network's counters, at the end of a run.
    Network {
        /// The most connections that the broker held at the same time.
        connections_max: u64,
        /// The connections it still held when every client had gone and every deadline had passed.
        connections_left: u64,
    },
}
