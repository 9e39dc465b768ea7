//! The lines that a seed unfolds: `draw`, `each`, `random`.

use std::collections::BTreeSet;

use kdl::{KdlDocument, KdlEntry, KdlNode, KdlValue};

use super::fields::Fields;
use super::file;
use super::kinds::{Bad, Kind, Plain, quoted};
use super::mistakes::{Mistake, nearest};
use super::steps;
pub use crate::scenario::random::MOVES;
use crate::scenario::random::alternatives;
use crate::scenario::{Draw, DrawHow, Random};

/// One number, or several to choose from: `500`, `"100 | 500"`.
pub const CHOICES: Plain<Vec<u32>> = Plain(
    |v| {
        let read = match v {
            KdlValue::Integer(n) => u32::try_from(*n).ok().map(|n| vec![n]),
            KdlValue::String(text) => text.split('|').map(|part| part.trim().parse().ok()).collect(),
            _ => None,
        };
        read.map_or_else(|| Bad::wanted(r#"a number, or several in quotes: "0 | 1 | 5""#), Ok)
    },
    |numbers| match numbers[..] {
        [one] => one.to_string(),
        _ => quoted(&numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" | ")),
    },
);

/// A drawn line with nothing filled in, by its word.
pub fn blank_draw(word: &str) -> Draw {
    let how = if word == "each" { DrawHow::InTurn } else { DrawHow::AtRandom };
    Draw { how, word: String::new(), args: Vec::new(), props: Vec::new() }
}

/// The word of a drawn line.
pub fn draw_word(how: DrawHow) -> &'static str {
    match how {
        DrawHow::AtRandom => "draw",
        DrawHow::InTurn => "each",
    }
}

/// A random block with nothing filled in.
pub fn blank_random() -> Random {
    Random { steps: Vec::new(), keys: Vec::new(), size: Vec::new(), copied: Vec::new(), weights: Vec::new() }
}

/// `steps= keys= size= copied= { weights … }`
pub fn random(f: &mut impl Fields, random: &mut Random) {
    f.need("steps", &CHOICES, &mut random.steps);
    f.or("keys", &CHOICES, &mut random.keys, vec![4]);
    f.or("size", &CHOICES, &mut random.size, vec![64]);
    f.or("copied", &CHOICES, &mut random.copied, vec![0]);
    f.weights(random);
}

/// Reads `weights produce=6 consume="0 | 3"`.
pub fn read_weights(
    node: &KdlNode,
    children: &KdlDocument,
    random: &mut Random,
    mistakes: &mut Vec<Mistake>,
) {
    let mut lines = children.nodes().iter().filter(|child| {
        let right = child.name().value() == "weights";
        if !right {
            mistakes.push(Mistake {
                span: child.name().span(),
                message: format!("`random` holds no `{}`", child.name().value()),
                label: "this line".to_owned(),
                help: Some("it holds one line: `weights produce=6 consume=3 …`".to_owned()),
            });
        }
        right
    });
    let (Some(line), second) = (lines.next(), lines.next()) else {
        mistakes.push(Mistake {
            span: node.name().span(),
            message: "`random` needs a line `weights`".to_owned(),
            label: "this block".to_owned(),
            help: Some("add `weights produce=6 consume=3 …`".to_owned()),
        });
        return;
    };
    if let Some(second) = second {
        mistakes.push(Mistake {
            span: second.name().span(),
            message: "`weights` is given twice".to_owned(),
            label: "the second one".to_owned(),
            help: Some("write all weights on one line".to_owned()),
        });
    }
    for entry in line.entries() {
        if let Some(weight) = read_weight(entry, random, mistakes) {
            random.weights.push(weight);
        }
    }
}

fn read_weight(entry: &KdlEntry, random: &Random, mistakes: &mut Vec<Mistake>) -> Option<(String, Vec<u32>)> {
    let mut wrong = |message: String, help: String| {
        mistakes.push(Mistake { span: entry.span(), message, label: "here".to_owned(), help: Some(help) });
    };
    let Some(name) = entry.name().map(kdl::KdlIdentifier::value) else {
        wrong("a weight needs a value".to_owned(), "write `produce=6`".to_owned());
        return None;
    };
    if random.weights.iter().any(|(other, _)| other == name) {
        wrong(format!("`{name}` is given twice"), "keep one of them".to_owned());
        return None;
    }
    if !MOVES.contains(&name) {
        let help = nearest(name, MOVES).map_or_else(
            || format!("there are {}", MOVES.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        wrong(format!("there is no weight `{name}`"), help);
        return None;
    }
    match CHOICES.read(entry.value()) {
        Ok(weights) => Some((name.to_owned(), weights)),
        Err(bad) => {
            wrong(format!("`{name}` cannot be `{}`", entry.value()), format!("expected {}", bad.wanted));
            None
        }
    }
}

/// Where a drawn line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// At the head of the file: it describes the world at the start.
    Head,
    /// Among the steps.
    Steps,
}

/// Reads the line after `draw` or `each`, and tries each of its values in its place.
pub fn read_draw(node: &KdlNode, draw: &mut Draw, place: Where, mistakes: &mut Vec<Mistake>) {
    let Some(word) = read_line(node, draw, mistakes) else { return };
    let tried = try_values(draw, place);
    if tried.is_empty()
        && let Some(mistake) = idle(node, draw)
    {
        mistakes.push(mistake);
    }
    for (varied, mut mistake) in tried {
        mistake.span = shown_at(node, &varied, &mistake.message).unwrap_or(word).span();
        if !mistakes.iter().any(|other| other.span == mistake.span && other.message == mistake.message) {
            mistakes.push(mistake);
        }
    }
}

/// A mistake in a made-up line has no place in the file: it is shown at the property that it names, or that it came from.
fn shown_at<'a>(node: &'a KdlNode, varied: &str, message: &str) -> Option<&'a KdlEntry> {
    let of = |test: &dyn Fn(&str) -> bool| {
        node.entries().iter().find(|e| e.name().is_some_and(|n| test(n.value())))
    };
    of(&|name| message.contains(&format!("`{name}`"))).or_else(|| of(&|name| name == varied))
}

/// Takes the line apart; gives its first word, unless something is so wrong that its values cannot be tried.
fn read_line<'a>(node: &'a KdlNode, draw: &mut Draw, mistakes: &mut Vec<Mistake>) -> Option<&'a KdlEntry> {
    let keyword = node.name().value();
    let mut wrong = |span, message: String, help: &str| {
        mistakes.push(Mistake { span, message, label: "here".to_owned(), help: Some(help.to_owned()) });
    };
    if let Some(children) = node.children() {
        wrong(children.span(), format!("`{keyword}` takes only lines without a block"), "remove the block");
    }
    for (i, entry) in node.entries().iter().enumerate() {
        match (entry.name(), entry.value()) {
            (None, KdlValue::String(text)) if i == 0 => text.clone_into(&mut draw.word),
            (None, KdlValue::String(text)) if text.contains('|') => {
                let message = format!("`{keyword}` can choose only properties");
                wrong(entry.span(), message, "write `name=\"a | b\"`");
                return None;
            }
            (None, KdlValue::String(text)) => draw.args.push(text.clone()),
            (None, _) => {
                wrong(entry.span(), "only text and properties can be drawn".to_owned(), "use a property")
            }
            (Some(name), value) => {
                let text = value.as_string().map_or_else(|| value.to_string(), str::to_owned);
                let values: Vec<String> = text.split('|').map(|part| part.trim().to_owned()).collect();
                if values.iter().any(String::is_empty) {
                    wrong(
                        entry.span(),
                        "a value to choose is empty".to_owned(),
                        "write `\"a | b\"`; `-` for none",
                    );
                }
                draw.props.push((name.value().to_owned(), values));
            }
        }
    }
    let Some(first) = node.entries().first().filter(|e| e.name().is_none() && !draw.word.is_empty()) else {
        wrong(
            node.name().span(),
            format!("`{keyword}` needs a line"),
            "like `draw disk profile=\"strict | lying\"`",
        );
        return None;
    };
    if ["draw", "each", "scenario", "explore", "sometimes"].contains(&draw.word.as_str()) {
        wrong(first.span(), format!("`{}` cannot be drawn", draw.word), "draw another line");
        return None;
    }
    Some(first)
}

/// A list that lists nothing, or a value that `each` takes twice; `draw` draws it twice as often.
fn idle(node: &KdlNode, draw: &Draw) -> Option<Mistake> {
    let keyword = draw_word(draw.how);
    let values = draw.props.iter().map(|(name, values)| (name, alternatives(values)));
    let said = |span, message: String, help: &str| {
        Some(Mistake { span, message, label: "here".to_owned(), help: Some(help.to_owned()) })
    };
    let mut choice = false;
    for (name, values) in values {
        choice |= values.len() > 1;
        let distinct: BTreeSet<&String> = values.iter().collect();
        let twice = distinct.into_iter().find(|one| values.iter().filter(|other| other == one).count() > 1);
        if let (DrawHow::InTurn, Some(value)) = (draw.how, twice) {
            let entry = node.entries().iter().find(|e| e.name().is_some_and(|n| n.value() == name))?;
            return said(entry.span(), format!("`{name}` lists `{value}` twice"), "keep one of them");
        }
    }
    if choice {
        return None;
    }
    let message = format!("`{keyword}` has nothing to choose from here");
    said(node.name().span(), message, "list several values, as in `name=\"a | b\"`, or remove this word")
}

/// The mistakes of the lines that can come of a draw, each with the property that was varied.
fn try_values(draw: &Draw, place: Where) -> Vec<(String, Mistake)> {
    let first: Vec<usize> = vec![0; draw.props.len()];
    let mut found = Vec::new();
    let mut attempt = |name: &str, choice: &[usize]| {
        let mut mistakes = Vec::new();
        match place {
            Where::Head => _ = file::read_head_line(&line(draw, choice), &mut mistakes),
            Where::Steps => _ = steps::read(&line(draw, choice), &mut mistakes),
        }
        found.extend(mistakes.into_iter().map(|mistake| (name.to_owned(), mistake)));
    };
    attempt("", &first);
    for (i, (name, values)) in draw.props.iter().enumerate() {
        let count = alternatives(values).len();
        for k in 1..count {
            // The ends of a long range stand for what lies between them.
            if k < 16 || k + 1 == count {
                let mut choice = first.clone();
                choice[i] = k;
                attempt(name, &choice);
            }
        }
    }
    found
}

/// The line that comes of a draw, with the nth value of each property. Each is a text, as it was listed.
pub fn line(draw: &Draw, choice: &[usize]) -> KdlNode {
    let mut node = KdlNode::new(draw.word.as_str());
    for arg in &draw.args {
        node.push(KdlEntry::new(arg.as_str()));
    }
    for ((name, values), k) in draw.props.iter().zip(choice) {
        let text = alternatives(values).get(*k).cloned().unwrap_or_default();
        if text == "-" {
            continue;
        }
        node.push(KdlEntry::new_prop(name.as_str(), text));
    }
    node
}
