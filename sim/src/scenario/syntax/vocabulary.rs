//! All words that the language knows, for the test that holds `scenarios/README.md` to them.

use std::collections::BTreeSet;

use super::fields::Fields;
use super::kinds::Kind;
use super::{faults, file, random, requests, steps, worlds};
use crate::scenario::{Branch, Draw, Random, Scenario, Step};
use crate::sometimes::State;

/// A word, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// `step`, `head`, `property of produce`, `error code` …
    pub what: String,
    /// The word.
    pub word: String,
}

/// Every word of the language.
pub fn vocabulary() -> BTreeSet<Word> {
    let mut found = BTreeSet::new();
    let mut add = |what: &str, word: &str| {
        found.insert(Word { what: what.to_owned(), word: word.to_owned() });
    };
    steps::words().for_each(|word| add("step", word));
    steps::HEAD_WORDS.into_iter().for_each(|word| add("line of the head", word));
    requests::CODES.into_iter().for_each(|(name, _)| add("error code", name));
    random::MOVES.into_iter().for_each(|name| add("weight", name));
    worlds::PROFILES.into_iter().for_each(|(name, _)| add("profile", name));
    faults::operations().for_each(|name| add("operation", name));
    faults::errors().for_each(|name| add("error of the disk", name));
    State::ALL.iter().for_each(|state| add("state", state.name()));
    for word in steps::HEAD_WORDS {
        let mut lister = Lister::default();
        file::head_line(&mut lister, word, &mut Scenario::default());
        lister.0.into_iter().for_each(|name| add(&format!("property of {word}"), name));
    }
    for word in steps::words() {
        let mut lister = Lister::default();
        if let Some(mut step) = steps::blank(word) {
            steps::fields(&mut lister, &mut step);
        }
        lister.0.into_iter().for_each(|name| add(&format!("property of {word}"), name));
    }
    found
}

/// Takes down the names of properties.
#[derive(Default)]
struct Lister(BTreeSet<&'static str>);

impl Fields for Lister {
    fn arg<T>(&mut self, _: &'static str, _: &impl Kind<T>, _: &mut T) {}
    fn arg_opt<T>(&mut self, _: &'static str, _: &impl Kind<T>, _: &mut Option<T>) {}
    fn args<T>(&mut self, _: &'static str, _: &impl Kind<T>, _: &mut Vec<T>, _: usize) {}

    fn opt<T>(&mut self, name: &'static str, _: &impl Kind<T>, _: &mut Option<T>) {
        self.0.insert(name);
    }

    fn need<T>(&mut self, name: &'static str, _: &impl Kind<T>, _: &mut T) {
        self.0.insert(name);
    }

    fn or<T: PartialEq>(&mut self, name: &'static str, _: &impl Kind<T>, _: &mut T, _: T) {
        self.0.insert(name);
    }

    fn flag(&mut self, name: &'static str, _: &mut bool) {
        self.0.insert(name);
    }

    fn flag_or<T>(&mut self, name: &'static str, _: &impl Kind<T>, _: &mut Option<Option<T>>) {
        self.0.insert(name);
    }

    fn block(&mut self, _: &mut Vec<Step>) {}
    fn branches(&mut self, _: &mut Vec<Branch>) {}
    fn drawn_line(&mut self, _: &mut Draw) {}
    fn weights(&mut self, _: &mut Random) {}
    fn wrong(&mut self, _: String, _: &str) {}
    fn only_at_the_start(&mut self, _: &'static str) {}
    fn count_of(&mut self, _: &[&'static str], _: usize, _: usize) {}
}
