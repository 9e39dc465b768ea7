//! Each line of the language is described once, for reading and for writing: a function that names the line's
//! arguments and properties in order, and says where each is kept. A reader fills them in, a writer prints them.

use super::kinds::Kind;
use crate::scenario::{Branch, Draw, Random, Step};

/// The arguments and properties of one line.
pub trait Fields {
    /// The next argument; it must be there. `what` says what it is, for a person: `a topic`.
    fn arg<T>(&mut self, what: &'static str, kind: &impl Kind<T>, slot: &mut T);
    /// The next argument, which may be missing.
    fn arg_opt<T>(&mut self, what: &'static str, kind: &impl Kind<T>, slot: &mut Option<T>);
    /// All further arguments.
    fn args<T>(&mut self, what: &'static str, kind: &impl Kind<T>, slot: &mut Vec<T>, least: usize);
    /// A property that may be missing.
    fn opt<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut Option<T>);
    /// A property that must be there.
    fn need<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut T);
    /// A property with a default, which is what the slot holds in `default`.
    fn or<T: PartialEq>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut T, default: T);
    /// A bare word that is there or not.
    fn flag(&mut self, name: &'static str, slot: &mut bool);
    /// A bare word, or a property of that name: `crash`, `crash=15`.
    fn flag_or<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut Option<Option<T>>);

    /// The block of steps.
    fn block(&mut self, steps: &mut Vec<Step>);
    /// The block of `client` blocks.
    fn branches(&mut self, branches: &mut Vec<Branch>);
    /// The line after `draw` or `each`.
    fn drawn_line(&mut self, draw: &mut Draw);
    /// The block of `random`.
    fn weights(&mut self, random: &mut Random);

    /// Says, when reading, that the line as a whole cannot be.
    fn wrong(&mut self, message: String, help: &str);
    /// Says, when reading, that this property stands in a step, and holds for a whole scenario.
    fn only_at_the_start(&mut self, name: &'static str);
    /// Says, when reading, that more than one of these properties are given (`most` 1), or none (`least` 1).
    fn count_of(&mut self, names: &[&'static str], least: usize, most: usize);
}
