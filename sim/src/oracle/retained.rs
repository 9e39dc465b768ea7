//! P2: retention takes no more than it must. The oldest segment of a partition goes while all of them together are over the bytes
//! that are to be kept, or when all of it is older than the time for which it is to be kept; and none where nothing is to go.
//!
//! A broker counts the age of a segment from the latest time in it, by its own clock; or, where that lies in the future or cannot be
//! read, from when its process first saw the segment.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::decode;
use super::look::name;
use super::model::{Model, Partition, Slot};
use super::paths::is_log;
use super::{Findings, Promise};
use crate::trace::{Image, Millis};

/// How long each log is, as far as the disk has told.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs {
    bytes: BTreeMap<Arc<str>, u64>,
    /// How often any has changed.
    changes: u64,
}

impl Logs {
    /// All logs are those among these files now.
    pub(super) fn are(&mut self, image: &Image) {
        let logs = image.0.iter().filter(|file| is_log(&file.path));
        self.bytes = logs.map(|file| (file.path.clone(), file.bytes.len() as u64)).collect();
        self.changes += 1;
    }

    /// A log was opened, or made.
    pub(super) fn opened(&mut self, path: &Arc<str>) {
        self.written(path, 0);
    }

    /// Bytes were written up to this position.
    pub(super) fn written(&mut self, path: &Arc<str>, end: u64) {
        let bytes = self.bytes.entry(path.clone()).or_default();
        *bytes = (*bytes).max(end);
        self.changes += 1;
    }

    /// A log was cut, or made longer.
    pub(super) fn resized(&mut self, path: &Arc<str>, bytes: u64) {
        self.bytes.insert(path.clone(), bytes);
        self.changes += 1;
    }

    /// A log goes.
    pub(super) fn removed(&mut self, path: &str) {
        self.bytes.remove(path);
        self.changes += 1;
    }

    /// A directory has another name now, and what is in it is no log of anybody's any more.
    pub(super) fn renamed(&mut self, directory: &str) {
        let inside = format!("{directory}/");
        self.bytes.retain(|path, _| !path.starts_with(&inside));
        self.changes += 1;
    }

    /// How often any has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether there is anything in this one.
    pub(super) fn holds_any(&self, path: &str) -> bool {
        self.bytes.get(path).is_some_and(|bytes| *bytes > 0)
    }

    /// How many bytes all logs of a partition have.
    pub(super) fn bytes_of(&self, topic: &str, partition: u32) -> u64 {
        self.of_partition(topic, partition).map(|(_, bytes)| bytes).sum()
    }

    /// Whether one of a partition's logs begins at this offset, as far as anything is known of them.
    pub(super) fn may_begin_at(&self, topic: &str, partition: u32, offset: u64) -> bool {
        let path = format!("{topic}/{partition}/{offset:020}.log");
        self.bytes.contains_key(&*path) || self.of_partition(topic, partition).next().is_none()
    }

    /// The logs of a partition: the base offset and the bytes of each.
    fn of_partition(&self, topic: &str, partition: u32) -> impl Iterator<Item = (u64, u64)> {
        let dir = format!("{topic}/{partition}/");
        let from = self.bytes.range(Arc::<str>::from(dir.as_str())..);
        from.map_while(move |(path, bytes)| {
            let name = path.strip_prefix(&dir)?;
            Some((name.strip_suffix(".log").and_then(decode::base_offset)?, *bytes))
        })
    }
}

/// A log that a broker removes while it serves.
pub(super) struct Removed<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: u32,
    /// Its base offset.
    pub(super) base: u64,
    pub(super) at: Millis,
    /// When the broker's process began to start.
    pub(super) process_began: Millis,
}

/// A broker that serves removes a log. `logs`: all that there are until then.
pub(super) fn removes(f: &mut Findings, model: &Model, logs: &Logs, removed: &Removed<'_>) {
    let &Removed { topic, partition, .. } = removed;
    let Some(known) = model.topics.get(topic).filter(|known| !known.uncertain && !model.lying) else {
        return;
    };
    let keep = known.own.or(model.retention);
    let Some(known) = known.partitions.get(partition as usize) else { return };
    if known.harm.explains_missing_records() {
        return;
    }
    let bytes = logs.bytes_of(topic, partition);
    if keep.bytes.is_some_and(|kept| bytes > kept) {
        return;
    }
    let (expected, found) = match (keep.bytes, keep.age_ms) {
        (_, Some(age)) => {
            let next = logs.of_partition(topic, partition).map(|(base, _)| base).find(|b| *b > removed.base);
            let offsets = removed.base..next.unwrap_or(u64::MAX);
            let Some((offset, most)) = younger(model, known, removed, offsets, age) else { return };
            let expected = format!("offset {offset} stays until it is older than {age} ms");
            (expected, format!("its segment goes when it is no older than {most} ms, of {bytes} bytes"))
        }
        (Some(kept), None) => {
            (format!("all of it: up to {kept} bytes are kept"), format!("a segment goes of {bytes} bytes"))
        }
        (None, None) => ("all of it: nothing is to go".to_owned(), "a segment goes".to_owned()),
    };
    f.broke(Promise::Kept, "removed too soon", name(topic, partition), (expected, found), &[]);
}

/// A record that cannot have become older than `keep`, and how old it is at most.
fn younger(
    model: &Model,
    known: &Partition,
    removed: &Removed<'_>,
    offsets: Range<u64>,
    keep: Millis,
) -> Option<(u64, Millis)> {
    let seen_for = removed.at - removed.process_began;
    let has_no_time = model.broker_clock.has_run_back() || known.harm.may_be_damaged();
    if seen_for > keep && has_no_time {
        return None; // it has aged with the process
    }
    let mut ages = known
        .slots
        .range(offsets)
        .filter(|(_, slot)| !slot.at_risk)
        .filter_map(|(offset, slot)| Some((*offset, most(model, removed, slot)?)));
    ages.find(|(_, most)| *most <= keep)
}

/// How old a record is at most when its segment goes.
fn most(model: &Model, removed: &Removed<'_>, slot: &Slot) -> Option<Millis> {
    let produced = model.produced.get(&slot.id.call)?;
    let is_one_of_many = || model.alike(&produced.topic, &model.content(slot.id)).len() > 1;
    let (began, at) = (removed.process_began, removed.at);
    let (earliest, since) = match slot.timestamp {
        Some(timestamp) => (timestamp, began),
        // Of several records with the same bytes, nobody can say which this one is.
        None if is_one_of_many() => return None,
        None => {
            let (earliest, _) = model.broker_clock.between(produced.at, produced.over.unwrap_or(at))?;
            (earliest, began.max(produced.at))
        }
    };
    let (_, latest) = model.broker_clock.between(since, at)?;
    Some(latest.saturating_sub(earliest))
}
