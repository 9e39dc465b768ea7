//! The timeline: a trace for people, one event a line, each in the lane of who did it.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Answer, At, CallId, CrashKind, DiskOp, Entry, Event, Placed, Request, Trace};

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
            op.fault.is_some() || matches!(op.op, "write" | "sync" | "sync-dir" | "set-len" | "rename")
        }
        Event::Said { .. } | Event::Image { .. } | Event::Again { .. } => false,
        _ => true,
    }
}

/// One entry.
pub fn line(entry: &Entry) -> String {
    let (lane, text) = words(&entry.event);
    format!("{:>8} ms  {lane:<8} {text}", entry.at)
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
            };
            ("broker", format!("{how} {during}"))
        }
        Event::Surgery { path, text } => ("disk", format!("{text} ({path})")),
        Event::Image { moment, image } => ("disk", format!("{} files, {moment:?}", image.0.len())),
        Event::Starting(starting) => ("broker", format!("starts, {:?}", starting.durability)),
        Event::Started { clean, partitions, notes } => {
            let each = partitions.iter().map(|p| {
                let damage =
                    if p.damage.is_empty() { String::new() } else { format!(", damage {:?}", p.damage) };
                format!("{}/{}: {}..{}, {} cut{damage}", p.topic, p.partition, p.start, p.end, p.cut)
            });
            let each = each.collect::<Vec<_>>().join("; ");
            let how = if *clean { "after a clean stop" } else { "after no clean stop" };
            ("broker", format!("serves {how}: {each} {}", notes.join("; ")))
        }
        Event::NotStarted { error } => ("broker", format!("does not start: {error}")),
        Event::Again { how, .. } => ("oracle", format!("recovered a copy of the disk: {how:?}")),
        Event::World { text } => ("world", text.to_string()),
        Event::LookBegins => ("oracle", "looks".into()),
        Event::LookEnds { complete } => {
            ("oracle", if *complete { "has looked" } else { "could not look" }.into())
        }
        Event::Unmet { expected, found, .. } => {
            ("step", format!("UNMET: expected {expected}, found {found}"))
        }
        Event::Inert { text, .. } => ("step", format!("INERT: {text}")),
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
        Request::CreateTopic { topic, partitions, .. } => format!("create {topic}, {partitions} partitions"),
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
        Request::Raw { bytes } => format!("{} raw bytes", bytes.len()),
    }
}

fn answered(answer: &Answer) -> String {
    match answer {
        Answer::Done => "done".into(),
        Answer::Produced(placed) => {
            let one = |placed: &Placed| match placed {
                Placed::At(partition, offset) => format!("{partition}/{offset}"),
                Placed::Refused(code) => format!("refused {code:?}"),
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
        Answer::Topics(topics) => format!("{} topics", topics.len()),
        Answer::Partitions(partitions) => format!("{partitions:?}"),
        Answer::Raw { bytes, closed } => {
            format!("{} bytes{}", bytes.len(), if *closed { ", closed" } else { "" })
        }
        Answer::Refused { code, message, .. } => format!("REFUSED {code:?}: {message}"),
        Answer::Lost { why, .. } => format!("UNKNOWN: {why}"),
    }
}

fn disk(op: &DiskOp) -> String {
    let place = match op.op {
        "read" | "write" => format!(" {} bytes at {}", op.len, op.position),
        "set-len" => format!(" to {}", op.len),
        _ => String::new(),
    };
    let to = op.to.as_ref().map_or(String::new(), |to| format!(" to {to}"));
    let result = match &op.result {
        Ok(n) if matches!(op.op, "read" | "write") && *n != op.len => format!(" = {n}"),
        Ok(_) => String::new(),
        Err(error) => format!(" = {error}"),
    };
    let fault = op.fault.as_ref().map_or(String::new(), |fault| format!("  <- {fault}"));
    format!("{} {}{to}{place}{result}{fault}", op.op, op.path)
}

fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let cut: String = text.chars().take(16).collect();
    if cut.len() < text.len() { format!("{cut:?}…") } else { format!("{cut:?}") }
}
