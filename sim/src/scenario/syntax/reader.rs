//! Fills a line's fields from what a file says, and collects every mistake.

use kdl::{KdlDocument, KdlEntry, KdlNode, KdlValue};
use miette::SourceSpan;

use super::fields::Fields;
use super::kinds::{Bad, Kind};
use super::mistakes::{Mistake, nearest};
use super::random::Where;
use super::spellings::{listed, several, shown, spelling};
use super::{random, steps};
use crate::scenario::{Branch, Draw, Random, Step};

/// Reads one line, and its block.
pub struct Reader<'a> {
    node: &'a KdlNode,
    mistakes: &'a mut Vec<Mistake>,
    used: Vec<bool>,
    /// Names of properties that this line knows, and of bare words.
    known: Vec<&'static str>,
    flags: Vec<&'static str>,
    block_used: bool,
    /// How many arguments have been read.
    args_read: usize,
    /// Whether a mistake says that something is missing: one is enough.
    incomplete: bool,
    /// Which one says that a property is missing, if one does.
    nameless: Option<usize>,
}

impl<'a> Reader<'a> {
    /// Reads this line.
    pub fn new(node: &'a KdlNode, mistakes: &'a mut Vec<Mistake>) -> Self {
        let mut reader = Self {
            node,
            mistakes,
            used: vec![false; node.entries().len()],
            known: Vec::new(),
            flags: Vec::new(),
            block_used: false,
            args_read: 0,
            incomplete: false,
            nameless: None,
        };
        reader.find_repeated();
        reader
    }

    /// Says what the line holds that it knows nothing of.
    pub fn finish(mut self) {
        let word = self.node.name().value();
        // What is missing is there, only misspelt.
        if let Some(missing) = self.nameless.filter(|_| self.used.contains(&false)) {
            self.mistakes.remove(missing);
        }
        for (i, entry) in self.node.entries().iter().enumerate() {
            if self.used[i] {
                continue;
            }
            let mistake = match entry.name() {
                Some(name) => self.unknown_property(word, name.value(), name.span()),
                None => self.unknown_argument(word, entry),
            };
            self.mistakes.push(mistake);
        }
        if self.node.children().is_some() && !self.block_used {
            let help = format!("remove the braces after `{word}`");
            self.say(self.node.name().span(), format!("`{word}` takes no block"), "this line", &help);
        }
    }

    /// A property given twice: the format would silently keep the last one.
    fn find_repeated(&mut self) {
        let entries = self.node.entries();
        for (i, entry) in entries.iter().enumerate() {
            let Some(name) = entry.name() else { continue };
            if entries[..i].iter().any(|other| other.name().is_some_and(|n| n.value() == name.value())) {
                let message = format!("`{}` is given twice", name.value());
                self.say(entry.span(), message, "the second one", "keep one of them");
                self.used[i] = true;
            }
        }
    }

    fn unknown_property(&mut self, word: &str, name: &str, span: SourceSpan) -> Mistake {
        let message = format!("`{word}` has no property `{name}`");
        let as_flag = self.flags.iter().find(|flag| **flag == name);
        let help = match (as_flag, nearest(name, self.known.iter().copied())) {
            (Some(flag), _) => format!("write `{flag}` alone, without a value"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) if self.known.is_empty() => format!("`{word}` takes no properties"),
            (None, None) => format!("it has {}", self.known.join(", ")),
        };
        Mistake { span, message, label: "unknown property".to_owned(), help: Some(help) }
    }

    fn unknown_argument(&mut self, word: &str, entry: &KdlEntry) -> Mistake {
        let text = shown(entry.value());
        let near_property = nearest(&text, self.known.iter().copied());
        let help = match (nearest(&text, self.flags.iter().copied()), near_property) {
            (Some(flag), _) if flag == text => "it is given twice: keep one of them".to_owned(),
            (Some(flag), _) => format!("did you mean `{flag}`?"),
            (None, Some(name)) => format!("`{name}` is a property and needs a value: `{name}=…`"),
            (None, None) if self.known.is_empty() && self.flags.is_empty() => {
                format!("nothing more stands on a line of `{word}`")
            }
            (None, None) if self.flags.is_empty() => {
                format!("properties of `{word}` are written `name=value`")
            }
            (None, None) => format!("bare words here: {}", self.flags.join(", ")),
        };
        Mistake {
            span: entry.span(),
            message: format!("`{word}` does not take `{text}`"),
            label: "unexpected".to_owned(),
            help: Some(help),
        }
    }

    fn say(&mut self, span: SourceSpan, message: String, label: &str, help: &str) {
        let help = Some(help.to_owned());
        self.mistakes.push(Mistake { span, message, label: label.to_owned(), help });
    }

    /// The next argument that is not used, with its place.
    fn next_arg(&mut self) -> Option<&'a KdlEntry> {
        let i =
            self.node.entries().iter().enumerate().position(|(i, e)| e.name().is_none() && !self.used[i])?;
        self.used[i] = true;
        self.args_read += 1;
        Some(&self.node.entries()[i])
    }

    /// The property of this name.
    fn property(&mut self, name: &'static str) -> Option<&'a KdlEntry> {
        self.known.push(name);
        let entries = self.node.entries();
        let i = entries.iter().position(|e| e.name().is_some_and(|n| n.value() == name))?;
        self.used[i] = true;
        Some(&entries[i])
    }

    /// The bare word of this name.
    fn word(&mut self, name: &'static str) -> bool {
        self.flags.push(name);
        let entries = self.node.entries();
        let found = entries
            .iter()
            .enumerate()
            .position(|(i, e)| e.name().is_none() && !self.used[i] && e.value().as_string() == Some(name));
        if let Some(i) = found {
            self.used[i] = true;
        }
        found.is_some()
    }

    fn value<T>(&mut self, what: &str, entry: &KdlEntry, kind: &impl Kind<T>) -> Option<T> {
        if let Some(ty) = entry.ty() {
            let message = format!("`({})` means nothing here", ty.value());
            self.say(entry.span(), message, "a type", "write the value without it");
        }
        // What no file has spelt was listed, as a text, for `each` or `draw`.
        let can_be = match (entry.format(), entry.value()) {
            (None, KdlValue::String(text)) => listed(text),
            (_, value) => vec![value.clone()],
        };
        let mut wrong = None;
        for value in &can_be {
            match kind.read(value) {
                Ok(read) => return Some(read),
                Err(bad) => wrong = wrong.or(Some((value, bad))),
            }
        }
        if let Some((value, bad)) = wrong {
            self.mistakes.push(wrong_value(what, entry.span(), value, kind, bad));
        }
        None
    }

    /// Says that an argument is missing, unless something has been said to be.
    fn say_missing(&mut self, message: String, label: &str, help: &str) {
        if !std::mem::replace(&mut self.incomplete, true) {
            self.say(self.node.name().span(), message, label, help);
        }
    }

    fn say_missing_argument(&mut self, what: &str) {
        let word = self.node.name().value();
        let read = self.node.entries().iter().filter(|entry| entry.name().is_none()).take(self.args_read);
        let read: String = read.map(|entry| format!("{} ", shown(entry.value()))).collect();
        let (message, help) = (format!("`{word}` needs {what}"), format!("write it as `{word} {read}…`"));
        self.say_missing(message, "missing after this", &help);
    }

    /// The same of a property.
    fn say_missing_property(&mut self, message: String, label: &str, help: &str) {
        self.nameless = self.nameless.or((!self.incomplete).then_some(self.mistakes.len()));
        self.say_missing(message, label, help);
    }

    fn children(&mut self, example: &str) -> Option<&'a KdlDocument> {
        self.block_used = true;
        let children = self.node.children();
        if children.is_none() {
            let word = self.node.name().value();
            let help = format!("add a block: `{example}`");
            self.say(self.node.span(), format!("`{word}` needs a block"), "no `{` after this", &help);
        }
        children
    }
}

/// A list of words longer than this is no label: it stands below, where it is wrapped.
const LABEL_CHARS: usize = 60;

/// What is wrong with a value, and which one would have worked.
fn wrong_value<T>(what: &str, span: SourceSpan, value: &KdlValue, kind: &impl Kind<T>, bad: Bad) -> Mistake {
    let Bad { wanted, options } = bad;
    let near = nearest(&shown(value), options.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    let reads = |value: &KdlValue| kind.read(value).is_ok();
    let better = near.or_else(|| spelling(value, reads)).or_else(|| several(value, reads));
    let long = wanted.chars().count() > LABEL_CHARS;
    let (label, help) = match (long, better) {
        (false, better) => (format!("expected {wanted}"), better),
        (true, Some(better)) => {
            ("not one of its values".to_owned(), Some(format!("{better} It is {wanted}")))
        }
        (true, None) => ("not one of its values".to_owned(), Some(format!("expected {wanted}"))),
    };
    // That it stands in quotes can be all that is wrong.
    let text = shown(value);
    let text = if value.is_string() && text.parse::<i128>().is_ok() { format!("\"{text}\"") } else { text };
    Mistake { span, message: format!("{what} cannot be `{text}`"), label, help }
}

impl Fields for Reader<'_> {
    fn arg<T>(&mut self, what: &'static str, kind: &impl Kind<T>, slot: &mut T) {
        let mut read = None;
        let before = self.mistakes.len();
        self.arg_opt(what, kind, &mut read);
        match read {
            Some(value) => *slot = value,
            None if self.mistakes.len() > before => {}
            None => self.say_missing_argument(what),
        }
    }

    fn arg_opt<T>(&mut self, what: &'static str, kind: &impl Kind<T>, slot: &mut Option<T>) {
        *slot = self.next_arg().and_then(|entry| self.value(what, entry, kind));
    }

    fn args<T>(&mut self, what: &'static str, kind: &impl Kind<T>, slot: &mut Vec<T>, least: usize) {
        slot.clear();
        let before = self.args_read;
        while let Some(entry) = self.next_arg() {
            slot.extend(self.value(what, entry, kind));
        }
        if self.args_read - before < least {
            self.say_missing_argument(what);
        }
    }

    fn opt<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut Option<T>) {
        *slot = self.property(name).and_then(|entry| self.value(&format!("`{name}`"), entry, kind));
    }

    fn need<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut T) {
        match self.property(name) {
            Some(entry) => {
                if let Some(value) = self.value(&format!("`{name}`"), entry, kind) {
                    *slot = value;
                }
            }
            None => {
                let word = self.node.name();
                let help = format!("add `{name}=…`");
                let message = format!("`{}` needs `{name}=`", word.value());
                self.say_missing_property(message, "missing on this line", &help);
            }
        }
    }

    fn or<T: PartialEq>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut T, default: T) {
        let mut read = None;
        self.opt(name, kind, &mut read);
        *slot = read.unwrap_or(default);
    }

    fn flag(&mut self, name: &'static str, slot: &mut bool) {
        *slot = self.word(name);
    }

    fn flag_or<T>(&mut self, name: &'static str, kind: &impl Kind<T>, slot: &mut Option<Option<T>>) {
        let bare = self.word(name);
        let given = self.property(name);
        *slot = match given {
            Some(entry) => self.value(&format!("`{name}`"), entry, kind).map(Some),
            None => bare.then_some(None),
        };
    }

    fn block(&mut self, steps: &mut Vec<Step>) {
        if let Some(children) = self.children("{ … }") {
            *steps = steps::read_all(children.nodes(), self.mistakes);
        }
    }

    fn branches(&mut self, branches: &mut Vec<Branch>) {
        let Some(children) = self.children("{ client a { … } }") else { return };
        for node in children.nodes() {
            match steps::read(node, self.mistakes) {
                Some(Step::Client(branch)) => branches.push(branch),
                Some(_) => {
                    let message = format!("`{}` is in `parallel`, but not in a client", node.name().value());
                    let help = "put it into one: `client a { … }`";
                    self.say(node.name().span(), message, "only `client` blocks here", help);
                }
                None => {}
            }
        }
    }

    fn drawn_line(&mut self, draw: &mut Draw) {
        self.used.fill(true);
        self.block_used = true;
        random::read_draw(self.node, draw, Where::Steps, self.mistakes);
    }

    fn weights(&mut self, random: &mut Random) {
        if let Some(children) = self.children("{ weights produce=6 consume=3 }") {
            random::read_weights(self.node, children, random, self.mistakes);
        }
    }

    fn wrong(&mut self, message: String, help: &str) {
        self.say(self.node.name().span(), message, "this line", help);
    }

    fn only_at_the_start(&mut self, name: &'static str) {
        if let Some(entry) = self.node.entries().iter().find(|e| e.name().is_some_and(|n| n.value() == name))
        {
            let word = self.node.name().value();
            let help = format!("put it on the line `{word}` at the head of the file, above the first step");
            let message = format!("`{name}` cannot change while a scenario runs");
            self.say(entry.span(), message, "holds for the whole scenario", &help);
        }
    }

    fn count_of(&mut self, names: &[&'static str], least: usize, most: usize) {
        let entries = self.node.entries();
        let given: Vec<&KdlEntry> = entries
            .iter()
            .filter(|e| {
                let name = e.name().map(kdl::KdlIdentifier::value).or(e.value().as_string());
                name.is_some_and(|n| names.contains(&n) && (e.name().is_some() || self.flags.contains(&n)))
            })
            .collect();
        // A property given twice is reported as that.
        let name = |entry: &KdlEntry| entry.name().map(|name| name.value().to_owned());
        let given: Vec<&KdlEntry> = (0..given.len())
            .filter(|i| {
                name(given[*i]).is_none() || given[..*i].iter().all(|other| name(other) != name(given[*i]))
            })
            .map(|i| given[i])
            .collect();
        let word = self.node.name().value();
        if given.len() < least {
            let help = format!("add one of {}", names.join(", "));
            let message = format!("`{word}` does not say enough");
            self.say_missing_property(message, "incomplete", &help);
        }
        if let Some(extra) = given.get(most) {
            let help = format!("keep one of {}", names.join(", "));
            self.say(extra.span(), format!("`{word}` says two things at once"), "and this", &help);
        }
    }
}
