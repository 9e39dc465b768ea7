//! Whole files: the head, the steps, and what is wrong with either.

use kdl::{KdlDocument, KdlNode};
use miette::SourceSpan;

use super::fields::Fields;
use super::kinds::{Bad, Plain, TEXT, must_escape};
use super::mistakes::{Mistake, Mistakes};
use super::random::Where;
use super::reader::Reader;
use super::writer::Writer;
use super::{hints, limits, outline, random, steps, worlds};
use crate::scenario::{BrokerSettings, ClockSettings, DiskSettings, NetSettings, Scenario, Seeds, Step};
use crate::sometimes::State;

/// `7`, or `"0..64"`.
const SEEDS: Plain<Seeds> = Plain(
    |v| {
        let one = v.as_integer().and_then(|n| u64::try_from(n).ok()).map(Seeds::one);
        let range = v.as_string().and_then(|text| {
            let (start, end) = text.split_once("..")?;
            Some(Seeds { start: start.trim().parse().ok()?, end: end.trim().parse().ok()? })
        });
        let seeds = one.or(range.filter(|seeds| seeds.start < seeds.end));
        seeds.map_or_else(|| Bad::wanted(r#"a seed, or a range in quotes: "0..64" is 0 to 63"#), Ok)
    },
    |seeds| {
        if *seeds == Seeds::one(seeds.start) {
            seeds.start.to_string()
        } else {
            super::kinds::quoted(&format!("{}..{}", seeds.start, seeds.end))
        }
    },
);

/// A state that a sweep can reach.
const STATE: Plain<String> = Plain(
    |v| match v.as_string().filter(|name| State::named(name).is_some()) {
        Some(name) => Ok(name.to_owned()),
        None => Err(Bad {
            wanted: "a state that scenarios/README.md lists".to_owned(),
            options: State::ALL.iter().map(|state| state.name()).collect(),
        }),
    },
    |name| super::kinds::quoted(name),
);

/// Reads a scenario from the text of a file, or says all that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Scenario, Mistakes> {
    read_text(name, text, limits::check)
}

/// As [`parse`], whatever a run of the scenario would take.
#[cfg(test)]
pub(super) fn parse_unlimited(name: &str, text: &str) -> Result<Scenario, Mistakes> {
    read_text(name, text, |_, _, _| Vec::new())
}

fn read_text(
    name: &str,
    text: &str,
    check: impl Fn(&Scenario, &[KdlNode], &str) -> Vec<Mistake>,
) -> Result<Scenario, Mistakes> {
    if let Some(mistake) = outline::too_much(text) {
        return Err(Mistakes::new(name, text, vec![mistake]));
    }
    let mut mistakes = Vec::new();
    let curly = outline::curly(text);
    let scenario = match text.parse::<KdlDocument>() {
        Ok(document) if curly.is_empty() => {
            let scenario = read(&document, text, &mut mistakes);
            // Steps that cannot be read are left out, and the rest is no whole.
            if mistakes.is_empty() {
                mistakes.extend(check(&scenario, document.nodes(), text));
            }
            scenario
        }
        parsed => {
            let (broken, rest) = hints::of_syntax(text, curly, parsed.err().as_ref());
            // The lines that can be read are looked at all the same, to show all mistakes at once.
            if let Ok(document) = rest.parse::<KdlDocument>() {
                read(&document, text, &mut mistakes);
            }
            // What was put in the place of a broken word is no mistake of the file.
            mistakes.retain(|mistake| !broken.iter().any(|broken| overlap(mistake.span, broken.span)));
            mistakes.extend(broken);
            Scenario::default()
        }
    };
    if mistakes.is_empty() { Ok(scenario) } else { Err(Mistakes::new(name, text, mistakes)) }
}

fn overlap(a: SourceSpan, b: SourceSpan) -> bool {
    a.offset() < b.offset() + b.len() && b.offset() < a.offset() + a.len()
}

fn read(document: &KdlDocument, text: &str, mistakes: &mut Vec<Mistake>) -> Scenario {
    let mut scenario = Scenario { about: about(text), ..Scenario::default() };
    let mut head = Head::default();
    let mut nodes = document.nodes().iter().peekable();
    while let Some(node) = nodes.next_if(|node| head.takes(node)) {
        head.read(node, &mut scenario, mistakes);
    }
    let mut place = Place { text, line: 1, at: 0 };
    for node in nodes {
        scenario.steps.extend(steps::read(node, mistakes));
        add_lines(node, &mut place, &mut scenario.lines.0);
    }
    if !head.seen.contains(&"scenario") && !text.lines().any(|line| line.trim_start().starts_with("scenario"))
    {
        let span = document.nodes().first().map_or((0, 0).into(), |node| node.name().span());
        mistakes.push(Mistake {
            span,
            message: "the scenario has no title".to_owned(),
            label: "above this".to_owned(),
            help: Some(r#"start with a line `scenario "what it shows"`"#.to_owned()),
        });
    }
    scenario
}

/// A place in a text, and its line.
struct Place<'a> {
    text: &'a str,
    line: u32,
    at: usize,
}

impl Place<'_> {
    /// Goes on to this byte.
    fn go_to(&mut self, at: usize) {
        let passed = self.text.as_bytes().get(self.at..at).unwrap_or_default();
        let lines = passed.iter().filter(|byte| **byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.at = self.at.max(at);
    }
}

/// The line of a step, and of each step in it.
fn add_lines(node: &KdlNode, place: &mut Place<'_>, lines: &mut Vec<u32>) {
    place.go_to(node.name().span().offset());
    lines.push(place.line);
    if steps::BLOCKS.contains(&node.name().value()) {
        node.iter_children().for_each(|inside| add_lines(inside, place, lines));
    }
}

/// The comment at the head of a file.
fn about(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| line.trim().is_empty());
    lines
        .map_while(|line| line.trim_start().strip_prefix("//"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned())
        .collect()
}

/// The lines before the first step. The first `disk`, `net` and `clock at=` among them describe the world at the
/// start; a second one is a step that changes it.
#[derive(Default)]
struct Head {
    seen: Vec<&'static str>,
    /// The properties so far, each with its line's word, and whether it is drawn.
    given: Vec<(String, String, bool)>,
}

impl Head {
    fn takes(&self, node: &KdlNode) -> bool {
        let word = node.name().value();
        let jumps = node.entries().iter().any(|e| e.name().is_some_and(|n| n.value() == "jump"));
        match word {
            "scenario" | "explore" | "sometimes" | "broker" => true,
            "disk" | "net" => !self.seen.contains(&word),
            "clock" => !self.seen.contains(&word) && !jumps,
            "draw" | "each" => {
                let line = node.entries().first().and_then(|e| e.value().as_string());
                line.is_some_and(|line| steps::HEAD_WORDS.contains(&line))
            }
            _ => false,
        }
    }

    /// Of a property that is drawn and given elsewhere too, one value would silently win.
    fn give(&mut self, node: &KdlNode, mistakes: &mut Vec<Mistake>) {
        let drawn = matches!(node.name().value(), "draw" | "each");
        let line = node.entries().first().and_then(|entry| entry.value().as_string());
        let word = if drawn { line.unwrap_or_default() } else { node.name().value() };
        let before = self.given.len();
        for entry in node.entries() {
            let Some(name) = entry.name().map(kdl::KdlIdentifier::value) else { continue };
            // Both say how much room there is.
            let slot = if (word, name) == ("disk", "free") { "capacity" } else { name };
            let mut others = self.given[..before].iter();
            if others.any(|(w, n, d)| (w.as_str(), n.as_str()) == (word, slot) && (drawn || *d)) {
                mistakes.push(Mistake {
                    span: entry.span(),
                    message: format!("`{name}` of `{word}` is given twice"),
                    label: "the second one".to_owned(),
                    help: Some("keep one of them, drawn or not".to_owned()),
                });
            }
            self.given.push((word.to_owned(), slot.to_owned(), drawn));
        }
    }

    fn read(&mut self, node: &KdlNode, scenario: &mut Scenario, mistakes: &mut Vec<Mistake>) {
        self.give(node, mistakes);
        let word = steps::HEAD_WORDS.into_iter().find(|word| *word == node.name().value());
        let Some(word) = word else {
            let mut draw = random::blank_draw(node.name().value());
            random::read_draw(node, &mut draw, Where::Head, mistakes);
            scenario.draws.push(draw);
            return;
        };
        if self.seen.contains(&word) {
            mistakes.push(Mistake {
                span: node.name().span(),
                message: format!("`{word}` is given twice"),
                label: "the second one".to_owned(),
                help: Some(
                    match word {
                        "scenario" => "a file holds one scenario: put the other one into a file of its own",
                        "explore" => "once is enough: remove this line",
                        _ => "put all of it on one line",
                    }
                    .to_owned(),
                ),
            });
        }
        self.seen.push(word);
        let mut reader = Reader::new(node, mistakes);
        head_line(&mut reader, word, scenario);
        reader.finish();
    }
}

/// Arguments and properties of a line of the head.
pub fn head_line(f: &mut impl Fields, word: &str, scenario: &mut Scenario) {
    match word {
        "scenario" => {
            f.arg("a title", &TEXT, &mut scenario.title);
            f.or("seeds", &SEEDS, &mut scenario.seeds, Seeds::default());
        }
        "sometimes" => f.args("a state that a sweep must reach", &STATE, &mut scenario.sometimes, 1),
        "broker" => worlds::broker(f, &mut scenario.broker),
        "disk" => worlds::disk(f, &mut scenario.disk),
        "net" => worlds::net(f, &mut scenario.net),
        "clock" => worlds::clock(f, &mut scenario.clock),
        _ => scenario.explore = true,
    }
}

/// Reads a line of the head that came of a draw: a scenario that says no more than it.
pub fn read_head_line(node: &KdlNode, mistakes: &mut Vec<Mistake>) -> Scenario {
    let mut scenario = Scenario::default();
    Head::default().read(node, &mut scenario, mistakes);
    scenario
}

/// Prints a scenario, so that [`parse`] gives it back.
pub fn print(scenario: &Scenario) -> String {
    let mut out = String::new();
    for line in &scenario.about {
        // What ends a line would end the comment, and what KDL forbids may stand in none.
        let line = line.replace(|c| must_escape(c) && c != '\t', " ");
        out.push_str(format!("// {line}").trim_end());
        out.push('\n');
    }
    let mut scenario = scenario.clone();
    for word in head_words(&scenario) {
        let mut writer = Writer::new(word, 0);
        head_line(&mut writer, word, &mut scenario);
        out.push_str(&writer.finish());
        out.push('\n');
    }
    for draw in &scenario.draws {
        out.push_str(&steps::print(&Step::Draw(draw.clone()), 0));
        out.push('\n');
    }
    if !scenario.steps.is_empty() {
        out.push('\n');
    }
    for step in &scenario.steps {
        out.push_str(&steps::print(step, 0));
        out.push('\n');
    }
    out
}

/// The lines that the head needs. Where the first steps change the world, an empty line keeps them from being read
/// as its beginning.
fn head_words(scenario: &Scenario) -> Vec<&'static str> {
    let leading = || {
        scenario.steps.iter().take_while(|step| matches!(step, Step::Disk(_) | Step::Net(_) | Step::Clock(_)))
    };
    let disk = leading().any(|step| matches!(step, Step::Disk(_)));
    let net = leading().any(|step| matches!(step, Step::Net(_)));
    let clock = leading().any(|step| matches!(step, Step::Clock(_)));
    let lines = [
        ("scenario", true),
        ("explore", scenario.explore),
        ("sometimes", !scenario.sometimes.is_empty()),
        ("broker", scenario.broker != BrokerSettings::default()),
        ("disk", disk || scenario.disk != DiskSettings::default()),
        ("net", net || scenario.net != NetSettings::default()),
        ("clock", clock || scenario.clock != ClockSettings::default()),
    ];
    lines.into_iter().filter(|(_, needed)| *needed).map(|(word, _)| word).collect()
}
