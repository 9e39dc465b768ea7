//! What a file as a whole must obey, once each of its lines can be read: names that are taken, what one run can hold, and
//! seeds enough for all that `each` asks for. A mistake has the place of the line that goes too far.

use std::ops::AddAssign;
use std::time::Duration;

use kdl::KdlNode;

use super::drawn_step;
use super::mistakes::Mistake;
use crate::scenario::random::alternatives;
use crate::scenario::{
    Branch, Content, Draw, DrawHow, FaultKind, Place, Produce, Scenario, Send, Step, Surgery,
};

/// Steps that a run executes.
const STEPS_MAX: u64 = 1_000_000;
/// Records that a run's clients send.
const RECORDS_MAX: u64 = 1_000_000;
/// Bytes that a run's clients and changes of files write: the trace keeps them, and the oracle, and the disk.
const BYTES_MAX: u64 = 1 << 30;
/// Simulated time that the steps of a run let pass: half of what a run may take in all.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Raw connections that a run opens: a host of the simulated network has 16,384 ports for them, and for its client.
const OPENED_MAX: u64 = 10_000;

/// Hosts that every run has.
const TAKEN: [&str; 2] = ["broker", "client"];

/// What is wrong with the file as a whole.
pub fn check(scenario: &Scenario, nodes: &[KdlNode], text: &str) -> Vec<Mistake> {
    let mut walk = Walk {
        text,
        lines: scenario.lines.0.iter(),
        spent: Spent::default(),
        inside: Vec::new(),
        waits: Vec::new(),
        mistakes: Vec::new(),
    };
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
    opened: u64,
}

impl Spent {
    /// What one step uses up.
    fn by(step: &Step) -> Self {
        let of = |records, bytes, time| Self { steps: 1, records, bytes, time, opened: 0 };
        match step {
            Step::Produce(Produce { key, value, count, .. }) => {
                let record = key.as_ref().map_or(0, size).saturating_add(size(value));
                of((*count).into(), record.saturating_mul((*count).into()), Duration::ZERO)
            }
            Step::Open(open) => Self { opened: open.count.into(), ..of(0, 0, Duration::ZERO) },
            Step::Send(send) => of(1, size(&send.bytes), pauses(send)),
            Step::Receive(receive) => of(0, 0, receive.within),
            Step::Surgery(surgery) => of(0, written(surgery), Duration::ZERO),
            Step::Fault(fault) => match fault.kind {
                FaultKind::Stall { lasts } => of(0, 0, lasts),
                _ => of(0, 0, Duration::ZERO),
            },
            Step::Net(net) => of(0, 0, net.timeout.unwrap_or_default()),
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
            opened: self.opened.saturating_mul(times),
        }
    }

    /// What there is too much of, and what to do.
    fn too_much(&self) -> Option<(String, &'static str)> {
        if self.time > TIME_MAX {
            let limit = "with this line, more than an hour of simulated time can pass";
            return Some((
                limit.to_owned(),
                "wait less: every wait of the broker has a setting that makes it short",
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
        if self.opened > OPENED_MAX {
            let limit = format!("with this line, more than {OPENED_MAX} raw connections are opened");
            return Some((limit, "open fewer; to reach the broker's limit, lower its `max-connections=`"));
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
        self.opened = self.opened.saturating_add(other.opened);
    }
}

fn size(content: &Content) -> u64 {
    match content {
        Content::Text(text) => text.len() as u64,
        Content::Hex(bytes) => bytes.len() as u64,
        Content::Size(size) => *size,
    }
}

/// How long a send pauses between its pieces.
fn pauses(send: &Send) -> Duration {
    let pieces =
        send.chunk_bytes.map_or(1, |piece| size(&send.bytes).saturating_add(4).div_ceil(piece.into()));
    let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
    send.every.unwrap_or_default().checked_mul(pieces).unwrap_or(Duration::MAX)
}

/// How many bytes a change of a file may write. What lies before them counts: a file that is longer than its data is zeros in
/// between, and these are kept too.
fn written(surgery: &Surgery) -> u64 {
    let from = |at: Option<Place>| match at {
        Some(Place::Byte(at)) => u64::try_from(at).unwrap_or(0),
        _ => 0,
    };
    match surgery {
        Surgery::Corrupt { bytes, .. } => *bytes,
        Surgery::Truncate { to, .. } => from(Some(*to)),
        Surgery::Zeros { at, bytes, .. } => from(*at).saturating_add(*bytes),
        Surgery::Write { at, bytes, .. } => from(*at).saturating_add(size(bytes)),
        Surgery::WriteRecord { at, key, value, .. } => {
            from(*at).saturating_add(key.as_ref().map_or(0, size)).saturating_add(size(value))
        }
        Surgery::WriteEntry { at, .. } => from(*at),
        Surgery::Delete { .. }
        | Surgery::Copy { .. }
        | Surgery::Rename { .. }
        | Surgery::MakeDir { .. }
        | Surgery::Unreadable { .. } => 0,
    }
}

/// Goes through the steps with their lines.
struct Walk<'a> {
    text: &'a str,
    /// The lines of the steps that are still to come.
    lines: std::slice::Iter<'a, u32>,
    spent: Spent,
    /// The clients whose blocks the walk is in, the innermost last.
    inside: Vec<String>,
    /// Who waits for whom: a client for another, to whom it has handed a block.
    waits: Vec<(String, String)>,
    mistakes: Vec<Mistake>,
}

impl Walk<'_> {
    fn steps(&mut self, steps: &[Step], times: u64) {
        for step in steps {
            let line = self.lines.next().copied().unwrap_or(1);
            self.spend(step, times, line);
            match step {
                Step::Client(branch) => self.client(branch, times, line),
                Step::Parallel(branches) => self.parallel(branches, times, line),
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

    fn parallel(&mut self, branches: &[Branch], times: u64, line: u32) {
        let (waits, mistakes) = (self.waits.len(), self.mistakes.len());
        for (at, branch) in branches.iter().enumerate() {
            let line = self.lines.next().copied().unwrap_or(1);
            let name = &branch.client;
            if branches.iter().take(at).any(|before| before.client == *name) {
                let message = format!("the client `{name}` has two blocks here, and can be in one at a time");
                self.say(
                    line,
                    message,
                    "choose another name, or put all of its steps in one block".to_owned(),
                );
            }
            self.client(branch, times, line);
        }
        if let (true, Some((a, b))) = (mistakes == self.mistakes.len(), round(&self.waits[waits..])) {
            let message = format!("the clients `{a}` and `{b}` may each wait for the other to end its block");
            let help = "let one of them have its block outside of the other's, or use a third client";
            self.say(line, message, help.to_owned());
        }
    }

    fn client(&mut self, branch: &Branch, times: u64, line: u32) {
        let name = branch.client.as_str();
        if self.inside.contains(&branch.client) {
            let message =
                format!("the client `{name}` would wait for itself: this is inside of a block of its own");
            self.say(line, message, "choose another name, or put the steps there without a block".to_owned());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if TAKEN.contains(&name) {
            let whose = if name == "client" { "of the steps outside of blocks" } else { "of the broker" };
            let message = format!("a client cannot be called `{name}`: that is the host {whose}");
            self.say(line, message, "choose another name, as in `client a`".to_owned());
        } else if !(name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain)) {
            let message = format!("a client cannot be called `{name}`");
            self.say(line, message, "begin with a letter; letters, digits, _ and - may follow".to_owned());
        }
        self.waits.extend(self.inside.last().map(|outer| (outer.clone(), branch.client.clone())));
        self.inside.push(branch.client.clone());
        self.steps(&branch.steps, times);
        self.inside.pop();
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

/// Two clients that wait for each other, perhaps with others in between.
fn round(waits: &[(String, String)]) -> Option<(&str, &str)> {
    let reaches = |from: &str, to: &str| {
        let mut found = vec![from];
        let mut at = 0;
        while let Some(one) = found.get(at).copied() {
            for (_, next) in waits.iter().filter(|(outer, _)| outer == one) {
                if next == to {
                    return true;
                }
                if !found.contains(&next.as_str()) {
                    found.push(next);
                }
            }
            at += 1;
        }
        false
    };
    waits.iter().find(|(a, b)| reaches(b, a)).map(|(a, b)| (a.as_str(), b.as_str()))
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
        most.opened = most.opened.max(one.opened);
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
    let named = seeds.count();
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
    fn clients_that_would_wait_for_each_other_are_found_before_they_do() {
        let nested = "client a {\n    client b {\n        client a { crash; }\n    }\n}";
        let cross = "parallel {\n    client a {\n        client b { crash; }\n    }\n    \
                     client b {\n        client a { crash; }\n    }\n}";
        for (steps, line) in [
            ("client a {\n    client a { crash; }\n}", "t:4:5: the client `a` would wait for itself"),
            (nested, "t:5:9: the client `a` would wait for itself"),
            (cross, "t:3:1: the clients `a` and `b` may each wait for the other"),
            (
                "parallel {\n    client a { crash; }\n    client a { start; }\n}",
                "t:5:5: the client `a` has two blocks here",
            ),
        ] {
            let found = mistakes("", steps);
            assert!(found.len() == 1 && found[0].starts_with(line), "{found:?}");
        }
        let handed =
            "parallel {\n    client a { client b { crash; }; }\n    client c { client b { start; }; }\n}";
        assert_eq!(mistakes("", handed), [""; 0]);
        assert_eq!(
            mistakes("", "client a { client b { crash; }; }\nclient b { client a { start; }; }"),
            [""; 0]
        );
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
            "truncate \"a\" to=10000000000000",
            "zeros \"a\" at=10000000000000 bytes=1",
            "write \"a\" at=10000000000000 text=\"x\"",
            "write-entry \"a\" at=10000000000000 offset=1 position=1",
            "receive within=\"3h\"",
            "receive within=\"200000000000000d\"",
            "send size=1000 chunk-bytes=1 every=\"1m\"",
            "fault sync \"*\" stall=\"3h\"",
            "open count=20000",
            "repeat 100 { open count=200; close; }",
        ];
        for line in lines {
            let found = mistakes("", line);
            assert!(found.len() == 1 && found[0].contains("with this line, "), "{line}: {found:?}");
        }
        assert_eq!(mistakes("", "produce orders count=1000 size=1000\nadvance \"5m\""), [""; 0]);
    }
}
