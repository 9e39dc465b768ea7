//! What happened in a run, in order, in simulated time: the one thing that the executor gives away, and all that the
//! oracle, the snapshots, the timeline and the check of determinism look at.
//!
//! | part | is |
//! | --- | --- |
//! | [`Event`] | one thing that happened: a call, an answer, a disk operation, a fault, a crash, a recovery … |
//! | [`Entry`] | an event and when it happened |
//! | [`Trace`] | all entries of a run; [`Trace::hash`] is the same for the same scenario and build, in another process too |
//! | [`Recorder`] | a handle with which every part of the world adds to the one trace |
//! | [`mod@print`] | the timeline, for people |

mod call;
mod hash;
pub mod print;
mod world;

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use faults::Errno;

pub use call::{Answer, At, CallId, Placed, Request, Seen, Sent};
pub use world::{Clock, Pace, World};

/// Simulated milliseconds since the run began.
pub type Millis = u64;

/// How the broker went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashKind {
    /// The process died (`kill -9`); what was in the page cache is still there.
    Process,
    /// The lights went out; what was not synced may be gone.
    Power,
    /// A clean stop: everything synced and closed.
    Stop,
    /// It was asked to stop, and could not sync or close everything: what it leaves is what the death of its process leaves.
    FailedStop,
}

/// One file as it lay on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageFile {
    /// Relative to the data directory.
    pub path: Arc<str>,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// The files of the data directory at one moment, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Image(pub Vec<ImageFile>);

impl Image {
    /// The bytes of one file.
    pub fn get(&self, path: &str) -> Option<&Arc<[u8]>> {
        let at = self.0.binary_search_by(|f| f.path.as_ref().cmp(path)).ok()?;
        Some(&self.0[at].bytes)
    }
}

/// When an [`Event::Image`] was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// The broker is about to start on them.
    Down,
    /// The scenario is about to do something to files.
    Untouched,
    /// The scenario has done something to files.
    Touched,
    /// The broker has recovered and has not yet answered anybody.
    Recovered,
    /// The broker is up, nothing is in flight, and the oracle asks.
    Check,
}

/// What the oracle has to know of the settings that a broker starts with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Starting {
    /// When appends are acknowledged.
    pub durability: Mode,
    /// Every how many records the indexes get an entry.
    pub index_interval: u64,
    /// What of old records is kept.
    pub retention: Retention,
    /// The most connections.
    pub connections_max: u64,
    /// How long a connection may be silent, or take for a request or an answer, whichever is shortest.
    pub silence_max_ms: Millis,
    /// The longest that a sync takes, with all that may delay it.
    pub sync_slack_ms: Millis,
    /// Whether the disk's syncs may be lies.
    pub lying: bool,
}

/// What of old records is kept: all, or what these leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Retention {
    /// The oldest segment goes while a partition holds more bytes than this.
    pub bytes: Option<u64>,
    /// And when all of it is older than this.
    pub age_ms: Option<Millis>,
}

impl Retention {
    /// Whether anything may go.
    pub fn any(self) -> bool {
        self.bytes.is_some() || self.age_ms.is_some()
    }

    /// A topic's own, or the broker's, each for itself.
    #[must_use]
    pub fn or(self, brokers: Self) -> Self {
        Self { bytes: self.bytes.or(brokers.bytes), age_ms: self.age_ms.or(brokers.age_ms) }
    }
}

/// The durability mode: [`broker::settings::Durability`], in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Acknowledged when written.
    #[default]
    Os,
    /// Acknowledged when written, synced within so many milliseconds.
    Interval(Millis),
    /// Acknowledged when synced.
    Always,
}

/// What one partition's recovery said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovered {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: u32,
    /// The first offset.
    pub start: u64,
    /// The offset after the last.
    pub end: u64,
    /// Bytes of a torn tail that were cut off.
    pub cut: u64,
    /// Bytes set aside behind a hole.
    pub set_aside: u64,
    /// Index files built anew, by file name.
    pub rebuilt: Vec<String>,
    /// Damaged stretches: segment file name, byte, bytes, first bad offset, first good offset after it.
    pub damage: Vec<(String, u64, u64, u64, u64)>,
    /// Why it takes no writes, where it takes none.
    pub fenced: Option<String>,
    /// Anything else worth knowing.
    pub notes: Vec<String>,
}

/// A disk operation as the trace keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOp {
    /// What was asked.
    pub op: faults::Op,
    /// The file or directory, relative to the data directory.
    pub path: Arc<str>,
    /// The second path of a rename.
    pub to: Option<Arc<str>>,
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
}

/// By the names of operations and errors, so that one more of them changes no other run's hash.
impl Hash for DiskOp {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Self { op, path, to, position, len, result, fault, lies } = self;
        (op.name(), path, to, position, len).hash(hasher);
        (result.map_err(|errno| errno.to_string()), fault, lies).hash(hasher);
    }
}

/// Another way to recover a disk, which must come to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// A second recovery of what the first has left.
    Twice,
    /// A recovery that was killed, and then another.
    Killed {
        /// Before which disk operation.
        operation: u64,
    },
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

/// An event, and when it happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Simulated time.
    pub at: Millis,
    /// What happened.
    pub event: Event,
}

/// What happened in a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// All events.
    pub entries: Vec<Entry>,
}

impl Trace {
    /// 64 bits that are the same for the same scenario and the same build, in any process.
    pub fn hash(&self) -> u64 {
        hash::of(&self.entries)
    }

    /// How much simulated time went by.
    pub fn duration(&self) -> Millis {
        self.entries.last().map_or(0, |e| e.at)
    }
}

/// Adds to the trace. Clones add to the same one.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Recording>>);

#[derive(Debug, Default)]
struct Recording {
    now: Millis,
    trace: Trace,
    calls: u32,
    /// Of each step of the disk's history, the entry that it belongs to.
    marks: Vec<usize>,
}

impl Recording {
    fn push(&mut self, event: Event) {
        self.trace.entries.push(Entry { at: self.now, event });
    }
}

impl Recorder {
    /// Nobody panics while holding the lock; if somebody did, the trace is still what happened.
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets the time of what comes next.
    pub fn set_now(&self, now: Millis) {
        self.lock().now = now;
    }

    /// Simulated time.
    pub fn now(&self) -> Millis {
        self.lock().now
    }

    /// Adds an event.
    pub fn add(&self, event: Event) {
        self.lock().push(event);
    }

    /// Adds the beginning of a call, and gives the number that its answer will carry.
    pub fn call(&self, client: &Arc<str>, request: Request, probe: bool) -> CallId {
        let mut recording = self.lock();
        let id = CallId(recording.calls);
        recording.calls += 1;
        recording.push(Event::Call { id, client: client.clone(), request, probe });
        id
    }

    /// The disk's history has this many steps by now, and the next entry is about the last of them.
    pub fn recorded(&self, steps: usize) {
        let mut recording = self.lock();
        let entry = recording.trace.entries.len();
        if steps > recording.marks.len() {
            recording.marks.resize(steps, entry);
        }
    }

    /// Takes out, of each step of the disk's history, the entry that it belongs to.
    pub fn take_marks(&self) -> Vec<usize> {
        std::mem::take(&mut self.lock().marks)
    }

    /// How many entries there are so far.
    pub fn entries(&self) -> usize {
        self.lock().trace.entries.len()
    }

    /// When and how the broker last went down.
    pub fn last_crash(&self) -> Option<(Millis, CrashKind)> {
        self.lock().trace.entries.iter().rev().find_map(|entry| match entry.event {
            Event::Crash { kind, .. } => Some((entry.at, kind)),
            _ => None,
        })
    }

    /// Takes the trace out.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut self.lock().trace)
    }
}
