//! What a file as a whole must obey, once each of its lines can be read: names that are taken, what one run can hold, and
//! seeds enough for all that `each` asks for. A mistake has the place of the line that goes too far.

use std::ops::AddAssign;
use std::time::Duration;

use kdl::KdlNode;

use super::drawn_step;
use super::mistakes::Mistake;
use crate::scenario::random::alternatives;
use crate::scenario::{Branch, Content, Draw, DrawHow, Produce, Scenario, Step, Surgery};

/// Steps that a run executes.
const STEPS_MAX: u64 = 1_000_000;
/// Records that a run's clients send.
const RECORDS_MAX: u64 = 1_000_000;
/// Bytes that a run's clients and changes of files write: the trace keeps them, and the oracle, and the disk.
const BYTES_MAX: u64 = 1 << 30;
/// Simulated time that the steps of a run let pass: half of what a run may take in all.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// Hosts that every run has.
const TAKEN: [&str; 2] = ["broker", "client"];

/// What is wrong with the file as a whole.
pub fn check(scenario: &Scenario, nodes: &[KdlNode], text: &str) -> Vec<Mistake> {
    let mut walk =
        Walk { text, lines: scenario.lines.0.iter(), spent: Spent::default(), mistakes: Vec::new() };
    walk.steps(&scenario.steps, 1);
    let mut mistakes = walk.mistakes;
    mistakes.extend(combinations(scenario, nodes));
    mistakes
}

/// What the steps so far have used up.
#[derive(Clone, Copy, Default)]
struct Spent {
    steps: u64,
    records: u64,
    bytes: u64,
    time: Duration,
}

impl Spent {
    /// What one step uses up.
    fn by(step: &Step) -> Self {
        let of = |records, bytes, time| Self { steps: 1, records, bytes, time };
        match step {
            Step::Produce(Produce { key, value, count, .. }) => {
                let record = key.as_ref().map_or(0, size).saturating_add(size(value));
                of((*count).into(), record.saturating_mul((*count).into()), Duration::ZERO)
            }
            Step::Send(send) => of(1, size(&send.bytes), Duration::ZERO),
            Step::Surgery(Surgery::Zeros { bytes, .. } | Surgery::Corrupt { bytes, .. }) => {
                of(0, *bytes, Duration::ZERO)
            }
            Step::Surgery(Surgery::Write { bytes, .. }) => of(0, size(bytes), Duration::ZERO),
            Step::Surgery(Surgery::WriteRecord { key, value, .. }) => {
                of(0, key.as_ref().map_or(0, size).saturating_add(size(value)), Duration::ZERO)
            }
            Step::Advance(time) => of(0, 0, *time),
            Step::Random(random) => {
                let steps = random.steps.iter().copied().max().unwrap_or(0);
                Self { steps: steps.into(), ..Self::default() }
            }
            _ => of(0, 0, Duration::ZERO),
        }
    }

    fn times(self, times: u64) -> Self {
        let factor = u32::try_from(times).unwrap_or(u32::MAX);
        Self {
            steps: self.steps.saturating_mul(times),
            records: self.records.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
            time: self.time.checked_mul(factor).unwrap_or(Duration::MAX),
        }
    }

    /// What there is too much of, and what to do.
    fn too_much(&self) -> Option<(String, &'static str)> {
        if self.time > TIME_MAX {
            let limit = "with this line, more than an hour of simulated time passes";
            return Some((
                limit.to_owned(),
                "`advance` less: every wait of the broker has a setting that makes it short",
            ));
        }
        if self.records > RECORDS_MAX {
            let limit = format!("with this line, clients send more than {RECORDS_MAX} records");
            return Some((limit, "lower `count=`; to fill segments, lower `segment-bytes=` of the broker"));
        }
        if self.bytes > BYTES_MAX {
            let limit = "with this line, more than 1GiB is written".to_owned();
            return Some((limit, "write less: a run keeps all of it in memory, several times over"));
        }
        (self.steps > STEPS_MAX).then(|| {
            let limit = format!("with this line, a run has more than {STEPS_MAX} steps");
            (limit, "repeat less often")
        })
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time = self.time.saturating_add(other.time);
    }
}

fn size(content: &Content) -> u64 {
    match content {
        Content::Text(text) => text.len() as u64,
        Content::Hex(bytes) => bytes.len() as u64,
        Content::Size(size) => *size,
    }
}

/// Goes through the steps with their lines.
struct Walk<'a> {
    text: &'a str,
    /// The lines of the steps that are still to come.
    lines: std::slice::Iter<'a, u32>,
    spent: Spent,
    mistakes: Vec<Mistake>,
}

impl Walk<'_> {
    fn steps(&mut self, steps: &[Step], times: u64) {
        for step in steps {
            let line = self.lines.next().copied().unwrap_or(1);
            self.spend(step, times, line);
            match step {
                Step::Client(branch) => self.client(branch, times, line),
                Step::Parallel(branches) => {
                    for branch in branches {
                        let line = self.lines.next().copied().unwrap_or(1);
                        self.client(branch, times, line);
                    }
                }
                Step::Repeat { times: rounds, steps } => {
                    self.steps(steps, times.saturating_mul((*rounds).into()));
                }
                Step::Pipeline(steps) => self.steps(steps, times),
                _ => {}
            }
        }
    }

    fn spend(&mut self, step: &Step, times: u64, line: u32) {
        let before = self.spent.too_much().is_some();
        self.spent += most(step).times(times);
        if let (false, Some((message, help))) = (before, self.spent.too_much()) {
            self.say(line, message, help.to_owned());
        }
    }

    fn client(&mut self, branch: &Branch, times: u64, line: u32) {
        let name = branch.client.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if TAKEN.contains(&name) {
            let whose = if name == "client" { "of the steps outside of blocks" } else { "of the broker" };
            let message = format!("a client cannot be called `{name}`: that is the host {whose}");
            self.say(line, message, "choose another name, as in `client a`".to_owned());
        } else if !(name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain)) {
            let message = format!("a client cannot be called `{name}`");
            self.say(line, message, "begin with a letter; letters, digits, _ and - may follow".to_owned());
        }
        self.steps(&branch.steps, times);
    }

    fn say(&mut self, line: u32, message: String, help: String) {
        let line = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
        let whole = self.text.split_inclusive('\n').nth(line).unwrap_or_default();
        let begin: usize = self.text.split_inclusive('\n').take(line).map(str::len).sum();
        let indent = whole.len() - whole.trim_start().len();
        let span = (begin + indent, whole.trim().len()).into();
        self.mistakes.push(Mistake { span, message, label: "this line".to_owned(), help: Some(help) });
    }
}

/// The most that a step can use up: of a drawn one, that with the last of all values, where ranges are longest, or the first.
fn most(step: &Step) -> Spent {
    let Step::Draw(draw) = step else { return Spent::by(step) };
    let last = draw.props.iter().map(|(_, values)| alternatives(values).len().saturating_sub(1)).collect();
    let first = vec![0; draw.props.len()];
    let spent = |choice: Vec<usize>| drawn_step(draw, &choice).map(|step| Spent::by(&step));
    let mut most = Spent { steps: 1, ..Spent::default() };
    for one in [first, last].into_iter().filter_map(spent) {
        most.records = most.records.max(one.records);
        most.bytes = most.bytes.max(one.bytes);
        most.time = most.time.max(one.time);
    }
    most
}

/// Where every line of a scenario takes its values in turn, its seeds go through all of them. Where something is drawn
/// besides, seeds are a sample anyway.
fn combinations(scenario: &Scenario, nodes: &[KdlNode]) -> Option<Mistake> {
    let mut draws: Vec<&Draw> = scenario.draws.iter().collect();
    let random = collect(&scenario.steps, &mut draws);
    if random || draws.is_empty() || draws.iter().any(|draw| draw.how == DrawHow::AtRandom) {
        return None;
    }
    let values =
        draws.iter().flat_map(|draw| &draw.props).map(|(_, values)| alternatives(values).len().max(1));
    let all = values.fold(1, |all: u64, one| all.saturating_mul(one as u64));
    let (seeds, node) = (scenario.seeds, nodes.iter().find_map(first_each)?);
    let named = seeds.end - seeds.start;
    (named < all).then(|| Mistake {
        span: node.name().span(),
        message: format!("`each` makes {all} combinations, and `seeds` names {named}"),
        label: "not all of its values are tried".to_owned(),
        help: Some(format!(
            "say `seeds=\"{}..{}\"` on the line `scenario`",
            seeds.start,
            seeds.start.saturating_add(all)
        )),
    })
}

/// Adds the drawn lines among these steps; whether one of the steps is a random block.
fn collect<'a>(steps: &'a [Step], draws: &mut Vec<&'a Draw>) -> bool {
    let mut random = false;
    for step in steps {
        match step {
            Step::Draw(draw) => draws.push(draw),
            Step::Random(_) => random = true,
            Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => {
                random |= collect(steps, draws);
            }
            Step::Parallel(branches) => {
                for branch in branches {
                    random |= collect(&branch.steps, draws);
                }
            }
            _ => {}
        }
    }
    random
}

fn first_each(node: &KdlNode) -> Option<&KdlNode> {
    if node.name().value() == "each" { Some(node) } else { node.iter_children().find_map(first_each) }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    /// The lines with a mistake, and the mistakes.
    fn mistakes(head: &str, steps: &str) -> Vec<String> {
        let text = format!("scenario \"t\"{head}\ntopic orders\n{steps}\n");
        parse("t", &text).err().map_or_else(Vec::new, |mistakes| mistakes.lines())
    }

    #[test]
    fn seeds_that_leave_combinations_out_are_a_mistake() {
        let each = "each fault write \"*.log\" nth=\"1..4\" error=\"EIO | ENOSPC\"";
        let found = mistakes("", each);
        let [line] = &found[..] else { panic!("{found:?}") };
        assert!(line.starts_with("t:3:1: `each` makes 6 combinations, and `seeds` names 1"), "{line}");
        assert!(line.ends_with("say `seeds=\"0..6\"` on the line `scenario`"), "{line}");
        assert_eq!(mistakes(" seeds=\"2..7\"", each).len(), 1);
        assert_eq!(mistakes(" seeds=\"2..8\"", each), [""; 0]);
        let drawn = "draw topic a partitions=\"1..4\"\neach topic b partitions=\"1..4\"";
        assert_eq!(mistakes("", drawn), [""; 0], "seeds are a sample");
        let inside = "repeat 2 {\n    each advance \"1ms\"\n    each produce orders count=\"1 | 2\"\n}";
        assert_eq!(mistakes("", inside).len(), 1);
    }

    #[test]
    fn a_client_has_a_name_of_its_own() {
        for taken in ["broker", "client", "\"10.0.0.1\"", "\"\""] {
            let found = mistakes("", &format!("client {taken} {{\n    crash\n}}"));
            assert!(
                found.len() == 1 && found[0].starts_with("t:3:1: a client cannot be called"),
                "{found:?}"
            );
        }
        let found = mistakes("", "parallel {\n    client a { crash; }\n    client broker { start; }\n}");
        assert!(found.len() == 1 && found[0].starts_with("t:5:5: "), "{found:?}");
    }

    #[test]
    fn what_no_run_can_hold_is_found_before_it_runs() {
        let lines = [
            "produce orders count=100000000",
            "produce orders size=\"2GiB\"",
            "repeat 4000 { produce orders size=\"1MiB\"; }",
            "repeat 100000 { repeat 100000 { crash; }; }",
            "advance \"30d\"",
            "repeat 100 { advance \"1m\"; }",
            "each advance \"1d\"",
            "stop\nzeros \"a\" bytes=\"2GiB\"",
        ];
        for line in lines {
            let found = mistakes("", line);
            assert!(found.len() == 1 && found[0].contains("with this line, "), "{line}: {found:?}");
        }
        assert_eq!(mistakes("", "produce orders count=1000 size=1000\nadvance \"5m\""), [""; 0]);
    }
}
