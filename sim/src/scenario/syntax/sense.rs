//! Lines that can be read, and that no run could make sense of: found before anything runs.
//!
//! | file | is about |
//! | --- | --- |
//! | `asked` | what is expected of requests |
//! | `paths` | paths of files |

mod asked;
mod paths;

use super::faults::operation_name;
use crate::scenario::{
    ClockChange, DiskSettings, Fault, FaultKind, Link, NetSettings, Op, Random, Step, Surgery,
};

/// The host that the broker is on.
const BROKER: &str = "broker";

/// What is wrong with a step, wherever it stands, and what to do.
pub fn wrong(step: &Step) -> Option<(String, String)> {
    match step {
        Step::Fault(fault) => wrong_fault(fault),
        Step::Partition(link) | Step::Hold(link) => wrong_link(link),
        Step::Consume(consume) => asked::consume(consume),
        Step::Fetch(fetch) => asked::fetch(fetch),
        Step::ListTopics { expect, expect_count } => asked::list(*expect, *expect_count),
        Step::ListPartitions(list) => asked::list(list.expect, list.expect_count),
        Step::Surgery { surgery, .. } => wrong_surgery(surgery).or_else(|| paths::surgery(surgery)),
        Step::Dump { file: Some(file) } => paths::path(file),
        Step::Random(random) => wrong_random(random),
        _ => None,
    }
}

/// What is missing on a line that changes nothing, and what to do. One that comes of a list may: some of its values are for nothing.
pub fn idle(step: &Step) -> Option<(String, String)> {
    if let Step::Fault(Fault { aim, .. }) = step
        && aim.rate.is_some_and(|rate| rate.millionths == 0)
    {
        let message = "a fault with `rate=0` can never strike";
        return Some((message.to_owned(), "give it a probability above 0, or remove this line".to_owned()));
    }
    let (message, help) = match step {
        Step::Send(send) if send.every.is_some() && send.chunk_bytes.is_none() => (
            "`every=` is the time between pieces, and this is sent in one".to_owned(),
            "say after `chunk-bytes=` how long they are",
        ),
        Step::Send(send) if send.length.is_none() && send.bytes.is_empty() => {
            ("no byte is sent".to_owned(), "say which, as in `send hex=\"00 ff\"`")
        }
        Step::Advance(time) if time.is_zero() => {
            ("no time passes".to_owned(), "say how much, as in `advance \"1s\"`")
        }
        Step::Random(random) if random.steps.iter().all(|steps| *steps == 0) => {
            ("no step is made".to_owned(), "say how many, as in `random steps=30`")
        }
        step => match (empty_block(step), unchanged(step)) {
            (Some(word), _) => {
                (format!("there is nothing in this `{word}`"), "put steps between its braces, or remove it")
            }
            (_, Some((word, help))) => (format!("this `{word}` changes nothing"), help),
            _ => return None,
        },
    };
    Some((message, help.to_owned()))
}

/// The word of a block without steps.
fn empty_block(step: &Step) -> Option<&'static str> {
    match step {
        Step::Repeat { steps, .. } if steps.is_empty() => Some("repeat"),
        Step::Pipeline(steps) if steps.is_empty() => Some("pipeline"),
        Step::Parallel(branches) if branches.is_empty() => Some("parallel"),
        Step::Parallel(branches) if branches.iter().any(|branch| branch.steps.is_empty()) => Some("client"),
        Step::Client(branch) if branch.steps.is_empty() => Some("client"),
        _ => None,
    }
}

/// The word of a line that leaves the world as it is, and what it could say.
fn unchanged(step: &Step) -> Option<(&'static str, &'static str)> {
    let still = ClockChange { jump: Some(0), ..ClockChange::default() };
    match step {
        Step::Disk(change) if *change == DiskSettings::default() => {
            Some(("disk", "say what changes, as in `disk free=0`"))
        }
        Step::Net(change) if *change == NetSettings::default() => {
            Some(("net", "say what changes, as in `net latency=\"5ms\"`"))
        }
        Step::Clock(change) if [ClockChange::default(), still].contains(change) => {
            Some(("clock", "say what changes, as in `clock jump=\"-1h\"`"))
        }
        _ => None,
    }
}

fn wrong_random(random: &Random) -> Option<(String, String)> {
    let largest = |weights: &Vec<u32>| weights.iter().copied().max().map_or(0, u64::from);
    if random.weights.iter().map(|(_, weights)| largest(weights)).sum::<u64>() > u32::MAX.into() {
        let message = format!("the weights may add up to more than {}", u32::MAX);
        return Some((message, "only their proportions matter: make all of them smaller".to_owned()));
    }
    let steps = random.steps.iter().any(|steps| *steps > 0);
    let weights = random.weights.iter().any(|(_, weights)| weights.iter().any(|weight| *weight > 0));
    (steps && !weights).then(|| {
        let message = "no kind of step has a weight above 0, so that no step can be made";
        (message.to_owned(), "give one a weight: `weights produce=6 consume=3`".to_owned())
    })
}

/// Which operations can go wrong in this way; all, where none is named. The disk has the same rule.
fn suitable(kind: FaultKind) -> (&'static str, &'static [Op]) {
    match kind {
        FaultKind::Tear { .. } => ("tear", &[Op::Write]),
        FaultKind::Short { .. } => ("short", &[Op::Read, Op::Write]),
        FaultKind::Full { .. } => ("full", &[Op::Write]),
        FaultKind::Lost => ("lost", &[Op::Write, Op::Sync, Op::SyncDir]),
        FaultKind::Torn { .. } => ("torn", &[Op::Write]),
        FaultKind::Misdirect { .. } => ("misdirect", &[Op::Write]),
        FaultKind::Flip { .. } => ("flip", &[Op::Read]),
        FaultKind::Unreadable { .. } => ("unreadable", &[Op::Read]),
        FaultKind::Drop => ("drop", &[Op::Sync]),
        FaultKind::WritebackError => ("writeback-error", &[Op::Write]),
        FaultKind::Error { .. }
        | FaultKind::ReadOnly
        | FaultKind::Stall { .. }
        | FaultKind::Crash { .. }
        | FaultKind::PowerLoss { .. } => ("", &[]),
    }
}

fn wrong_fault(fault: &Fault) -> Option<(String, String)> {
    let (name, ops) = suitable(fault.kind);
    if !ops.is_empty() && !ops.contains(&fault.op) {
        let names: Vec<String> = ops.iter().map(|op| format!("`{}`", operation_name(*op))).collect();
        let message = format!("`{name}` cannot happen to `{}`", operation_name(fault.op));
        return Some((message, format!("`{name}` is for {}", names.join(", "))));
    }
    let partly = match fault.kind {
        FaultKind::Crash { bytes: Some(bytes) } => Some(("crash", bytes)),
        FaultKind::PowerLoss { bytes: Some(bytes), .. } => Some(("power-loss", bytes)),
        _ => None,
    };
    // None is before it, whatever it is.
    if let Some((name, bytes)) = partly.filter(|(_, bytes)| *bytes > 0 && fault.op != Op::Write) {
        let message = format!(
            "`{name}={bytes}` cannot happen to `{}`: only a write has bytes",
            operation_name(fault.op)
        );
        return Some((message, format!("write `{name}` without a number, or aim at `write`")));
    }
    if fault.aim.rate.is_some() && (fault.aim.nth != 1 || fault.aim.times != Some(1)) {
        let message = "a fault with `rate=` is not counted: each operation is struck with this probability";
        return Some((message.to_owned(), "remove `nth=` and `times=`, or the `rate=`".to_owned()));
    }
    if fault.aim.at_byte.is_some() && !matches!(fault.op, Op::Any | Op::Read | Op::Write) {
        let message = format!("`at-byte=` cannot aim at `{}`", operation_name(fault.op));
        return Some((message, "only a read or a write covers bytes: `read`, `write`, `any`".to_owned()));
    }
    if fault.pattern.contains('@') && fault.pattern.contains('*') {
        let message = "`@` stands for a segment of one partition, and `*` for whatever is there";
        return Some((message.to_owned(), "name the partition, as in `orders/0/@last.log`".to_owned()));
    }
    paths::path(&fault.pattern).or_else(|| fault.into.as_deref().and_then(paths::path))
}

fn wrong_link(link: &Link) -> Option<(String, String)> {
    let (a, b) = (link.a.as_str(), link.b.as_str());
    let of_broker = (a == BROKER) != (b == BROKER);
    (!of_broker).then(|| {
        let message = format!("`{a}` and `{b}` have no link: each client talks to the broker only");
        (message, "name a client and the broker, as in `partition client broker`".to_owned())
    })
}

fn wrong_surgery(surgery: &Surgery) -> Option<(String, String)> {
    match surgery {
        Surgery::Rename { file, to } if file == to => Some((
            "a file cannot be renamed to the name that it has".to_owned(),
            "say another name after `to=`".to_owned(),
        )),
        Surgery::Corrupt { bytes: 0, .. } | Surgery::Zeros { bytes: 0, .. } => {
            Some(("no byte changes".to_owned(), "say how many after `bytes=`, 1 or more".to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::{Aim, Errno, Keep, When, parse};
    use crate::world::aim::aim;

    #[test]
    fn what_can_be_read_can_be_aimed_and_the_other_way_round() {
        let kinds = [
            FaultKind::Error { errno: Errno::EIO, when: When::Before },
            FaultKind::Tear { bytes: 5 },
            FaultKind::Short { bytes: 5 },
            FaultKind::Full { bytes: 5 },
            FaultKind::Lost,
            FaultKind::Torn { bytes: 5 },
            FaultKind::Misdirect { at: 5 },
            FaultKind::Flip { bit: 5 },
            FaultKind::Unreadable { byte: 5 },
            FaultKind::ReadOnly,
            FaultKind::Drop,
            FaultKind::WritebackError,
            FaultKind::Stall { lasts: Duration::from_secs(1) },
            FaultKind::Crash { bytes: None },
            FaultKind::PowerLoss { bytes: None, keep: Keep::Drawn },
        ];
        for kind in kinds {
            for op in Op::ALL {
                let (aim_at, into) = (Aim::default(), None);
                let fault = Fault { op, pattern: "*".into(), aim: aim_at, kind, into, may_miss: false };
                let disk = faults::Disk::new(faults::Config::default());
                let aimed = disk.aim(aim(&fault, Duration::ZERO)).is_ok();
                assert_eq!(wrong(&Step::Fault(fault)).is_none(), aimed, "{op:?} {kind:?}");
            }
        }
    }

    #[test]
    fn lines_without_sense_are_mistakes_that_say_what_to_do() {
        for (line, words) in [
            ("fault sync \"*\" short=5", "`short` cannot happen to `sync`; `short` is for `read`, `write`"),
            ("each fault sync \"*\" short=\"1 | 2\"", "`short` cannot happen to `sync`"),
            (
                "fault sync \"*.log\" power-loss=5",
                "`power-loss=5` cannot happen to `sync`: only a write has bytes; write `power-loss` without a number",
            ),
            ("fault any \"*\" crash=5", "`crash=5` cannot happen to `any`"),
            ("each fault rename \"*\" power-loss=\"1 | 2\"", "cannot happen to `rename`"),
            ("fault write \"*\" rate=0.5 times=3 error=EIO", "remove `nth=` and `times=`"),
            ("fault sync \"*\" at-byte=5 drop", "`at-byte=` cannot aim at `sync`"),
            ("each fault truncate \"*\" at-byte=\"5 | 6\" error=EIO", "`at-byte=` cannot aim at `truncate`"),
            ("fault write \"*\" rate=0 error=EIO", "a fault with `rate=0` can never strike"),
            ("fault write \"*\" misdirect=-1", "a whole number, 0 or more"),
            (
                "fault write \"*\" misdirect=0 into=\"*.log\"",
                "a write lands in one file, and `*.log` is a pattern; name one",
            ),
            ("fault write \"*\" lost into=\"a\"", "`into=` belongs to `misdirect=`; add `misdirect=0`"),
            ("fault sync \"*\" torn=5", "`torn` cannot happen to `sync`; `torn` is for `write`"),
            ("fault write \"*\" unreadable=5", "`unreadable` is for `read`"),
            ("fault write \"*\" read-only lost", "two things at once"),
            ("partition client client", "`client` and `client` have no link"),
            ("partition a b", "`partition client broker`"),
            ("hold broker broker", "have no link"),
            ("rename \"a\" to=\"a\"", "a file cannot be renamed to the name that it has"),
            ("corrupt \"a\" at=0 bytes=0", "no byte changes"),
            ("zeros \"a\" bytes=0", "no byte changes"),
            ("crash\nclock", "this `clock` changes nothing; say what changes"),
            ("crash\ndisk", "this `disk` changes nothing"),
            ("client a { net; }", "this `net` changes nothing"),
            ("clock at=5 jump=\"1h\"", "`clock` says two things at once; keep one of at, jump"),
            (
                "random steps=5 { weights produce=0 consume=\"0 | 0\"; }",
                "no kind of step has a weight above 0",
            ),
            (
                "random steps=5 { weights produce=4294967295 consume=1; }",
                "the weights may add up to more than 4294967295",
            ),
            ("random steps=5 { weights; }", "no kind of step has a weight above 0"),
            ("random steps=0 { weights produce=1; }", "no step is made"),
            ("sometimes", "`sometimes` needs a state that a sweep must reach"),
            ("repeat 2 { }", "there is nothing in this `repeat`"),
            ("pipeline { }", "there is nothing in this `pipeline`"),
            ("parallel { }", "there is nothing in this `parallel`"),
            ("parallel { client a { advance \"1s\"; }; client b { }; }", "there is nothing in this `client`"),
            ("client a { }", "there is nothing in this `client`"),
            ("advance \"0s\"", "no time passes"),
            ("crash\nclock jump=\"0s\"", "this `clock` changes nothing"),
            ("send hex=\"\"", "no byte is sent"),
            ("send text=\"x\" every=\"5ms\"", "this is sent in one"),
            ("fault write \"orders/*/@last.log\" lost", "`@` stands for a segment of one partition"),
        ] {
            let found = parse("t.kdl", &format!("scenario \"t\"\n{line}\n")).expect_err(line).lines();
            let place = if line.starts_with("crash") { "t.kdl:3:" } else { "t.kdl:2:" };
            assert!(found[0].starts_with(place) && found[0].contains(words), "{line}: {found:?}");
        }
        for line in [
            "clock",
            "random steps=\"0 | 5\" { weights produce=1; }",
            "pipeline { list-topics expect=any; }",
            "send hex=\"\" length=0",
            "crash\neach disk free=\"- | 0\"",
            "fault sync \"*\" crash=0",
            "draw fault write \"*\" rate=\"0 | 5%\" lost",
        ] {
            assert!(parse("t.kdl", &format!("scenario \"t\" seeds=\"0..2\"\n{line}\n")).is_ok(), "{line}");
        }
        let mistakes = parse("t.kdl", "scenario \"t\"\nsometimes \"torn tail cot\"\n").expect_err("unknown");
        assert!(mistakes.lines()[0].contains("did you mean `torn tail cut`?"), "{:?}", mistakes.lines());
    }
}
