//! Every crash point of a scenario: what could power loss have left there, and does the broker recover from it?
//!
//! The scenario is executed once. From the disk's history every prefix is built, and inside each write several cuts; of each, the
//! images that power loss could legally leave. The broker's own recovery opens each distinct image, on a disk that is as full or as
//! read-only as it was there, and the oracle judges what it finds against what clients had been told by then: the same oracle, fed
//! the same trace up to that point. Then recovery itself is crashed at each of its own operations: what recovers from that is judged
//! in the same way, and must come to the same bytes.
//!
//! Nothing is executed again that can be derived: images share what they have in common, an image that was recovered once is
//! known by its hash, and a sync that is switched off is left out of the history instead of out of the
//! broker.
//!
//! | file | is about |
//! | --- | --- |
//! | [`recover`] | one image, opened by the broker and read |
//! | `go_on` | what the broker takes after a recovery, and still has after the next |
//! | `recovered` | what recoveries have come to, each image recovered once |
//! | [`record`] | the run that is explored |
//! | [`visit`] | goes through all crash points, on all cores |
//! | [`nested`] | crashes inside recovery |
//! | [`mod@witness`] | a violation, as a scenario that shows it again |
//! | [`mod@locate`] | which sync is missing |
//! | [`whereabouts`] | at which image each thread is, for who waits for it |
//! | [`report`] | the figures |

mod go_on;
pub mod locate;
pub mod nested;
pub mod record;
pub mod recover;
mod recovered;
pub mod report;
pub mod visit;
pub mod whereabouts;
pub mod witness;

use std::num::NonZeroUsize;

pub use locate::{Mend, locate};
pub use record::{Run, Unexplorable};
pub use report::{Choice, Crash, Panicked, Point, Report, Violation};
pub use visit::{Done, explore, explore_telling, explore_within};
pub use whereabouts::Whereabouts;
pub use witness::{Witness, witness};

/// How much is visited.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most images of one crash point; where there are more, so many are taken: see [`Choice`].
    pub images: u64,
    /// The most images of one cut inside a write, and of one crash point inside a recovery.
    pub inner: u64,
    /// Whether crashes strike inside writes too.
    pub cuts: bool,
    /// 1: crashes of the run. 2: crashes inside recovery too.
    pub depth: u32,
    /// How many threads; one per core where it does not say.
    pub threads: Option<NonZeroUsize>,
    /// Whether recoveries of what a cut inside a write left are crashed too.
    pub nested_cuts: bool,
    /// Only crash points behind so many steps of the disk's history.
    pub from: usize,
    /// And not behind more than so many; up to the end of the run where it does not say.
    pub to: Option<usize>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            images: 256,
            inner: 16,
            cuts: true,
            depth: 2,
            threads: None,
            nested_cuts: true,
            from: 0,
            to: None,
        }
    }
}

impl Bounds {
    /// What a test of a scenario file does: small enough for a daily run.
    pub fn quick() -> Self {
        Self { images: 8, inner: 4, threads: Some(NonZeroUsize::MIN), nested_cuts: false, ..Self::default() }
    }
}
