//! Retention: the oldest segments of a partition go, by size or by age. Never the last one.
//!
//! The log start offset rises over a segment when its removal begins: who asks for the first offset is never sent to one that is
//! going. While the broker runs it does not go back, whatever comes of the removal; a crash in the middle of one may bring the
//! segment back. Each removal is made durable before the next begins, from the front, so none leaves a gap.
//!
//! A segment's age is counted from its latest record. Two guards keep a wrong clock from doing harm: a segment goes only
//! when two looks in a row find it too old, so that one jump of the clock deletes nothing at once; and a latest record
//! that lies in the future counts from when this process first saw the segment, so that it does not stay for ever.
//!
//! A partition whose directory could not be synced after a removal is fenced, and no more of it goes: the removal of a later
//! segment could become durable before this one's, and a power loss would leave a gap.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::disk::Disk;
use crate::files::{self, Kind};
use crate::partition::Partition;
use crate::segment::{self, Active, Removed, Sealed};
use crate::units::{Offset, Timestamp};
use crate::work::off_thread;

/// So many partitions are looked at at the same time.
const LOOKED_AT_ONCE: usize = 4;

/// The looks that are under way, by the partition's name. A disk that hangs keeps one at that, and not the others: they may lie on
/// another disk. But where it is so with [`LOOKED_AT_ONCE`] of them, all wait: each takes a thread from those that sync.
///
/// Those that are under way when this is dropped come to their end all the same: a stop waits for that.
#[derive(Default)]
pub(crate) struct Looks {
    names: BTreeSet<String>,
    ends: FuturesUnordered<BoxFuture<'static, String>>,
}

impl Looks {
    /// Begins to look at a partition, unless that is under way; waits where too many are.
    pub async fn begin<D: Disk>(&mut self, partition: &Partition<D>) {
        while let Some(Some(ended)) = self.ends.next().now_or_never() {
            self.names.remove(&ended);
        }
        if self.names.contains(partition.name()) {
            return;
        }
        if self.names.len() == LOOKED_AT_ONCE
            && let Some(ended) = self.ends.next().await
        {
            self.names.remove(&ended);
        }
        let (name, partition) = (partition.name().to_owned(), partition.clone());
        self.names.insert(name.clone());
        // A task for each: a panic is the end of its partition (see `OnPanic`), and not of looking after the others.
        let looked = tokio::spawn(async move { look(&partition).await });
        self.ends.push(looked.map(|_| name).boxed());
    }
}

/// Looks at one partition and deletes what may go.
async fn look<D: Disk>(partition: &Partition<D>) {
    let config = partition.config();
    let now = config.clock.now();
    if config.retention_age.is_some_and(|age| last_is_old(partition, now, age)) {
        // What it holds can go only when it is no longer the active one. Where no new one can be made, on a full disk for
        // one, the sealed ones go all the same: that makes room.
        let _ = partition.roll().await;
    }
    let upto = {
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
        let (by_size, by_age) = (end_of(by_size), end_of(by_age));
        let confirmed = std::mem::replace(&mut state.too_old, by_age).min(by_age);
        by_size.max(confirmed)
    };
    delete_before(partition, upto).await;
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

/// Whether the last segment is too old, and holds something. It is the active one, unless a start has found it damaged.
fn last_is_old<D: Disk>(partition: &Partition<D>, now: Timestamp, keep: Duration) -> bool {
    let mut state = partition.lock();
    let active = state.active.as_ref().map(Active::as_sealed);
    let is_empty = active.is_some_and(|active| active.latest.is_none());
    let Some(last) = active.or_else(|| state.sealed.last().copied()) else { return false };
    // Where its latest record lies in the future, it counts since when nothing more came.
    let idle_since = match state.idle {
        Some((at, since)) if at == last.end => since,
        _ => state.idle.insert((last.end, Instant::now())).1,
    };
    !is_empty && age(&last, now, idle_since.elapsed()) > keep
}

/// Deletes the segments that end at or before `offset`, the oldest first.
async fn delete_before<D: Disk>(partition: &Partition<D>, offset: Offset) {
    while let Some(oldest) = partition.begin_removal(offset) {
        let config = partition.config();
        let (disk, dir, home) = (config.disk.clone(), config.dir.clone(), config.home.clone());
        let remove = move || match home.check() {
            Ok(()) => segment::remove(&disk, &dir, oldest.base),
            Err(e) => Removed::Not(e),
        };
        let _guard = partition.watch_removal();
        let removed = off_thread(&*config.work, remove).await;
        partition.end_removal(oldest, &removed);
        match removed {
            Removed::Gone => config.stats.segments_deleted.add(1),
            // Its topic goes, and has taken the segment with it.
            Removed::Not(e) if e.kind() == io::ErrorKind::NotFound && partition.is_being_deleted() => return,
            Removed::Not(e) => {
                let (name, path) = (&config.name, files::segment_path(&config.dir, oldest.base, Kind::Log));
                let path = path.display();
                tracing::warn!(
                    "{name}: {path} has to go and cannot be removed; tried again at the next look: {e}"
                );
                return;
            }
            // It is fenced for it.
            Removed::InDoubt(_) => return,
        }
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
