//! A log broker in the manner of Kafka, written to be read.
//!
//! Each file is one idea and knows only those before it:
//!
//! ```text
//! seams     disk · clock · work · net         what the broker needs of the world, and the real ones
//! values    units · files · error · settings · report · stats
//! log       record → batch → index → meter → scan → gaps → segment → synced → markers → home →
//!           room → recovery → partition → retention → topic → listing → opening → broker
//! service   metrics · wire → server, client → cli         verify: the log, offline
//! ```
//!
//! The broker runs unchanged on the real machine and in a simulated world: it reaches files, time, threads and the
//! network only through the seams, and it has no randomness of its own.

pub mod batch;
pub mod broker;
pub mod client;
pub mod clock;
pub mod disk;
pub mod error;
pub mod files;
mod gaps;
mod home;
pub mod index;
mod listing;
pub mod markers;
pub mod meter;
pub mod metrics;
pub mod net;
mod opening;
pub mod partition;
pub mod record;
pub mod recovery;
pub mod report;
pub mod retention;
mod room;
pub mod scan;
pub mod segment;
pub mod server;
pub mod settings;
pub mod stats;
mod synced;
pub mod topic;
pub mod units;
pub mod verify;
pub mod wire;
pub mod work;

pub use broker::Broker;
