//! The timeline: a trace for people, one event a line, each in the lane of who did it.

use std::collections::BTreeSet;
use std::fmt::Write;

use faults::Op;

use super::{
    Again, Answer, At, CallId, CrashKind, DiskOp, Entry, Event, Mode, Moment, Placed, Request, Trace,
};
use crate::scenario::syntax::code_name;

/// The entries before a failure, and its own: at most `count`, without the oracle's own questions, of which only that it has
/// looked is said, and without what the disk did that came out well.
pub fn last(trace: &Trace, until: usize, count: usize) -> String {
    let entries = &trace.entries[..trace.entries.len().min(until + 1)];
    let probe = |entry: &Entry| match entry.event {
        Event::Call { id, probe: true, .. } => Some(id),
        _ => None,
    };
    let probes: BTreeSet<CallId> = entries.iter().filter_map(probe).collect();
    let last_look = entries.iter().rposition(|entry| matches!(entry.event, Event::LookEnds { .. }));
    let told = entries.iter().enumerate().filter(|(i, entry)| match &entry.event {
        // The failure itself is told, whatever it is.
        _ if *i == until => true,
        Event::Call { probe, .. } => !probe,
        Event::Answer { id, .. } => !probes.contains(id),
        // A look that has ended says so itself.
        Event::LookBegins => last_look.is_none_or(|last| *i > last),
        event => is_told(event),
    });
    let told: Vec<&Entry> = told.map(|(_, entry)| entry).collect();
    told[told.len().saturating_sub(count)..].iter().map(|entry| line(entry) + "\n").collect()
}

/// Every entry.
pub fn all(trace: &Trace) -> String {
    trace.entries.iter().fold(String::new(), |mut out, entry| {
        let _ = writeln!(out, "{}", line(entry));
        out
    })
}

fn is_told(event: &Event) -> bool {
    match event {
        Event::Disk(op) => {
            let changes = matches!(op.op, Op::Write | Op::Sync | Op::SyncDir | Op::SetLen | Op::Rename);
            op.fault.is_some() || changes
        }
        Event::Said { .. } | Event::Image { .. } | Event::Again { .. } => false,
        _ => true,
    }
}

/// One entry.
pub fn line(entry: &Entry) -> String {
    let (lane, text) = words(&entry.event);
    format!("{:>8} ms  {lane:<8} {text}", entry.at).trim_end().to_owned()
}

fn words(event: &Event) -> (&str, String) {
    match event {
        Event::Step { text, .. } => ("step", text.to_string()),
        Event::Said { fact, .. } => ("step", fact.replace('\n', " | ")),
        Event::Call { client, request, id, .. } => (client, format!("#{} {}", id.0, asked(request))),
        Event::Answer { id, answer } => ("", format!("#{} → {}", id.0, answered(answer))),
        Event::Disk(op) => ("disk", disk(op)),
        Event::Fault { text, path, .. } => {
            ("disk", format!("FAULT {text} {}", path.as_deref().unwrap_or_default()))
        }
        Event::Crash { kind, during } => {
            let how = match kind {
                CrashKind::Process => "CRASH of the process",
                CrashKind::Power => "POWER LOSS",
                CrashKind::Stop => "stopped",
                CrashKind::FailedStop => "CRASH of the process while it stopped:",
            };
            ("broker", format!("{how} {during}"))
        }
        Event::Surgery { path, text } => ("disk", format!("{text} ({path})")),
        Event::Image { moment, image } => {
            ("disk", format!("{}, {}", count(image.0.len() as u64, "file"), moment_in_words(*moment)))
        }
        Event::Starting(starting) => {
            ("broker", format!("starts, durability {}", durability(starting.durability)))
        }
        Event::Started { clean, partitions, notes } => {
            let each = partitions.iter().map(|p| {
                let damage: String = p.damage.iter().map(stretch).collect();
                format!("{}/{}: {}..{}, {} cut{damage}", p.topic, p.partition, p.start, p.end, p.cut)
            });
            let each = each.collect::<Vec<_>>().join("; ");
            let how = if *clean { "after a clean stop" } else { "after no clean stop" };
            ("broker", format!("serves {how}: {each} {}", notes.join("; ")))
        }
        Event::NotStarted { error } => ("broker", format!("does not start: {error}")),
        Event::NotStopped { error } => ("broker", format!("does not stop: {error}")),
        Event::Again { how, .. } => ("oracle", format!("recovered a copy of the disk {}", again(*how))),
        Event::World(world) => ("world", world.to_string()),
        Event::LookBegins => ("oracle", "looks".into()),
        Event::LookEnds { complete: false, .. } => ("oracle", "could not look".into()),
        Event::LookEnds { unseen, .. } => {
            let but = unseen.iter().map(|(topic, partition)| format!(", not at all of {topic}/{partition}"));
            ("oracle", format!("has looked{}", but.collect::<String>()))
        }
        Event::Unmet { expected, found, .. } => {
            ("step", format!("UNMET: expected {expected}, found {found}"))
        }
        Event::Inert { text, struck, due, .. } => {
            ("step", format!("INERT: {text} (struck {struck} of {due} times)"))
        }
        Event::Impossible { text, .. } => ("step", format!("IMPOSSIBLE: {text}")),
        Event::Healed => ("world", "all faults have stopped".into()),
        Event::Ended => ("world", "the end".into()),
        Event::Network { connections_max, connections_left } => {
            ("world", format!("at most {connections_max} connections, {connections_left} left"))
        }
    }
}

fn asked(request: &Request) -> String {
    match request {
        Request::CreateTopic { topic, partitions, .. } => {
            format!("create {topic}, {}", count((*partitions).into(), "partition"))
        }
        Request::DeleteTopic { topic } => format!("delete {topic}"),
        Request::Produce { topic, partition, records } => {
            let to = partition.map_or(String::new(), |p| format!("/{p}"));
            let first = records.first().map_or(String::new(), |r| {
                let key = r.key.as_ref().map_or(String::new(), |k| format!("{} ", short(k)));
                format!("{key}{}", short(&r.value))
            });
            let more =
                if records.len() > 1 { format!(" and {} more", records.len() - 1) } else { String::new() };
            format!("produce {topic}{to} {first}{more}")
        }
        Request::Consume { topic, partition, from, .. } => format!("consume {topic}/{partition} from {from}"),
        Request::Offsets { topic, partition, at } => match at {
            At::Earliest => format!("earliest of {topic}/{partition}"),
            At::Latest => format!("latest of {topic}/{partition}"),
            At::Time(t) => format!("first of {topic}/{partition} at or after {t}"),
        },
        Request::ListTopics => "list topics".into(),
        Request::ListPartitions { topic } => format!("list partitions of {topic}"),
        Request::Raw { bytes } => count(bytes.len() as u64, "raw byte"),
    }
}

/// What an answer says.
pub fn answered(answer: &Answer) -> String {
    match answer {
        Answer::Done => "done".into(),
        Answer::Produced(placed) => {
            let one = |placed: &Placed| match placed {
                Placed::At(partition, offset) => format!("{partition}/{offset}"),
                Placed::Refused(code) => format!("refused {}", code_name(*code)),
                Placed::Unknown => "unknown".into(),
            };
            placed.iter().take(8).map(one).collect::<Vec<_>>().join(" ")
        }
        Answer::Fetched { records, start, end } => {
            let range = match (records.first(), records.last()) {
                (Some(first), Some(last)) => format!("{}..{}", first.offset, last.offset),
                _ => "nothing".into(),
            };
            format!("{range} of {start}..{end}")
        }
        Answer::Offset(found) => {
            found.map_or("none".into(), |(offset, time)| format!("{offset} (time {time})"))
        }
        Answer::Topics(topics) => count(topics.len() as u64, "topic"),
        Answer::Partitions(partitions) => {
            let each = partitions.iter().map(|p| format!("{}: {}..{}", p.number, p.start, p.end));
            each.collect::<Vec<_>>().join(", ")
        }
        Answer::Refused { code, message, .. } => format!("REFUSED {}: {message}", code_name(*code)),
        Answer::Lost { why, .. } => format!("UNKNOWN: {why}"),
    }
}

fn disk(op: &DiskOp) -> String {
    let place = match op.op {
        Op::Read | Op::Write => format!(" {} at {}", count(op.len, "byte"), op.position),
        Op::SetLen => format!(" to {}", op.len),
        _ => String::new(),
    };
    let to = op.to.as_ref().map_or(String::new(), |to| format!(" to {to}"));
    let hit = op.hit.as_ref().map_or(String::new(), |(path, at)| format!(", which hits {path} at {at}"));
    let result = match &op.result {
        Ok(n) if matches!(op.op, Op::Read | Op::Write) && *n != op.len => format!(" = {n}"),
        Ok(_) => String::new(),
        Err(error) => format!(" = {error}"),
    };
    let fault = op.fault.as_ref().map_or(String::new(), |fault| format!("  <- {fault}"));
    // The data directory itself has no path below it.
    let path = if op.path.is_empty() { "." } else { &op.path };
    format!("{} {path}{to}{place}{hit}{result}{fault}", op.op)
}

/// `1 file`, `2 files`.
pub(crate) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A durability, as it is written.
pub fn durability(mode: Mode) -> String {
    match mode {
        Mode::Os => "os".to_owned(),
        Mode::Interval(millis) => format!("interval={millis}ms"),
        Mode::Always => "always".to_owned(),
    }
}

fn moment_in_words(moment: Moment) -> &'static str {
    match moment {
        Moment::Down => "as the broker finds them",
        Moment::Untouched => "before they are changed",
        Moment::Touched => "changed",
        Moment::Recovered => "recovered",
        Moment::Check => "at a look",
    }
}

fn again(how: Again) -> String {
    match how {
        Again::Twice => "twice".to_owned(),
        Again::Killed { operation } => format!("after a recovery that was killed at operation {operation}"),
    }
}

/// A damaged stretch.
fn stretch((file, at, bytes, first, next): &(String, u64, u64, u64, u64)) -> String {
    format!(", {} damaged at {at} of {file} (offsets {first}..{next})", count(*bytes, "byte"))
}

fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let cut: String = text.chars().take(16).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}

#[cfg(test)]
mod tests {
    use crate::{outcome, scenario};

    /// Names are those of the language and of the protocol, not of this program; no line ends in spaces.
    #[test]
    fn the_timeline_speaks_the_words_of_scenarios() {
        let text = "scenario \"t\"\nbroker durability=\"interval=20ms\"\ntopic orders\ncrash\nstart\n\
                    disk free=0\nproduce orders size=9000 expect=STORAGE_FULL\nlist-partitions orders\n";
        let outcome = outcome::run(&scenario::parse("t.kdl", text).expect("it can be read"), 0);
        assert!(outcome.holds(), "{:?}", outcome.failures);
        let shown = super::all(&outcome.trace);
        for words in [
            "durability interval=20ms",
            "REFUSED STORAGE_FULL",
            "create orders, 1 partition\n",
            "sync-dir .\n",
        ] {
            assert!(shown.contains(words), "{words:?} is missing:\n{shown}");
        }
        for leaked in ["StorageFull", "Interval(", "Killed {", "[("] {
            assert!(!shown.contains(leaked), "{leaked:?} is shown:\n{shown}");
        }
        assert!(shown.lines().all(|line| line.trim_end() == line), "{shown}");
    }
}
