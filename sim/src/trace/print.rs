//! The timeline.
