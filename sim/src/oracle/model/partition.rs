//! One partition, as far as clients know: what each offset names, and what may be wrong with its files.

use std::collections::{BTreeMap, BTreeSet};

use super::durable::Durable;
use super::failures::{Causes, Failures};
use super::harm::Harm;
use super::indexes::Indexes;
use super::last_seen::LastSeen;
use super::stalls::Stalls;
use super::{Content, RecordId};
use crate::trace::{Millis, Mode};

/// What an offset names.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The record.
    pub id: RecordId,
    /// Whether it was acknowledged (and not only read).
    pub acknowledged: bool,
    /// When it was acknowledged or first read.
    pub at: Millis,
    /// The durability mode at that time.
    pub durability: Mode,
    /// When the broker says it was appended, once a read has told.
    pub timestamp: Option<u64>,
    /// The sync that should have made it durable has failed.
    pub doubtful: bool,
    /// A power loss inside the loss window may have taken it.
    pub at_risk: bool,
    /// The scenario, or a lying disk, has destroyed it; a read may say so, and must not give other bytes.
    pub damaged: bool,
}

impl Slot {
    /// Whether it may be gone by now.
    pub fn may_be_gone(&self) -> bool {
        self.at_risk || self.damaged
    }

    /// Whether it has to be there as long as its partition is in order.
    pub fn is_promised(&self) -> bool {
        !(self.may_be_gone() || self.doubtful)
    }

    /// Whether it was promised to survive a power loss now: the table is in `p02_kept`.
    fn survives(&self, is_synced: bool, slack: Millis, now: Millis) -> bool {
        match self.durability {
            Mode::Always => true,
            Mode::Os => is_synced,
            Mode::Interval(window) => {
                is_synced || self.at.saturating_add(window).saturating_add(slack) <= now
            }
        }
    }
}

/// One partition.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// What each offset names.
    pub slots: BTreeMap<u64, Slot>,
    /// How far its log is known to be durable.
    pub durable: Durable,
    /// What has been done to its log.
    pub harm: Harm,
    /// What has failed under it since the last start.
    pub failures: Failures,
    /// What its indexes prove.
    pub indexes: Indexes,
    /// How long the disk was stalled under it.
    pub stalls: Stalls,
    /// What was found when all of it was last seen.
    pub last_seen: LastSeen,
    /// The first offset that there is, as far as the running broker has told.
    pub start: u64,
}

impl Partition {
    /// The broker begins to start: what failed before is no excuse any more.
    pub fn start_begins(&mut self) {
        self.failures.forget();
        self.indexes.forget_failures();
        self.durable.start_begins();
    }

    /// The disk has lied about its log.
    pub fn lied(&mut self) {
        self.harm.lied();
        self.last_seen.disturb();
    }

    /// Bytes of its log have changed by themselves.
    pub fn rotted(&mut self) {
        self.harm.rotted();
        self.last_seen.disturb();
    }

    /// A sector of its log cannot be read any more.
    pub fn unreadable(&mut self) {
        self.harm.unreadable();
        self.last_seen.disturb();
    }

    /// The records at these offsets are no longer what they were.
    pub fn damaged(&mut self, offsets: &[u64]) {
        for offset in offsets {
            self.slots.get_mut(offset).into_iter().for_each(|slot| slot.damaged = true);
        }
    }

    /// The scenario has changed its log: of these offsets, the records are no longer what they were; and these are new.
    pub fn touched(&mut self, is_damaged: impl Fn(u64) -> bool, planted: BTreeMap<u64, Content>) {
        self.harm.hurt();
        self.last_seen.disturb();
        for (&offset, slot) in &mut self.slots {
            slot.damaged |= is_damaged(offset);
        }
        planted.into_iter().for_each(|(offset, content)| self.harm.planted(offset, content));
    }

    /// The lights went out: what was not promised to survive that may be gone. `slack`: how much longer than the interval a
    /// sync may take to come where nothing stalls it. `lying`: whether syncs may be lies.
    pub fn lost_power(&mut self, slack: Millis, lying: bool, now: Millis) {
        self.harm.shaken();
        if self.durable.is_failure_forgotten() {
            self.harm.hurt();
        }
        self.last_seen.disturb();
        let unreliable = lying || self.harm.is_lied_about();
        for (&offset, slot) in &mut self.slots {
            let is_synced = self.durable.covers(offset);
            let in_doubt = slot.doubtful && !is_synced;
            let slack = slack.saturating_add(self.stalls.since(slot.at));
            slot.at_risk |= unreliable || in_doubt || !slot.survives(is_synced, slack, now);
        }
    }

    /// The broker has gone down, and has left this one closed since: what it had not synced then, it has not.
    pub fn left_unsynced(&mut self, slack: Millis, went_down: Millis) {
        for (&offset, slot) in &mut self.slots {
            let slack = slack.saturating_add(self.stalls.since(slot.at));
            slot.doubtful |= !slot.survives(self.durable.covers(offset), slack, went_down);
        }
    }

    /// Clean pages have left the cache, and with them what a failed sync or a lying disk has dropped: nobody can read it any more.
    pub fn caches_dropped(&mut self, starts: u32) {
        self.indexes.caches_dropped(starts);
        // Also what a sync has covered since: that was the lie.
        let lied = self.harm.is_lied_about();
        if !lied && !self.durable.has_failed() {
            return;
        }
        self.harm.hurt();
        self.last_seen.disturb();
        for (&offset, slot) in &mut self.slots {
            slot.damaged |= lied || (slot.doubtful && !self.durable.covers(offset));
        }
    }

    /// A sync of its log has failed at this entry of the trace: what it should have made durable may be gone after a power loss.
    /// Also what was called by then, and whose answer comes later: see [`Durable::was_written_before_a_failure`].
    pub fn sync_failed(&mut self, entry: usize) {
        self.durable.sync_failed(entry);
        for (_, slot) in self.slots.range_mut(self.durable.end()..) {
            slot.doubtful |= slot.durability != Mode::Always;
        }
    }

    /// What was written to one of its files, or above it, has not been written back, as the next sync will say.
    pub fn troubled(&mut self) {
        self.failures.failed(Causes { sync: true, ..Causes::default() });
        self.failures.may_fence();
        self.last_seen.disturb();
    }

    /// A clean stop has synced it. One that takes no writes is left as it is: what kept it from being opened may keep it from
    /// being synced.
    pub fn stopped(&mut self) {
        if !self.failures.may_stop_writes() {
            self.durable.stopped(self.slots.last_key_value().map_or(0, |(offset, _)| offset + 1));
        }
    }

    /// Whether a failed sync leaves it open if this record is durable: what came after that has synced it since, or not.
    pub fn doubts(&self, offset: u64, slot: &Slot) -> bool {
        slot.doubtful && !self.durable.covers(offset)
    }

    /// Whether the disk may fail under it: it has since the last start, and not only for want of room, or has a sector that
    /// cannot be read.
    pub fn may_fail(&self) -> bool {
        self.harm.is_unreadable() || self.failures.allow_a_fence()
    }

    /// Whether the log may not have been copied that a failed sync wants copied, for want of room: it takes no writes then.
    pub fn may_lack_its_copy(&self) -> bool {
        self.durable.is_left_to_copy() && self.failures.has_any()
    }

    /// Whether nothing of it may be served until there is room for that copy: how far the log was synced is noted beside it, and
    /// a power loss may have taken the note.
    pub fn may_wait_for_its_copy(&self) -> bool {
        self.may_lack_its_copy() && self.harm.is_shaken()
    }

    /// Whether it may hide the end of its log until the next start, having been fenced because that could not be read, synced or
    /// copied.
    pub fn may_hide_its_end(&self) -> bool {
        self.failures.left_it_fenced() && (self.may_fail() || self.may_wait_for_its_copy())
    }

    /// The log ends at `end` now: what was promised beyond it is no longer.
    pub fn ends_at(&mut self, end: u64) {
        self.durable.ends_at(end);
        self.last_seen.ends_at(end);
    }

    /// All of it was seen after this start, up to `end`, but for what could not be read. Where the disk has failed, or lied, a
    /// start may hide what it could not read or sync until the next one.
    pub fn seen(&mut self, start: u32, end: u64, unread: BTreeSet<u64>) {
        if !self.harm.is_deceptive() && !self.failures.allow_a_fence() {
            self.last_seen.seen(start, end, unread);
        }
    }

    /// Another record was found at `offset`, whose old one a crash may have taken: it has taken all behind it too. Gives
    /// the records that are gone.
    pub fn replaced_from(&mut self, offset: u64) -> Vec<RecordId> {
        self.ends_at(offset);
        let gone: Vec<u64> = self.slots.range(offset..).filter(|(_, s)| s.at_risk).map(|(o, _)| *o).collect();
        gone.iter().filter_map(|o| self.slots.remove(o)).map(|slot| slot.id).collect()
    }
}
