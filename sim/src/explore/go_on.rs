//! What comes after a recovery: each partition that takes writes is given a record; where there is no room for it, once more as
//! soon as there is some. It has to put it under the offset that it said comes next, and still to have it, and all that was there
//! before, after the process has died and the broker has recovered once more.
//!
//! A recovery that reads well can leave a broker that writes badly: a position that is one byte off, or the remnant of a cut that
//! the next record does not cover. Nothing of it depends on what clients know, so it is tried once for each thing that a
//! recovery comes to.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use broker::batch::Batch;
use broker::error::{Code, Error};
use broker::partition::{Appended, Partition};
use faults::{Disk, Limits};

use super::recover::{Found, Running, read};
use crate::oracle::look::{PartitionLook, name};
use crate::oracle::{Broken, Promise};
use crate::scenario::{Content, Expect, Produce, Step};
use crate::trace::{Recovered, TopicPartition};
use crate::world::disk::WorldDisk;

/// What is appended.
const KEY: &[u8] = b"after";
const VALUE: &[u8] = b"the recovery";

/// What these violations are called.
const KINDS: [&str; 7] = [
    "does not start again",
    "takes nothing more",
    "not at the end",
    "not what was appended",
    "range not gone on with",
    "not gone on with",
    "cut again",
];

/// Whether it was found behind a recovery.
pub(super) fn is_its_own(broken: &Broken) -> bool {
    KINDS.contains(&broken.kind)
}

/// The step of a scenario that does what was done here, to the partition that a violation is about.
pub(super) fn appends(broken: &Broken) -> Option<Step> {
    let (topic, number) = broken.what.rsplit_once('/')?;
    let text = |bytes: &[u8]| Content::Text(String::from_utf8_lossy(bytes).into_owned());
    Some(Step::Produce(Produce {
        topic: topic.to_owned(),
        partition: Some(number.parse().ok()?),
        key: Some(text(KEY)),
        value: text(VALUE),
        expect: Expect::Any,
        ..Produce::default()
    }))
}

type Looks = BTreeMap<TopicPartition, PartitionLook>;

/// Appends to what was recovered, and recovers once more, with `restart`; gives the first thing that is wrong.
pub(super) fn go_on(
    first: &Found,
    running: Running<'_>,
    restart: impl FnOnce() -> Result<Found, String>,
) -> Option<Box<Broken>> {
    let took = append_to_all(first, running);
    let judged = took.and_then(|took| match restart() {
        Err(why) => {
            let expected = "the broker starts after an append and a crash of the process".to_owned();
            Err(broken(Promise::Live, "does not start again", "the broker".into(), expected, why))
        }
        Ok(second) => kept(&took, &second),
    });
    judged.err()
}

/// What each partition that took a record serves then.
fn append_to_all(first: &Found, running: Running<'_>) -> Result<Looks, Box<Broken>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without a driver for I/O asks nothing of the system");
    let (mut took, disk) = (Looks::new(), running.disk);
    for (topic, number, partition) in running.partitions() {
        let place = (topic, number);
        let Some(before) = first.look.partitions.get(&place) else { continue };
        if partition.fenced().is_some() || !before.ranged || before.hides {
            continue;
        }
        if let Some(after) = runtime.block_on(append(&name(&place.0, number), &partition, disk, before))? {
            took.insert(place, after);
        }
    }
    drop(running); // before what the runtime still holds of the broker: its process dies with all of it under way
    Ok(took)
}

/// Appends a record.
async fn produce(partition: &Partition<WorldDisk>) -> Result<Appended, Error> {
    let mut batch = Batch::new();
    batch.push(Some(KEY), VALUE);
    let appended = match partition.append(&mut batch).await {
        Ok(appended) => partition.committed(appended.end).await.map(|()| appended),
        failed => failed,
    };
    partition.idle().await;
    appended
}

/// Appends a record to a partition, where there is no room for it as soon as there is some, and looks at all of it again; none
/// where there is a directory where the next segment should be: nobody but a person puts one there, and it goes when that
/// person takes it away.
async fn append(
    what: &str,
    partition: &Partition<WorldDisk>,
    disk: &Disk,
    before: &PartitionLook,
) -> Result<Option<PartitionLook>, Box<Broken>> {
    let mut appended = produce(partition).await;
    if appended.as_ref().is_err_and(|e| e.code() == Code::StorageFull) && !disk.limits().are_none() {
        disk.limit(Limits::default());
        appended = produce(partition).await;
    }
    let appended = match appended {
        Ok(appended) => appended,
        Err(Error::Storage { source, .. }) if source.kind() == ErrorKind::IsADirectory => return Ok(None),
        Err(e) => {
            let expected = "it takes a record after the recovery".to_owned();
            return Err(broken(Promise::Live, "takes nothing more", what.into(), expected, e.to_string()));
        }
    };
    if appended.base.get() != before.end {
        let expected = format!("the first record after the recovery gets offset {}, the end", before.end);
        let found = format!("it has got {}", appended.base.get());
        return Err(broken(Promise::Dense, "not at the end", what.into(), expected, found));
    }
    let after = read(partition);
    match after.records.get(&before.end) {
        Some(seen) if seen.key.as_deref() == Some(KEY) && seen.value == VALUE => {}
        seen => {
            let expected = format!("offset {} is the record that was appended there", before.end);
            let found = seen.map_or_else(|| "it cannot be read".to_owned(), |seen| format!("{seen:?}"));
            return Err(broken(Promise::NeverWrong, "not what was appended", what.into(), expected, found));
        }
    }
    let mut all = before.clone();
    all.end += 1;
    all.records.extend(after.records.get(&before.end).map(|seen| (seen.offset, seen.clone())));
    same(what, &all, &after, "after an append behind the recovery").map(|()| Some(after))
}

/// The next recovery finds all of it, and nothing to cut off.
fn kept(took: &Looks, second: &Found) -> Result<(), Box<Broken>> {
    for (place, served) in took {
        let what = name(&place.0, place.1);
        let nothing = PartitionLook::default();
        let found = second.look.partitions.get(place).unwrap_or(&nothing);
        same(&what, served, found, "after a recovery, an append and a crash of the process")?;
        let of_place = |said: &&Recovered| (&said.topic, said.partition) == (&place.0, place.1);
        let said = second.said.iter().find(of_place);
        if let Some(said) = said.filter(|said| said.cut > 0 || said.set_aside > 0) {
            let expected = "what was written after a recovery is whole".to_owned();
            let found = format!("{} bytes are cut off, {} set aside", said.cut, said.set_aside);
            return Err(broken(Promise::Idempotent, "cut again", what, expected, found));
        }
    }
    Ok(())
}

fn same(what: &str, expected: &PartitionLook, found: &PartitionLook, when: &str) -> Result<(), Box<Broken>> {
    let range = |look: &PartitionLook| format!("the log is {} to {} {when}", look.start, look.end);
    if (expected.start, expected.end) != (found.start, found.end) || !found.ranged {
        return Err(broken(
            Promise::Dense,
            "range not gone on with",
            what.into(),
            range(expected),
            range(found),
        ));
    }
    let offsets = expected.start..expected.end;
    let differs = |offset: &u64| {
        let error = |look: &PartitionLook| look.errors.contains_key(offset);
        expected.records.get(offset) != found.records.get(offset) || error(expected) != error(found)
    };
    let known = expected.records.keys().chain(expected.errors.keys()).chain(found.errors.keys());
    let Some(offset) = known.copied().filter(|offset| offsets.contains(offset)).find(differs) else {
        return Ok(());
    };
    let show = |look: &PartitionLook| match look.records.get(&offset) {
        Some(seen) => format!("offset {offset} is {seen:?} {when}"),
        None => format!("offset {offset} cannot be read {when}: {:?}", look.errors.get(&offset)),
    };
    Err(broken(Promise::Kept, "not gone on with", what.into(), show(expected), show(found)))
}

fn broken(
    promise: Promise,
    kind: &'static str,
    what: String,
    expected: String,
    found: String,
) -> Box<Broken> {
    Box::new(Broken { promise, kind, what, expected, found, entry: 0, because: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::super::record::Run;
    use super::super::recover::{recover, start};
    use super::super::report::{Choice, Point};
    use super::*;
    use crate::scenario::syntax::parse;

    const LOG: &str = "/data/orders/0/00000000000000000000.log";

    /// What is found where `before` has a wrong idea of the recovered log, and `between` changes the disk before the next.
    fn tried(before: impl FnOnce(&mut Found), between: impl FnOnce(&faults::Disk)) -> Option<&'static str> {
        let text = "scenario \"t\"\ntopic orders\nproduce orders value=\"a\"\nproduce orders value=\"b\"";
        let run = Run::new(&parse("t", text).expect("a scenario"), 0, None).expect("it runs");
        let point = Point { steps: run.len, bytes: None, choice: Choice::Process };
        let disk = run.image(point).expect("a crash point").to_disk(faults::Config::default());
        let (settings, boot) = (run.settings_at(point.steps), run.boot(point));
        let (mut found, running) = start(&disk, &settings, boot.clone(), None).expect("it starts");
        before(&mut found);
        let restart = || {
            between(&disk);
            recover(&disk, &settings, boot, None)
        };
        go_on(&found, running, restart).map(|broken| broken.kind)
    }

    #[test]
    fn a_sound_broker_goes_on() {
        assert_eq!(tried(|_| (), |_| ()), None);
    }

    #[test]
    fn a_record_under_another_offset_than_the_end_is_noticed() {
        let further = |found: &mut Found| found.look.partitions.values_mut().for_each(|look| look.end += 1);
        assert_eq!(tried(further, |_| ()), Some("not at the end"));
    }

    #[test]
    fn what_the_next_recovery_does_not_find_is_noticed() {
        let cut = |disk: &faults::Disk| {
            let len = disk.seen(LOG).expect("a log").len() as u64;
            disk.truncate(LOG, len - 1).expect("it is cut");
        };
        assert_eq!(tried(|_| (), cut), Some("range not gone on with"));
    }

    #[test]
    fn a_remnant_behind_what_was_appended_is_noticed() {
        let more = |disk: &faults::Disk| {
            let bytes = [disk.seen(LOG).expect("a log"), b"remnant".to_vec()].concat();
            disk.put(LOG, &bytes).expect("it is longer");
        };
        assert_eq!(tried(|_| (), more), Some("cut again"));
    }
}
