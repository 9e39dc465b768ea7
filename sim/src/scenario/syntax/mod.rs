//! How scenarios are written: [`parse`] reads a file, [`print()`] writes one.
//!
//! Each line is described once (`fn produce(f: &mut impl Fields, …)` in [`requests`], and so on), for reading and for
//! writing: [`reader`] fills the described fields from a file and collects mistakes, [`writer`] prints them.

mod excerpt;
mod faults;
mod fields;
mod file;
mod hints;
mod kinds;
mod limits;
mod mistakes;
mod outline;
mod random;
mod reader;
mod requests;
mod scan;
pub(super) mod sense;
mod spellings;
mod steps;
mod surgeries;
mod time;
mod vocabulary;
mod worlds;
mod writer;

#[cfg(test)]
mod tests;

pub use faults::operation_name;
pub use file::{parse, print};
pub use mistakes::{Mistake, Mistakes};
pub use requests::code_name;
pub use vocabulary::{Word, vocabulary};

use crate::scenario::{Draw, Scenario, Step};

/// Prints one step as one line, or more where it has a block.
pub fn print_step(step: &Step) -> String {
    steps::print(step, 0)
}

/// The codes of errors, with the names they have in the protocol.
pub fn words_of_codes() -> impl Iterator<Item = (&'static str, broker::error::Code)> {
    requests::CODES.into_iter()
}

/// The step that comes of a draw, with the nth value of each property; none where that leaves nothing to change. Its mistakes
/// were found when it was read.
pub(super) fn drawn_step(draw: &Draw, choice: &[usize]) -> Option<Step> {
    let step = steps::read(&random::line(draw, choice), &mut Vec::new())?;
    sense::idle(&step).is_none().then_some(step)
}

/// The same for a line of the head: a scenario that says no more than it.
pub(super) fn drawn_head(draw: &Draw, choice: &[usize]) -> Scenario {
    file::read_head_line(&random::line(draw, choice), &mut Vec::new())
}
