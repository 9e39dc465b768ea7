//! Files for people: each decoded in one line, or record by record. Read by the oracle's decoder, not the broker's.

use std::path::Path;

use super::actor::Actor;
use super::{say, surgery};
use crate::oracle::decode::{self, Piece};
use crate::oracle::paths::is_bookkeeping;
use crate::scenario::Verify;
use crate::trace::Image;
use crate::world::DATA;
use crate::world::disk::WorldDisk;
use crate::world::observe::with_relative_paths;

/// Every file in one line.
pub(super) fn list(image: &Image) -> String {
    let lines = image.0.iter().filter(|f| !is_bookkeeping(&f.path)).map(|file| {
        let what = summary(image, &file.path, &file.bytes);
        format!("{:<46} {:>7} B    {what}", file.path, file.bytes.len())
    });
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    if lines.is_empty() { "none".to_owned() } else { format!("\n{}", lines.join("\n")) }
}

fn stem(path: &str) -> Option<(u64, &str)> {
    let name = path.rsplit('/').next()?;
    let (stem, ending) = name.split_once('.')?;
    Some((decode::base_offset(stem)?, ending))
}

/// What is in a file.
fn summary(image: &Image, path: &str, bytes: &[u8]) -> String {
    match stem(path) {
        Some((base, "log")) => log_summary(&decode::log(bytes, base)),
        Some((base, "index")) => {
            let log = image.get(&path.replace(".index", ".log"));
            let log = log.map(|log| decode::log(log, base)).unwrap_or_default();
            entries(bytes, |(offset, position)| named(&log, offset, position))
        }
        Some((_, "timeindex")) => entries(bytes, |_| Named::Record),
        _ => String::new(),
    }
}

fn log_summary(pieces: &[Piece<'_>]) -> String {
    let offsets: Vec<u64> =
        pieces.iter().filter_map(|p| if let Piece::Record(r) = p { Some(r.offset) } else { None }).collect();
    let bad: Vec<String> = pieces
        .iter()
        .filter_map(|p| match p {
            Piece::Bad { position, len } => Some(format!("{} bad at {position}", say::count(*len, "byte"))),
            Piece::Record(_) => None,
        })
        .collect();
    let range = match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) if first == last => format!("{first}"),
        (Some(first), Some(last)) => format!("{first}..{last}"),
        _ => "empty".to_owned(),
    };
    let (sound, empty) = (bad.is_empty(), offsets.is_empty());
    let state = if sound { "crc ok".to_owned() } else { bad.join(", ") };
    if empty && sound { range } else { format!("{range}   {state}") }
}

/// What an index entry names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// The record of its offset.
    Record,
    /// Bytes that are no record any more: the entry may well be right.
    Damage,
    /// Anything else.
    Nothing,
}

fn named(log: &[Piece<'_>], offset: u64, at: u64) -> Named {
    let found = log.iter().find_map(|piece| match piece {
        Piece::Record(r) if r.offset == offset && r.position == at => Some(Named::Record),
        Piece::Bad { position, len } if (*position..position + len).contains(&at) => Some(Named::Damage),
        _ => None,
    });
    found.unwrap_or(Named::Nothing)
}

fn entries(bytes: &[u8], named: impl Fn((u64, u64)) -> Named) -> String {
    let entries: Vec<Named> =
        decode::entries(bytes).into_iter().map(|entry| entry.map_or(Named::Nothing, &named)).collect();
    let of = |what: Named| entries.iter().filter(|entry| **entry == what).count();
    let (wrong, damaged, over) = (of(Named::Nothing), of(Named::Damage), bytes.len() % decode::ENTRY);
    let count = entries.len();
    let mut text = if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
    if wrong > 0 {
        text += &format!(", {wrong} wrong");
    }
    if damaged > 0 {
        text += &format!(", {damaged} of damaged records");
    }
    if over > 0 {
        text += &format!(", {} over", say::count(over as u64, "byte"));
    }
    text
}

/// One file, or all, record by record and entry by entry.
pub(super) fn dump(image: &Image, file: Option<&str>) -> Result<String, String> {
    let file = file.map(|file| surgery::resolve(image, file)).transpose()?;
    let file = file.as_deref();
    let chosen = image.0.iter().filter(|f| match file {
        Some(file) => f.path.as_ref() == file || f.path.rsplit('/').next() == Some(file),
        None => !is_bookkeeping(&f.path),
    });
    let mut lines = Vec::new();
    for file in chosen {
        lines.push(format!("{}, {}", file.path, say::count(file.bytes.len() as u64, "byte")));
        match stem(&file.path) {
            Some((base, "log")) => lines.extend(decode::log(&file.bytes, base).iter().map(piece)),
            Some((_, "index")) => lines.extend(decode::entries(&file.bytes).iter().map(|e| match e {
                Some((offset, position)) => format!("  offset {offset} at byte {position}"),
                None => "  an entry whose CRC does not fit".to_owned(),
            })),
            Some((_, "timeindex")) => lines.extend(decode::entries(&file.bytes).iter().map(|e| match e {
                Some((_, offset)) => format!("  the latest so far is offset {offset}"),
                None => "  an entry whose CRC does not fit".to_owned(),
            })),
            _ => {}
        }
    }
    match (lines.is_empty(), file) {
        (true, Some(file)) => Err(format!("there is no file {file}")),
        (true, None) => Ok("none".to_owned()),
        (false, _) => Ok(format!("\n{}", lines.join("\n"))),
    }
}

fn piece(piece: &Piece<'_>) -> String {
    match piece {
        Piece::Record(r) => {
            let key = r.key.map_or_else(|| "no key".to_owned(), |key| format!("key {}", say::bytes(key)));
            let value = say::bytes(r.value);
            format!(
                "  {:>6}  offset {}, {}, {key}, value {value}",
                r.position,
                r.offset,
                say::count(r.len, "byte")
            )
        }
        Piece::Bad { position, len } => {
            format!("  {position:>6}  {} that are no record", say::count(*len, "byte"))
        }
    }
}

/// The offline check of the data directory: the broker's own, on the files as they are now. Where a broker runs, they are
/// what it would leave if it were killed.
pub(super) fn verify(actor: &Actor, id: u32, verify: Verify) {
    let boot = actor.stage.host.disk.boot_id();
    let disk = actor.stage.host.disk.snapshot().to_disk(faults::Config::default());
    let disk = WorldDisk::unwatched(disk.process(), boot.into());
    let problems: Vec<String> = match broker::verify::verify(&disk, Path::new(DATA)) {
        Ok(verdict) => verdict.faults.iter().map(|fault| with_relative_paths(&fault.to_string())).collect(),
        Err(e) => return actor.impossible(id, format!("the data directory cannot be looked into: {e}")),
    };
    let count = u32::try_from(problems.len()).unwrap_or(u32::MAX);
    if let Some(expected) = verify.expect_problems.filter(|expected| *expected != count) {
        let colon = if problems.is_empty() { "" } else { ": " };
        let found = format!("{}{colon}{}", say::count(count.into(), "problem"), problems.join("; "));
        actor.unmet(id, say::count(expected.into(), "problem"), found);
    }
    let said = match problems.is_empty() {
        true => "no problems".to_owned(),
        false => format!("\n{}", problems.join("\n")),
    };
    actor.say(id, said);
}
