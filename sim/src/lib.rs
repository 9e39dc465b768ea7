//! The simulated world: scenarios, clients, the oracle.

pub mod scenario;
