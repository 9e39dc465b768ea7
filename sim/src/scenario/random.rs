//! Lines and blocks that a seed unfolds into explicit steps. An explicit scenario has none.

/// `draw LINE` or `each LINE`, where each property may give several values: `draw disk profile="strict | lying"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// How one of them is chosen.
    pub how: DrawHow,
    /// The line's word.
    pub word: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its properties, each with the values to choose from, as they would be written; `-` leaves the property out.
    pub props: Vec<(String, Vec<String>)>,
}

/// How one value is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawHow {
    /// `draw`: at random, by the seed.
    AtRandom,
    /// `each`: seed 0 takes the first, seed 1 the second, and so on; with several of these, all combinations.
    InTurn,
}

/// `random steps=500 keys=4 size="0..64" { weights produce=6 consume=3 … }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    /// How many steps, or several values of which the seed draws one.
    pub steps: Vec<u32>,
    /// How many keys there are.
    pub keys: Vec<u32>,
    /// The largest value of a record, in bytes.
    pub size: Vec<u32>,
    /// Of how many values one begins with records, as a client's do that copies a log; 0: none.
    pub copied: Vec<u32>,
    /// How often each kind of step comes, in proportion; of several values the seed draws one, so that runs differ in
    /// what happens in them at all.
    pub weights: Vec<(String, Vec<u32>)>,
}

/// What a generator can do in one step: the names in `weights`.
pub use super::unfold::MOVES;

/// The values that a property's texts stand for: a range of whole numbers, `0..39`, stands for each of them.
pub fn alternatives(values: &[String]) -> Vec<String> {
    let each = values.iter().flat_map(|text| match whole_range(text) {
        Some(range) => range.map(|n| n.to_string()).collect(),
        None => vec![text.clone()],
    });
    each.collect()
}

/// The most numbers that one range stands for.
const RANGE_MAX: u64 = 100_000;

fn whole_range(text: &str) -> Option<std::ops::Range<u64>> {
    let (start, end) = text.split_once("..")?;
    let range = start.parse().ok()?..end.parse().ok()?;
    (range.start < range.end && range.end - range.start <= RANGE_MAX).then_some(range)
}
