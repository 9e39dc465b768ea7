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
mod event;
mod hash;
mod image;
mod lifecycle;
pub mod print;
mod recorder;
mod world;

use std::sync::Arc;

pub use call::{Answer, At, CallId, ListedPartition, ListedTopic, Placed, Request, Seen, Sent};
pub use event::{DiskOp, Event};
pub use image::{Image, ImageFile, Moment};
pub use lifecycle::{Again, CrashKind, Mode, Recovered, Retention, Starting};
pub use recorder::Recorder;
pub use world::{Clock, Pace, World};

/// Simulated milliseconds since the run began.
pub type Millis = u64;

/// A partition: its topic, and its number there.
pub type TopicPartition = (Arc<str>, u32);

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
