//! The world that a scenario runs in: the seams of the broker, simulated.
//!
//! | file | is |
//! | --- | --- |
//! | [`disk`] | the disk seam, over one process of the hostile disk of the crate `faults` |
//! | [`clock`] | the wall clock |
//! | [`work`] | what leaves the thread in the real broker, and here does not |
//! | [`net`] | turmoil's network, wrapped in what it leaves out |
//! | [`host`] | the broker as a host: opened, recovered, served, stopped |
//! | [`aim`] | from the faults of a scenario to those of the disk |
//! | [`phase`] | what the broker is at, for faults that are aimed at it |
//! | [`stall`] | a slow disk |
//! | [`observe`] | writes down what the disk does |

pub mod aim;
pub mod clock;
pub mod disk;
pub mod host;
pub mod net;
pub mod observe;
pub mod phase;
pub mod stall;
pub mod work;

/// The broker's data directory on the simulated disk.
pub const DATA: &str = "/data";

/// The broker's host in the simulated network.
pub const BROKER: &str = "broker";
