//! A scenario is a value: a world, and steps. It is read from a file in KDL, printed back, unfolded by a seed where
//! it holds random blocks, shrunk, and executed.
//!
//! | file | is about |
//! | --- | --- |
//! | [`value`] | the scenario and its steps: plain data, without spans |
//! | [`lines`] | where each step stands in its file |
//! | [`settings`] | the world: broker, disk, network, clock |
//! | [`request`] | what clients ask, and what they expect |
//! | [`fault`] | faults aimed at one operation of the disk |
//! | [`placeholder`] | what a run fills in, in keys and values |
//! | [`surgery`] | what happens to files while the broker is down |
//! | [`syntax`] | how all of it is written and read |
//! | [`random`] | lines and blocks that a seed unfolds into explicit steps |
//! | [`unfold`](mod@unfold) | how it does that |

#[cfg(test)]
mod arbitrary;
pub mod fault;
pub mod lines;
pub mod placeholder;
pub mod random;
pub mod request;
pub mod settings;
pub mod surgery;
pub mod syntax;
pub mod unfold;
pub mod value;

pub use fault::{Aim, Errno, Fault, FaultKind, Keep, Op, Phase, When};
pub use lines::Lines;
pub use random::{Draw, DrawHow, Random};
pub use request::{
    Code, Consume, Content, CreateTopic, Expect, ListPartitions, LookUp, LookUpExpect, OffsetAt, Open,
    Produce, Receive, ReceiveExpect, Send, SendLength,
};
pub use settings::{
    BrokerSettings, Capacity, ClockChange, ClockSettings, DiskSettings, Durability, NetSettings, Profile,
    Rate, Span,
};
pub use surgery::{Entry, FilePosition, Surgery};
pub use syntax::{Mistakes, parse, print, print_step};
pub use unfold::{is_explicit, unfold};
pub use value::{Branch, Check, Link, Scenario, Seeds, Start, StartExpect, Step, Verify};
