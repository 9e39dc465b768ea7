//! Many seeds of generators, run on all cores, each in a world of its own.
//!
//! | file | is about |
//! | --- | --- |
//! | `work` | what there is to do, and threads that do it |
//! | [`record`] | one line of JSON for each run, for `sim merge` |
//! | [`sums`] | what many runs add up to; two sums add up to one |
//! | [`again`] | the same seed in another process, and the first event that differs |
//! | [`clock`] | how long a run takes |
//! | [`bare`] | turmoil with nothing in it, to compare the speed with |
//!
//! A run shares nothing with another: its thread builds a world, executes, judges and drops it. What a seed comes to is
//! therefore the same alone, in a sweep of thousands, and on another machine.

pub mod again;
pub mod bare;
pub mod clock;
pub mod record;
pub mod sums;
mod work;

pub use work::{End, Generator, Plan, Ran, sweep};
