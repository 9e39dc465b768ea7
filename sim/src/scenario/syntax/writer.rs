//! Prints a line from its fields.

use super::fields::Fields;
use super::kinds::{self, Kind};
use super::steps;
use crate::scenario::{Branch, Draw, Random, Step};

/// Prints one line, and its block.
pub struct Writer {
    out: String,
    depth: usize,
}

impl Writer {
    /// A line that begins with this word, indented `depth` times.
    pub fn new(word: &str, depth: usize) -> Self {
        Self { out: format!("{}{word}", "    ".repeat(depth)), depth }
    }

    /// The finished line.
    pub fn finish(self) -> String {
        self.out
    }

    fn push(&mut self, text: &str) {
        self.out.push(' ');
        self.out.push_str(text);
    }

    fn property(&mut self, name: &str, text: &str) {
        self.push(&format!("{name}={text}"));
    }

    fn lines(&mut self, lines: impl Iterator<Item = String>) {
        self.out.push_str(" {\n");
        for line in lines {
            self.out.push_str(&line);
            self.out.push('\n');
        }
        self.out.push_str(&"    ".repeat(self.depth));
        self.out.push('}');
    }
}

impl Fields for Writer {
    fn arg<T>(&mut self, _what: &'static str, kind: &impl Kind<T>, slot: &mut T) {
        self.push(&kind.write(slot));
    }

    fn arg_opt<T>(&mut self, _what: &'static str, kind: &impl Kind<T>, slot: &mut Option<T>) {
        if let Some(value) = slot {
            self.push(&kind.write(value));
        }
    }

    fn args<T>(&mut self, _what: &'static str, kind: &impl Kind<T>, slot: &mut Vec<T>, _least: usize) {
        for value in slot {
            self.push(&kind.write(value));
        }
    }

    fn opt<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut Option<T>) {
        if let Some(value) = slot {
            self.property(name, &kind.write(value));
        }
    }

    fn need<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut T) {
        self.property(name, &kind.write(slot));
    }

    fn or<T: PartialEq>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut T, default: T) {
        if *slot != default {
            self.property(name, &kind.write(slot));
        }
    }

    fn flag(&mut self, name: &'static str, slot: &mut bool) {
        if *slot {
            self.push(name);
        }
    }

    fn flag_or<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut Option<Option<T>>) {
        match slot {
            Some(Some(value)) => self.property(name, &kind.write(value)),
            Some(None) => self.push(name),
            None => {}
        }
    }

    fn block(&mut self, steps: &mut Vec<Step>) {
        let depth = self.depth + 1;
        self.lines(steps.iter().map(|step| steps::print(step, depth)));
    }

    fn branches(&mut self, branches: &mut Vec<Branch>) {
        let depth = self.depth + 1;
        self.lines(branches.iter().map(|branch| steps::print(&Step::Client(branch.clone()), depth)));
    }

    fn drawn_line(&mut self, draw: &mut Draw) {
        self.push(&draw.word);
        for arg in &draw.args {
            self.push(&kinds::name(arg));
        }
        for (name, values) in &draw.props {
            self.property(name, &kinds::quoted(&values.join(" | ")));
        }
    }

    fn weights(&mut self, random: &mut Random) {
        let mut line = Writer::new("weights", self.depth + 1);
        for (name, weights) in &random.weights {
            line.property(name, &super::random::CHOICES.write(weights));
        }
        self.lines(std::iter::once(line.finish()));
    }

    fn wrong(&mut self, _message: String, _help: &str) {}

    fn only_at_the_start(&mut self, _: &'static str) {}

    fn count_of(&mut self, _names: &[&'static str], _least: usize, _most: usize) {}
}
