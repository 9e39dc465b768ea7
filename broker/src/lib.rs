//! A log broker in the manner of Kafka, small enough to read in a day.
//!
//! Each file is one idea and knows only those before it:
//!
//! ```text
//! seams     disk · clock · work · net         what the broker needs of the world, and the real ones
//! values    units · error · settings
//! log       record → batch → index → segment → recovery → partition → topic → broker
//! service   wire → server, client → cli
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
pub mod metrics;
pub mod net;
pub mod partition;
pub mod record;
pub mod report;
pub mod server;
pub mod settings;
pub mod units;
pub mod wire;
pub mod work;

pub use broker::Broker;
