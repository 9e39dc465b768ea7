//! Every crash point of a scenario: what could power loss have left there, and does the broker recover from it?
//!
//! The scenario is executed once. From the disk's history every prefix is built, and inside each write several cuts; of each, the
//! images that power loss could legally leave. The broker's own recovery opens each distinct image, and the oracle judges what it
//! finds against what clients had been told by then: the same oracle, fed the same trace up to that point. Then recovery itself
//! is crashed at each of its own operations, and must come to the same bytes.
//!
//! Nothing is executed again that can be derived: images share what they have in common, an image that was recovered once is
//! known by its hash, and a sync that is switched off is left out of the history instead of out of the
//! broker.
//!
//! | file | is about |
//! | --- | --- |
//! | [`disk`] | the disk seam over one image |
//! | [`recover`] | one image, opened by the broker and read |
//! | [`record`] | the run that is explored |
//! | [`visit`] | goes through all crash points, on all cores |
//! | [`nested`] | crashes inside recovery |
//! | [`report`] | the figures |

pub mod disk;
pub mod nested;
pub mod record;
pub mod recover;
pub mod report;
pub mod visit;

pub use record::{Run, Unexplorable};
pub use report::{Choice, Place, Report, Violation};
pub use visit::explore;

/// How much is visited.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most images of one crash point; where there are more, so many are drawn.
    pub images: u128,
    /// The most images of one cut inside a write, and of one crash point inside a recovery.
    pub inner: u128,
    /// 1: crashes of the run. 2: crashes inside recovery too.
    pub depth: u32,
    /// How many threads; all cores, where 0.
    pub threads: usize,
    /// Whether recoveries of what a cut inside a write left are crashed too.
    pub nested_cuts: bool,
    /// Of the crash points, only each so-manieth; 1 is all.
    pub stride: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { images: 256, inner: 16, depth: 2, threads: 0, nested_cuts: true, stride: 1 }
    }
}

impl Bounds {
    /// What a test of a scenario file does: small enough for a daily run.
    pub fn quick() -> Self {
        Self { images: 8, inner: 2, depth: 2, threads: 1, nested_cuts: false, stride: 1 }
    }
}
