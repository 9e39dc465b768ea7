//! What came of a step, in the words of a snapshot. Nothing here depends on time, ports or how often the disk was asked.

use crate::scenario::syntax::code_name;
pub(super) use crate::trace::print::count;
use crate::trace::{Answer, Placed, Recovered, Seen};

/// At most so many records are shown one by one.
const SHOWN: usize = 8;
/// At most so many characters of a key or value.
const CHARS: usize = 40;

/// Bytes for people: quoted; what is long is shortened.
pub(super) fn bytes(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.chars().count() <= CHARS {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(16).collect();
    format!("{head:?}… {} bytes", bytes.len())
}

fn record(r: &Seen) -> String {
    let key = r.key.as_ref().map(|key| format!("{} ", bytes(key))).unwrap_or_default();
    format!("{} {key}{}", r.offset, bytes(&r.value))
}

/// Records, and how they end.
pub(super) fn records(records: &[Seen], ending: &str) -> String {
    let mut parts: Vec<String> = if records.len() <= SHOWN {
        records.iter().map(record).collect()
    } else {
        let (first, last) = (&records[0], &records[records.len() - 1]);
        vec![format!("{} … {} ({} records)", record(first), record(last), records.len())]
    };
    if !ending.is_empty() {
        parts.push(ending.to_owned());
    }
    format!("→ {}", parts.join(" · "))
}

/// Where records went: `0/7`, or `0/7..9` for several in a row.
pub(super) fn places(placed: &[(u32, u64)]) -> String {
    let mut runs: Vec<(u32, u64, u64)> = Vec::new();
    let mut sorted = placed.to_vec();
    sorted.sort_unstable();
    for (partition, offset) in sorted {
        match runs.last_mut() {
            Some((p, _, last)) if *p == partition && *last + 1 == offset => *last = offset,
            _ => runs.push((partition, offset, offset)),
        }
    }
    let run = |(p, first, last): &(u32, u64, u64)| {
        if first == last { format!("{p}/{first}") } else { format!("{p}/{first}..{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(" · ")
}

/// How a call went wrong; `None` where it did not.
pub(super) fn trouble(answer: &Answer, crash: Option<&str>) -> Option<String> {
    match answer {
        Answer::Refused { code, .. } => Some(format!("refused {}", code_name(*code))),
        Answer::Lost { .. } => Some(match crash {
            Some(crash) => format!("unknown ({crash})"),
            None => "unknown".to_owned(),
        }),
        _ => None,
    }
}

/// What came of the records of one or several produces.
pub(super) fn produced(answers: &[(Answer, Option<String>)]) -> String {
    let mut placed = Vec::new();
    let mut troubles: Vec<(String, usize)> = Vec::new();
    let mut trouble_is = |text: String| match troubles.last_mut() {
        Some((last, count)) if *last == text => *count += 1,
        _ => troubles.push((text, 1)),
    };
    for (answer, crash) in answers {
        match answer {
            Answer::Produced(each) => {
                for one in each {
                    match one {
                        Placed::At(partition, offset) => placed.push((*partition, *offset)),
                        Placed::Refused(code) => trouble_is(format!("refused {}", code_name(*code))),
                        Placed::Unknown => trouble_is("unknown".to_owned()),
                    }
                }
            }
            other => trouble(other, crash.as_deref()).into_iter().for_each(&mut trouble_is),
        }
    }
    let mut parts = Vec::new();
    if !placed.is_empty() {
        parts.push(places(&placed));
    }
    let times = |(text, n): (String, usize)| if n == 1 { text } else { format!("{text} ({n} times)") };
    parts.extend(troubles.into_iter().map(times));
    format!("→ {}", parts.join(" · "))
}

/// What a start found, partition by partition; of many, those of which there is more to say than a number.
pub(super) fn recovered(partitions: &[Recovered], notes: &[String]) -> String {
    let mut said: Vec<String> = Vec::new();
    let many = partitions.len() > 4;
    let mut plain = (0, 0);
    for p in partitions {
        let more = details(p);
        if many && more.is_empty() {
            plain = (plain.0 + 1, plain.1 + p.end.saturating_sub(p.start));
            continue;
        }
        let records = count(p.end.saturating_sub(p.start), "record");
        let all = std::iter::once(records).chain(more).collect::<Vec<_>>().join(", ");
        said.push(format!("recovered {}/{}: {all}", p.topic, p.partition));
    }
    if plain.0 > 0 {
        said.push(format!("recovered {}: {}", count(plain.0, "partition"), count(plain.1, "record")));
    }
    said.extend(notes.iter().map(|note| format!("note: {note}")));
    if said.is_empty() { "started".to_owned() } else { said.join("\n") }
}

fn details(p: &Recovered) -> Vec<String> {
    let mut more = Vec::new();
    if p.start > 0 {
        more.push(format!("from offset {}", p.start));
    }
    if p.cut > 0 {
        more.push(format!("{} cut", count(p.cut, "byte")));
    }
    if p.set_aside > 0 {
        more.push(format!("{} set aside", count(p.set_aside, "byte")));
    }
    if !p.rebuilt.is_empty() {
        more.push("index rebuilt".to_owned());
    }
    for (file, position, bytes, first, next) in &p.damage {
        let offsets = match next.saturating_sub(*first) {
            0 => "no record".to_owned(),
            1 => format!("offset {first}"),
            _ => format!("offsets {first}..{}", next - 1),
        };
        more.push(format!("damage: {offsets}, {} at {position} of {file}", count(*bytes, "byte")));
    }
    if p.fenced.is_some() {
        more.push("takes no writes".to_owned());
    }
    more.extend(p.notes.iter().map(|note| format!("note: {note}")));
    more
}
