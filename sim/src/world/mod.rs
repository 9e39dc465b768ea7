//! The world that a scenario runs in: the seams of the broker, simulated.

pub mod clock;
pub mod net;
pub mod work;
