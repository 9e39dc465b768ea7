//! Retention: the oldest segments of a partition go, by size or by age. Never the active one.
//!
//! Each segment is removed, and the removal made durable, before the log start offset rises over it: so no crash brings
//! back what was gone, and, since they go one after another from the front, none leaves a gap.
//!
//! A segment's age is counted from its latest record. Two guards keep a wrong clock from doing harm: a segment goes only
//! when two looks in a row find it too old, so that one jump of the clock deletes nothing at once; and a latest record
//! that lies in the future counts from when this process first saw the segment, so that it does not stay for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::disk::{self, Disk};
use crate::error::Error;
use crate::files::{self, Kind};
use crate::partition::{Partition, off_thread};
use crate::segment::Sealed;
use crate::units::{Offset, Timestamp};

/// Segments that the last look found too old, by partition; the next look may delete them.
pub(crate) type Suspects = std::collections::BTreeMap<String, Offset>;

/// Looks at one partition and deletes what may go. `suspects` is kept between looks.
pub(crate) async fn look<D: Disk>(partition: &Partition<D>, suspects: &mut Suspects) -> Result<(), Error> {
    let config = partition.config();
    let now = config.clock.now();
    if config.retention_age.is_some_and(|age| active_is_old(partition, now, age)) {
        // What it holds can go only when it is no longer the active one.
        partition.roll().await?;
    }
    let (by_size, by_age) = {
        let mut state = partition.lock();
        let moment = Instant::now();
        for i in 0..state.sealed.len() {
            let base = state.sealed[i].base;
            state.seen.entry(base).or_insert(moment);
        }
        let sealed = &state.sealed;
        let active = state.active.as_ref().map_or(0, |a| a.position.get());
        let by_size = config.retention_bytes.map_or(0, |keep| over_size(sealed, active, keep));
        let age_of =
            |s: &Sealed| age(s, now, state.seen.get(&s.base).map_or(Duration::ZERO, Instant::elapsed));
        let by_age =
            config.retention_age.map_or(0, |keep| sealed.iter().take_while(|s| age_of(s) > keep).count());
        let end_of = |n: usize| n.checked_sub(1).map_or(state.start, |i| sealed[i].end);
        (end_of(by_size), end_of(by_age))
    };
    let confirmed =
        suspects.insert(config.name.clone(), by_age).map_or(Offset::ZERO, |before| before.min(by_age));
    delete_before(partition, by_size.max(confirmed)).await
}

/// How many segments from the front have to go for the rest to be at most `keep` bytes.
fn over_size(sealed: &[Sealed], active: u64, keep: u64) -> usize {
    let mut total = active + sealed.iter().map(|s| s.bytes).sum::<u64>();
    let goes = |s: &&Sealed| {
        let over = total > keep;
        total -= s.bytes;
        over
    };
    sealed.iter().take_while(goes).count()
}

/// How long ago the segment's latest record was appended.
fn age(sealed: &Sealed, now: Timestamp, seen_for: Duration) -> Duration {
    match sealed.latest {
        Some((latest, _)) if latest <= now => Duration::from_millis(now.millis_since(latest)),
        // In the future, or nothing readable that could say.
        _ => seen_for,
    }
}

fn active_is_old<D: Disk>(partition: &Partition<D>, now: Timestamp, keep: Duration) -> bool {
    let state = partition.lock();
    let latest = state.active.as_ref().and_then(|a| a.meter.latest);
    latest.is_some_and(|(latest, _)| Duration::from_millis(now.millis_since(latest)) > keep)
}

/// Deletes the segments that end at or before `offset`, the oldest first.
async fn delete_before<D: Disk>(partition: &Partition<D>, offset: Offset) -> Result<(), Error> {
    loop {
        let config = partition.config();
        let oldest = partition.lock().sealed.first().copied();
        let Some(sealed) = oldest.filter(|s| s.end <= offset) else { return Ok(()) };
        let path = files::segment_path(&config.dir, sealed.base, Kind::Log);
        let (disk, dir) = (config.disk.clone(), config.dir.clone());
        let deleted = off_thread(&*config.work, move || {
            // The log first: an index without a log is a leftover, a log without an index would be served again.
            disk.remove_file(&files::segment_path(&dir, sealed.base, Kind::Log))?;
            disk::sync_dir(&disk, &dir)?;
            for kind in [Kind::Index, Kind::TimeIndex] {
                files::remove_if_there(&disk, &files::segment_path(&dir, sealed.base, kind))?;
            }
            Ok(())
        })
        .await;
        deleted.map_err(|e: std::io::Error| Error::Storage { path, source: e.into() })?;
        let mut state = partition.lock();
        if state.sealed.first().is_some_and(|s| s.base == sealed.base) {
            state.sealed.remove(0);
        }
        state.seen.remove(&sealed.base);
        state.start = sealed.end;
        config.stats.segments_deleted.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(base: u64, bytes: u64, latest: Option<u64>) -> Sealed {
        let latest = latest.map(|at| (Timestamp::from_millis(at), Offset::new(base)));
        Sealed { base: Offset::new(base), end: Offset::new(base + 10), bytes, latest, entries: 0 }
    }

    #[test]
    fn segments_go_until_the_rest_fits_and_the_active_one_counts_but_stays() {
        let log = [sealed(0, 100, None), sealed(10, 100, None), sealed(20, 100, None)];
        for (keep, goes) in [(u64::MAX, 0), (350, 0), (349, 1), (250, 1), (249, 2), (50, 3), (0, 3)] {
            assert_eq!(over_size(&log, 50, keep), goes, "keep {keep}");
        }
    }

    #[test]
    fn a_record_from_the_future_ages_with_the_process() {
        let now = Timestamp::from_millis(1_000);
        let seen_for = Duration::from_secs(5);
        assert_eq!(age(&sealed(0, 1, Some(400)), now, seen_for), Duration::from_millis(600));
        assert_eq!(age(&sealed(0, 1, Some(u64::MAX)), now, seen_for), seen_for);
        assert_eq!(age(&sealed(0, 1, None), now, seen_for), seen_for);
    }
}
