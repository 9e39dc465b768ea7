//! The words of the language: which step each makes, and the fields of the steps that have few.

use kdl::KdlNode;

use super::fields::Fields;
use super::kinds::{Bad, COUNT, Choice, DURATION, NAME, NUMBER, NUMBER_32, Plain, TEXT};
use super::mistakes::{Mistake, nearest};
use super::reader::Reader;
use super::writer::Writer;
use super::{faults, random, requests, sense, surgeries, worlds};
use crate::scenario::{
    Branch, Check, ClockChange, Consume, CreateTopic, DiskSettings, Expect, Keep, Link, ListPartitions,
    LookUp, NetSettings, Open, Produce, Receive, Send, Start, StartExpect, Step, Verify,
};

/// Words at the head of a file.
pub const HEAD_WORDS: [&str; 7] = ["scenario", "explore", "sometimes", "broker", "disk", "net", "clock"];

/// Words of steps with steps in them.
pub const BLOCKS: [&str; 4] = ["client", "parallel", "repeat", "pipeline"];

/// Words of steps that are not surgery.
const STEP_WORDS: [&str; 40] = [
    "topic",
    "delete-topic",
    "list-topics",
    "list-partitions",
    "produce",
    "consume",
    "fetch",
    "offsets",
    "pipeline",
    "open",
    "send",
    "receive",
    "half-close",
    "close",
    "fault",
    "calm",
    "drop-caches",
    "crash",
    "power-loss",
    "stop",
    "start",
    "restart",
    "second-broker",
    "disk",
    "net",
    "clock",
    "partition",
    "hold",
    "heal",
    "advance",
    "client",
    "parallel",
    "repeat",
    "draw",
    "each",
    "random",
    "files",
    "dump",
    "verify",
    "check",
];

/// All words of steps.
pub fn words() -> impl Iterator<Item = &'static str> {
    STEP_WORDS.into_iter().chain(surgeries::WORDS)
}

/// What is expected, as it is written.
impl std::fmt::Display for StartExpect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&super::kinds::Kind::write(&START, self))
    }
}

const START: Choice<StartExpect> = Choice(&[
    ("ok", StartExpect::Ok),
    ("refused", StartExpect::Refused),
    ("crashed", StartExpect::Crashed),
    ("any", StartExpect::Any),
]);

/// `P1` to `P12`.
const PROMISE: Plain<u8> = Plain(
    |v| {
        let number = v.as_string().and_then(|text| text.strip_prefix('P')?.parse::<u8>().ok());
        let number = number.filter(|n| (1..=12).contains(n));
        number.map_or_else(|| Bad::wanted("promises, P1 to P12"), Ok)
    },
    |n| format!("P{n}"),
);

/// The step of a word, with nothing filled in.
pub fn blank(word: &str) -> Option<Step> {
    Some(match word {
        "topic" => Step::Topic(CreateTopic::default()),
        "delete-topic" => Step::DeleteTopic { name: String::new(), expect: Expect::Ok },
        "list-topics" => Step::ListTopics { expect: Expect::Ok, expect_count: None },
        "list-partitions" => Step::ListPartitions(ListPartitions::default()),
        "produce" => Step::Produce(Produce::default()),
        "consume" => Step::Consume(Consume::default()),
        "fetch" => Step::Fetch(Consume::default()),
        "offsets" => Step::Offsets(LookUp::default()),
        "pipeline" => Step::Pipeline(Vec::new()),
        "open" => Step::Open(Open::default()),
        "send" => Step::Send(Send::default()),
        "receive" => Step::Receive(Receive::default()),
        "half-close" => Step::HalfClose,
        "close" => Step::Close,
        "fault" => Step::Fault(faults::blank()),
        "calm" => Step::Calm,
        "drop-caches" => Step::DropCaches,
        "crash" => Step::Crash,
        "power-loss" => Step::PowerLoss { keep: Keep::Drawn },
        "stop" => Step::Stop,
        "start" => Step::Start(Start::default()),
        "restart" => Step::Restart(Start::default()),
        "second-broker" => Step::SecondBroker { expect: StartExpect::Refused },
        "disk" => Step::Disk(DiskSettings::default()),
        "net" => Step::Net(NetSettings::default()),
        "clock" => Step::Clock(ClockChange::default()),
        "partition" => Step::Partition(Link::default()),
        "hold" => Step::Hold(Link::default()),
        "heal" => Step::Heal,
        "advance" => Step::Advance(std::time::Duration::ZERO),
        "client" => Step::Client(Branch::default()),
        "parallel" => Step::Parallel(Vec::new()),
        "repeat" => Step::Repeat { times: 1, steps: Vec::new() },
        "draw" | "each" => Step::Draw(random::blank_draw(word)),
        "random" => Step::Random(random::blank_random()),
        "files" => Step::Files,
        "dump" => Step::Dump { file: None },
        "verify" => Step::Verify(Verify::default()),
        "check" => Step::Check(Check::default()),
        other => Step::Surgery { surgery: surgeries::blank(other)?, may_miss: false },
    })
}

/// The word of a step.
pub fn word(step: &Step) -> &'static str {
    match step {
        Step::Topic(_) => "topic",
        Step::DeleteTopic { .. } => "delete-topic",
        Step::ListTopics { .. } => "list-topics",
        Step::ListPartitions(_) => "list-partitions",
        Step::Produce(_) => "produce",
        Step::Consume(_) => "consume",
        Step::Fetch(_) => "fetch",
        Step::Offsets(_) => "offsets",
        Step::Pipeline(_) => "pipeline",
        Step::Open(_) => "open",
        Step::Send(_) => "send",
        Step::Receive(_) => "receive",
        Step::HalfClose => "half-close",
        Step::Close => "close",
        Step::Fault(_) => "fault",
        Step::Calm => "calm",
        Step::DropCaches => "drop-caches",
        Step::Crash => "crash",
        Step::PowerLoss { .. } => "power-loss",
        Step::Stop => "stop",
        Step::Start(_) => "start",
        Step::Restart(_) => "restart",
        Step::SecondBroker { .. } => "second-broker",
        Step::Surgery { surgery, .. } => surgeries::word(surgery),
        Step::Disk(_) => "disk",
        Step::Net(_) => "net",
        Step::Clock(_) => "clock",
        Step::Partition(_) => "partition",
        Step::Hold(_) => "hold",
        Step::Heal => "heal",
        Step::Advance(_) => "advance",
        Step::Client(_) => "client",
        Step::Parallel(_) => "parallel",
        Step::Repeat { .. } => "repeat",
        Step::Draw(draw) => random::draw_word(draw.how),
        Step::Random(_) => "random",
        Step::Files => "files",
        Step::Dump { .. } => "dump",
        Step::Verify(_) => "verify",
        Step::Check(_) => "check",
    }
}

/// Arguments, properties and block of a step.
pub fn fields(f: &mut impl Fields, step: &mut Step) {
    match step {
        Step::Topic(topic) => requests::topic(f, topic),
        Step::DeleteTopic { name, expect } => {
            f.arg("a topic", &NAME, name);
            requests::expect(f, expect);
        }
        Step::ListTopics { expect, expect_count } => requests::list_topics(f, expect, expect_count),
        Step::ListPartitions(list) => requests::list_partitions(f, list),
        Step::Produce(produce) => requests::produce(f, produce),
        Step::Consume(consume) | Step::Fetch(consume) => requests::consume(f, consume),
        Step::Offsets(look_up) => requests::look_up(f, look_up),
        Step::Pipeline(steps) => pipeline(f, steps),
        Step::Open(open) => requests::open(f, open),
        Step::Send(send) => requests::send(f, send),
        Step::Receive(receive) => requests::receive(f, receive),
        Step::Fault(fault) => faults::fault(f, fault),
        Step::PowerLoss { keep } => faults::keep(f, keep),
        Step::Start(how) | Step::Restart(how) => start(f, how),
        Step::SecondBroker { expect } => f.or("expect", &START, expect, StartExpect::Refused),
        Step::Surgery { surgery, may_miss } => {
            surgeries::surgery(f, surgery);
            f.flag("may-miss", may_miss);
        }
        Step::Disk(disk) => worlds::disk_change(f, disk),
        Step::Net(net) => worlds::net_change(f, net),
        Step::Clock(clock) => worlds::clock_change(f, clock),
        Step::Partition(cut) => {
            link(f, cut);
            f.flag("one-way", &mut cut.one_way);
        }
        Step::Hold(held) => link(f, held),
        Step::Advance(duration) => f.arg("a duration", &DURATION, duration),
        Step::Client(branch) => {
            f.arg("a client's name", &NAME, &mut branch.client);
            f.block(&mut branch.steps);
        }
        Step::Parallel(branches) => f.branches(branches),
        Step::Repeat { times, steps } => {
            f.arg("a number", &COUNT, times);
            f.block(steps);
        }
        Step::Draw(draw) => f.drawn_line(draw),
        Step::Random(block) => random::random(f, block),
        Step::Dump { file } => f.arg_opt("a file", &TEXT, file),
        Step::Verify(verify) => f.opt("expect-problems", &NUMBER_32, &mut verify.expect_problems),
        Step::Check(check) => f.args("a promise", &PROMISE, &mut check.promises, 0),
        Step::HalfClose
        | Step::Close
        | Step::Calm
        | Step::DropCaches
        | Step::Crash
        | Step::Stop
        | Step::Heal
        | Step::Files => {}
    }
}

fn link(f: &mut impl Fields, link: &mut Link) {
    f.arg("two hosts", &NAME, &mut link.a);
    f.arg("a second host", &NAME, &mut link.b);
    f.opt("for", &DURATION, &mut link.lasts);
}

fn start(f: &mut impl Fields, start: &mut Start) {
    worlds::broker(f, &mut start.settings);
    f.or("expect", &START, &mut start.expect, StartExpect::Ok);
    f.opt("expect-cut", &NUMBER, &mut start.expect_cut);
    f.opt("expect-records", &NUMBER, &mut start.expect_records);
    f.opt("expect-damage", &NUMBER, &mut start.expect_damage);
    let counted = [start.expect_cut, start.expect_records, start.expect_damage].iter().any(Option::is_some);
    if counted && !matches!(start.expect, StartExpect::Ok | StartExpect::Any) {
        let message = "a start that does not succeed reports no records, cuts or damage to expect";
        f.wrong(message.to_owned(), "remove `expect-records=` and the like, or the `expect=`");
    }
}

fn pipeline(f: &mut impl Fields, steps: &mut Vec<Step>) {
    f.block(steps);
    for step in steps {
        let request = matches!(
            step,
            Step::Topic(_)
                | Step::DeleteTopic { .. }
                | Step::ListTopics { .. }
                | Step::ListPartitions(_)
                | Step::Produce(_)
                | Step::Fetch(_)
                | Step::Offsets(_)
        );
        if !request {
            let message = format!("`{}` cannot stand in a pipeline", word(step));
            f.wrong(message, "only requests can: topic, delete-topic, list-topics, list-partitions, produce, fetch, offsets");
        }
    }
}

/// Reads lines; those with a mistake are left out.
pub fn read_all(nodes: &[KdlNode], mistakes: &mut Vec<Mistake>) -> Vec<Step> {
    nodes.iter().filter_map(|node| read(node, mistakes)).collect()
}

/// Reads one line, and its block.
pub fn read(node: &KdlNode, mistakes: &mut Vec<Mistake>) -> Option<Step> {
    let name = node.name();
    let Some(mut step) = blank(name.value()) else {
        mistakes.push(unknown_word(node));
        return None;
    };
    let before = mistakes.len();
    let mut reader = Reader::new(node, mistakes);
    fields(&mut reader, &mut step);
    reader.finish();
    // One that stands in no file was listed, and is left with nothing on purpose: `-` is one of its values.
    let idle = || sense::idle(&step).filter(|_| !node.span().is_empty());
    if mistakes.len() == before
        && let Some((message, help)) = sense::wrong(&step).or_else(idle)
    {
        let span = node.span();
        mistakes.push(Mistake { span, message, label: "this line".to_owned(), help: Some(help) });
    }
    (mistakes.len() == before).then_some(step)
}

fn unknown_word(node: &KdlNode) -> Mistake {
    let name = node.name();
    let text = name.value();
    let (message, help) = if HEAD_WORDS.contains(&text) {
        let help = match text {
            "scenario" => {
                "a file holds one scenario, which begins with this line: put another one into a file of its own"
            }
            _ => "move it above the first step",
        };
        (format!("`{text}` belongs to the head of the file"), help.to_owned())
    } else {
        let help = nearest(text, words().chain(HEAD_WORDS)).map_or_else(
            || "scenarios/README.md lists all words".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        (format!("there is no word `{text}`"), help)
    };
    Mistake { span: name.span(), message, label: "this word".to_owned(), help: Some(help) }
}

/// Prints one step, indented `depth` times.
pub fn print(step: &Step, depth: usize) -> String {
    let mut writer = Writer::new(word(step), depth);
    fields(&mut writer, &mut step.clone());
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_makes_the_step_that_is_printed_with_it() {
        for name in words() {
            let step = blank(name).unwrap_or_else(|| panic!("{name} makes no step"));
            assert_eq!(word(&step), name);
        }
    }
}
