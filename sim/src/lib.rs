//! The simulated world. Three functions, and everything else is made of them:
//!
//! ```text
//! generate : seed     → scenario      what a random run is            scenario
//! execute  : scenario → trace         the only place with a world     executor, world
//! judge    : trace    → verdict       the promises P1 to P12          oracle
//! ```
//!
//! A scripted test, a random run, a shrunk failure and a replay are the same thing: a scenario, executed and judged.
//!
//! # Where determinism comes from
//!
//! The same scenario and the same build give the same trace, in any process, because nothing else can get in:
//!
//! - **One thread.** turmoil ticks each host in turn. The broker spawns no thread: what would leave the thread goes
//!   through its work seam, which the world runs in line.
//! - **No real time.** turmoil's clock begins at a fixed epoch and moves by ticks; the broker's wall clock is computed from
//!   it ([`world::clock`]).
//! - **Seeds only.** Every draw comes from the scenario's seed, one independent stream for each subsystem, so that a new
//!   fault of the disk does not shift the network's timing. tokio's own choices (`select!`) come from turmoil's seed, but
//!   only under `--cfg tokio_unstable`; without it this crate does not compile.
//! - **No order that is not chosen.** No standard `HashMap` where its order could be seen; clippy forbids it, and the real
//!   clock and the thread's random numbers with it.
//!
//! [`trace::Trace::hash`] is how it is checked.

#[cfg(not(tokio_unstable))]
compile_error!(
    "the simulation is deterministic only under --cfg tokio_unstable; .cargo/config.toml sets it, unless RUSTFLAGS \
     overrides that: add `--cfg tokio_unstable` there"
);

pub mod barriers;
pub mod executor;
pub mod explore;
pub mod oracle;
pub mod outcome;
pub mod patience;
pub mod report;
pub mod scenario;
pub mod shrink;
pub mod snapshot;
pub mod sometimes;
pub mod source_line;
pub mod suite;
pub mod sweep;
pub mod trace;
pub mod world;
