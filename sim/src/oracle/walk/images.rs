//! What files hold at the moments that matter: before and after the scenario's own hand, and when a start has come to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::Walk;
use crate::oracle::decode::{self, Piece, Stored};
use crate::oracle::model::{Content, Partition};
use crate::oracle::p06_derived::{self, Complete};
use crate::oracle::paths::{is_log, is_of_the_session, settings_of};
use crate::oracle::{p04_refused_absent, rotten_records};
use crate::trace::{Image, Moment};

impl Walk {
    pub(super) fn image(&mut self, moment: Moment, image: &Arc<Image>) {
        match moment {
            Moment::Untouched => self.untouched = Some(image.clone()),
            Moment::Touched => {
                self.last_stop.touched();
                self.obstacles.changed();
                if let Some(before) = self.untouched.take() {
                    self.touched(&before, image);
                }
            }
            Moment::Recovered => {
                self.logs.are(image);
                p04_refused_absent::deleted(&mut self.findings, &self.model, image);
                self.indexes(image, Complete::Exactly);
            }
            Moment::Check => {
                if let Some(look) = &mut self.look {
                    look.image = Some(image.clone());
                }
                self.indexes(image, Complete::MayLag);
            }
            Moment::Down => self.down(image.clone()),
        }
    }

    /// The files that the next start finds, in the run or beside it.
    pub(crate) fn down(&mut self, image: Arc<Image>) {
        self.gone_bad(&image);
        self.down = Some(image);
    }

    /// Of a log with bytes that are no longer what they were, the records that the next start cannot find any more: they may be
    /// answered by an error, or cut off where they are the last. The others are all there.
    fn gone_bad(&mut self, image: &Image) {
        let topics = self.model.topics.iter();
        let rotten = topics.flat_map(|(topic, known)| {
            let rotten = (0..).zip(&known.partitions).filter(|(_, known)| known.harm.is_rotten());
            rotten.map(move |(number, known)| (topic.clone(), number, known))
        });
        let mut gone: Vec<(Arc<str>, u32, Vec<u64>)> = Vec::new();
        for (topic, number, known) in rotten {
            let record_bytes = |offset| {
                let (key, value) = self.model.content(known.slots.get(&offset)?.id);
                Some(decode::record_bytes(key.as_deref(), &value))
            };
            let offsets = rotten_records::lost(&decode::segments(image, &topic, number), record_bytes);
            gone.push((topic, number, offsets));
        }
        for (topic, number, offsets) in gone {
            let known = self.model.partition_mut(&topic, number);
            if let Some(known) = known {
                known.damaged(&offsets);
                known.harm.rot_seen();
            }
        }
    }

    fn indexes(&mut self, image: &Image, complete: Complete) {
        for (topic, known) in &self.model.topics {
            for partition in 0..u32::try_from(known.partitions.len()).unwrap_or(u32::MAX) {
                p06_derived::files(&mut self.findings, &self.model, topic, partition, image, complete);
            }
        }
    }

    /// The scenario has changed files: what it destroyed may be gone, and what it wrote may be read.
    fn touched(&mut self, before: &Image, after: &Image) {
        let changed = |path: &Arc<str>| before.get(path) != after.get(path);
        let mut paths = before.0.iter().chain(&after.0).map(|file| &file.path);
        self.model.notes_lost |= paths.any(|path| changed(path) && is_of_the_session(path));
        self.taken_away(before, after);
        let starts = self.model.starts;
        for (topic, known) in &mut self.model.topics {
            known.unsettled |= before.get(&settings_of(topic)) != after.get(&settings_of(topic));
            for (number, partition) in (0..).zip(&mut known.partitions) {
                touched((topic, number), partition, (before, after), starts);
            }
        }
    }

    /// A topic of which a hand has left no file is gone; so are its last partitions, where nothing says how many there were.
    fn taken_away(&mut self, before: &Image, after: &Image) {
        let names: Vec<Arc<str>> = self.model.topics.keys().cloned().collect();
        for name in names {
            let Some(left) = before.partitions_left(after, &name) else { continue };
            match self.model.topics.get_mut(&name) {
                Some(topic) if left > 0 => topic.partitions.truncate(left),
                _ => {
                    self.model.topics.remove(&name);
                    self.routing.forget(&name);
                }
            }
        }
    }
}

/// All good records of a partition's files, by offset.
fn good(image: &Image, topic: &str, partition: u32) -> BTreeMap<u64, Content> {
    let mut good = BTreeMap::new();
    for segment in decode::segments(image, topic, partition) {
        for piece in segment.pieces() {
            if let Piece::Record(r) = piece {
                let content = (r.key.map(Bytes::copy_from_slice), Bytes::copy_from_slice(r.value));
                good.entry(r.offset).or_insert(content);
            }
        }
    }
    good
}

/// A record that the scenario's hand has put into a log.
struct New {
    offset: u64,
    content: Content,
    /// Whether no record of its offset can lie there, by which a start may find it contradicting the others.
    misplaced: bool,
    /// Whether one of its offset lay there before.
    same_place: bool,
}

/// The records that the scenario's hand has put into a partition's logs. Of each, a byte is no longer what it was. What lay there
/// before was written by nobody else than the broker, also where it can be seen only now, in the value of a record that was broken.
fn put(before: &Image, after: &Image, topic: &str, partition: u32) -> Vec<New> {
    let mut found = Vec::new();
    for segment in decode::segments(after, topic, partition) {
        let old = before.get(&format!("{}.log", segment.stem));
        let is_new = |r: &Stored<'_>| {
            let [from, to] =
                [r.position, r.position + r.len].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            old.is_none_or(|old| old.get(from..to) != segment.log.get(from..to))
        };
        let lay_there = |r: &Stored<'_>| {
            let at = usize::try_from(r.position).unwrap_or(usize::MAX);
            old.and_then(|old| decode::record_at(old, at)).is_some_and(|old| old.offset == r.offset)
        };
        let new = |r: &Stored<'_>, misplaced| New {
            offset: r.offset,
            content: (r.key.map(Bytes::copy_from_slice), Bytes::copy_from_slice(r.value)),
            misplaced,
            same_place: lay_there(r),
        };
        for piece in segment.pieces() {
            match piece {
                Piece::Record(r) if is_new(&r) => found.push(new(&r, false)),
                Piece::Record(_) => {}
                Piece::Bad { position, len } => {
                    let bytes = (position..position + len).filter_map(|at| usize::try_from(at).ok());
                    let records = bytes.filter_map(|at| decode::record_at(segment.log, at)).filter(is_new);
                    found.extend(records.map(|r| new(&r, true)));
                }
            }
        }
    }
    found
}

/// The same by offset: of several, the first that is in its place, or else the last that is not.
fn written(put: Vec<New>) -> BTreeMap<u64, Content> {
    let (misplaced, placed): (Vec<New>, Vec<New>) = put.into_iter().partition(|new| new.misplaced);
    let mut written = BTreeMap::new();
    written
        .extend(misplaced.into_iter().chain(placed.into_iter().rev()).map(|new| (new.offset, new.content)));
    written
}

fn touched(
    (topic, number): (&str, u32),
    partition: &mut Partition,
    (before, after): (&Image, &Image),
    starts: u32,
) {
    let dir = format!("{topic}/{number}/");
    let files = |image: &Image| -> BTreeMap<Arc<str>, Arc<[u8]>> {
        let inside = image.0.iter().filter(|f| f.path.starts_with(&dir));
        inside.map(|f| (f.path.clone(), f.bytes.clone())).collect()
    };
    let (old, new) = (files(before), files(after));
    let names: BTreeSet<&Arc<str>> = old.keys().chain(new.keys()).collect();
    let changed: Vec<&&Arc<str>> = names.iter().filter(|name| old.get(**name) != new.get(**name)).collect();
    if changed.is_empty() {
        return;
    }
    for path in &changed {
        if let Some((stem, _)) = path.rsplit_once('.') {
            let holds = |end: &str| new.get(&*format!("{stem}.{end}")).is_some_and(|bytes| !bytes.is_empty());
            if (holds("index") || holds("timeindex")) && !new.contains_key(&*format!("{stem}.log")) {
                partition.harm.orphaned();
            }
        }
        partition.indexes.tamper(path, starts);
    }
    if changed.iter().any(|path| is_log(path)) {
        // Nothing is left that says where it ended.
        if !new.keys().any(|path| is_log(path)) {
            partition.harm.orphaned();
        }
        let put = put(before, after, topic, number);
        let (old, new) = (good(before, topic, number), good(after, topic, number));
        // A record that the broker has written contradicts the others where the broker has not put it.
        if put.iter().any(|new| !new.same_place && old.get(&new.offset) == Some(&new.content)) {
            partition.harm.moved();
        }
        let mut planted = written(put);
        planted.retain(|offset, content| old.get(offset) != Some(content));
        partition.touched(|offset| old.get(&offset) != new.get(&offset), planted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ImageFile;

    const LOG: &str = "orders/0/00000000000000000000.log";

    fn image(log: &[u8]) -> Image {
        Image(vec![ImageFile { path: LOG.into(), bytes: log.into() }])
    }

    /// What a broken record lets through of the records in its value, the broker has written: they are not planted, whether their
    /// offset is one that can be there or not.
    #[test]
    fn what_a_hand_has_written_is_planted_and_what_it_only_uncovers_is_not() {
        let records = |offset, value: &[u8]| decode::record(offset, 5, None, value);
        for embedded in [2, 7] {
            let inner = records(embedded, b"inner");
            let log = [records(0, b"zero"), records(1, &inner), records(2, b"two")].concat();
            let outer = records(0, b"zero").len();
            let mut broken = log.clone();
            broken[outer + 20] ^= 1;
            assert!(put(&image(&log), &image(&broken), "orders", 0).is_empty(), "{embedded}");
            broken[outer..outer + inner.len()].copy_from_slice(&inner);
            let planted = written(put(&image(&log), &image(&broken), "orders", 0));
            assert_eq!(planted.into_keys().collect::<Vec<_>>(), [embedded]);
        }
    }

    /// A log that takes the place of another one contradicts what is left; one that is written once more, as it was, does not.
    #[test]
    fn a_record_in_another_place_is_moved_and_one_in_its_own_is_not() {
        const SECOND: &str = "orders/0/00000000000000000002.log";
        let record = |offset, time| decode::record(offset, time, None, format!("value {offset}").as_bytes());
        let first = [record(0, 5), record(1, 5)].concat();
        let second = [record(2, 5), record(3, 5)].concat();
        let image = |logs: &[(&str, &[u8])]| {
            Image(
                logs.iter()
                    .map(|(path, log)| ImageFile { path: (*path).into(), bytes: (*log).into() })
                    .collect(),
            )
        };
        let before = image(&[(LOG, &first), (SECOND, &second)]);
        let at_odds = |after: &Image| {
            let mut known = Partition::default();
            touched(("orders", 0), &mut known, (&before, after), 1);
            known.harm.at_odds()
        };
        for (what, after) in [
            ("copied over the first", image(&[(LOG, &second), (SECOND, &second)])),
            ("copied over the last", image(&[(LOG, &first), (SECOND, &first)])),
            ("renamed over the first", image(&[(LOG, &second)])),
            ("renamed", image(&[(LOG, &first), ("orders/0/00000000000000000009.log", &second)])),
            ("written at the end", image(&[(LOG, &[&first[..], &second].concat()), (SECOND, &second)])),
        ] {
            assert!(at_odds(&after), "{what}");
        }
        let later = [record(0, 5), record(1, 6)].concat();
        for (what, after) in [
            ("with another time", image(&[(LOG, &later), (SECOND, &second)])),
            ("shortened", image(&[(LOG, &record(0, 5)), (SECOND, &second)])),
            ("gone", image(&[(SECOND, &second)])),
        ] {
            assert!(!at_odds(&after), "{what}");
        }
    }
}
