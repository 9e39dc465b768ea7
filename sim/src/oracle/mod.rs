//! The oracle.
pub mod decode;
