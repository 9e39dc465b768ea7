//! What a partition's lock protects, and what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::background::{Chore, ToSync};
use super::{Config, Range};
use crate::disk::Disk;
use crate::error::Error;
use crate::markers::Closed;
use crate::recovery::{Hidden, Recovered};
use crate::report::Damage;
use crate::segment::{Active, Sealed};
use crate::settings::Durability;
use crate::synced::SyncedTo;
use crate::units::{Offset, Position};

#[derive(Debug)]
pub(crate) struct State<D: Disk> {
    pub(crate) sealed: Vec<Sealed>,
    pub(crate) active: Option<Active<D::File>>,
    /// The log end offset: of what is written, durable or not.
    pub(crate) end: Offset,
    /// The log start offset. It rises when retention begins to remove a segment, so that nobody is sent to what is going, and
    /// does not go back where the removal fails: what is left of the segment is not read, and goes at a later look.
    pub(crate) start: Offset,
    /// Up to where the log is known to be synced.
    pub(super) durable: Offset,
    pub(super) fenced: Option<String>,
    /// Whether the start has found it so.
    is_found_fenced: bool,
    /// Whether another sync of the log can be believed. A fence for something else does not end syncs: what was acknowledged before
    /// it was to become durable in time.
    pub(super) may_sync: bool,
    /// Whether appends are refused for what the disk says.
    pub(super) refusals: Refusals,
    /// Damage that readers have met, and that was logged.
    pub(super) damage_told: BTreeSet<(Offset, Position)>,
    /// Why it cannot even be read: recovery could not open it.
    pub(super) unopened: Option<String>,
    /// What there is behind the readable end. Who asks for it is told so, and not that the log ends.
    pub(super) hidden: Hidden,
    pub(super) life: Life,
    /// Whether its topic was deleted durably: no restart brings back any of its records.
    pub(super) is_gone_for_good: bool,
    /// Whether it is listed as having blocks of the disk that it can do without.
    pub(super) is_listed: bool,
    /// Whether the background task exists.
    pub(super) busy: bool,
    pub(super) roll: Roll,
    pub(super) sync_wanted: bool,
    /// Bytes appended since the last sync or roll was begun.
    pub(super) unsynced: u64,
    /// Whether a timer for the next interval sync runs.
    pub(super) timer: bool,
    /// Whether what a failed write left has been cut off, and not durably: nothing is appended meanwhile.
    pub(super) cutting: bool,
    pub(super) cut_wanted: bool,
    /// Counts cuts that became durable.
    pub(super) cuts_ended: u64,
    /// Counts rolls that ended, one way or the other; with the error of the last one that failed.
    pub(super) rolls_ended: u64,
    pub(super) roll_failed: Option<(u64, Error)>,
    /// Whether a roll that failed may have left the next segment's log: the active one must not grow past its base.
    pub(super) next_is_there: bool,
    /// Where the last read ended, for the reader that goes on from there.
    pub(super) read_to: Option<(Offset, Position)>,
    /// What recovery found damaged.
    pub(super) damage: Vec<Damage>,
    /// Whether every sealed segment's indexes are complete and synced.
    pub(super) indexes_in_order: bool,
    /// For retention: when each sealed segment was first seen by this process, by base offset.
    pub(crate) seen: BTreeMap<Offset, Instant>,
    /// For retention: up to where the last look found segments too old; the next look may delete them.
    pub(crate) too_old: Offset,
    /// For retention: where the log ended at a look, and when it was first seen to end there.
    pub(crate) idle: Option<(Offset, Instant)>,
    /// The segment whose files retention is removing.
    pub(super) removing: Option<Sealed>,
}

/// How far a partition has come on its way to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// Its topic is being deleted, which may fail still: its files may have lost their names.
    Deleting,
    /// It takes no more writes, and ends what it is at.
    Closing,
    /// Its topic was deleted. What has the names of its files may be another's.
    Deleted,
}

impl Life {
    pub(super) fn is_ending(self) -> bool {
        matches!(self, Life::Closing | Life::Deleted)
    }
}

/// Whether the active segment is to be followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roll {
    No,
    Wanted,
    UnderWay,
}

/// Whether records are refused for what the disk says, and what was told of it.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Why they are.
    pub now: Option<String>,
    /// Whether it was told last that they are.
    pub told: bool,
    /// Whether it was told so lately that it is not told again yet.
    pub pause: bool,
}

impl<D: Disk> State<D> {
    /// As recovery left it.
    pub(super) fn new(recovered: Recovered<D::File>) -> Self {
        let Recovered { sealed, active, end, durable, hidden, indexes_in_order, unopened, report } =
            recovered;
        Self {
            start: report.start,
            sealed,
            active,
            end,
            durable,
            is_found_fenced: report.fenced.is_some(),
            fenced: report.fenced,
            may_sync: true,
            refusals: Refusals::default(),
            damage_told: BTreeSet::new(),
            unopened,
            hidden,
            life: Life::Open,
            is_gone_for_good: false,
            is_listed: false,
            busy: false,
            roll: Roll::No,
            sync_wanted: false,
            unsynced: 0,
            timer: false,
            cutting: false,
            cut_wanted: false,
            cuts_ended: 0,
            rolls_ended: 0,
            roll_failed: None,
            next_is_there: false,
            read_to: None,
            damage: report.damage,
            indexes_in_order,
            seen: BTreeMap::new(),
            too_old: Offset::ZERO,
            idle: None,
            removing: None,
        }
    }

    pub(super) fn writable(&self, name: &str) -> Result<(), Error> {
        match &self.fenced {
            _ if self.life == Life::Deleted => Err(Error::Deleted { partition: name.into() }),
            Some(reason) => Err(Error::Fenced {
                what: name.into(),
                reason: reason.clone(),
                is_found_so: self.is_found_fenced,
            }),
            None if self.life == Life::Closing => Err(Error::ShuttingDown),
            None => Ok(()),
        }
    }

    /// The first reason counts; the others follow from it.
    pub(super) fn fence(&mut self, reason: String) {
        self.fenced.get_or_insert(reason);
    }

    /// The same, where a start finds it so, and the next one does, too.
    pub(super) fn fence_as_found(&mut self, reason: String) {
        self.is_found_fenced |= self.fenced.is_none();
        self.fence(reason);
    }

    pub(super) fn needs_roll(&self, segment_bytes: u64) -> bool {
        self.roll != Roll::No
            || self.next_is_there
            || self.active.as_ref().is_none_or(|a| a.position.get() >= segment_bytes)
    }

    pub(super) fn want_roll(&mut self) {
        if self.roll == Roll::No {
            self.roll = Roll::Wanted;
        }
    }

    pub(super) fn committed(&self, name: &str, end: Offset) -> Result<bool, Error> {
        match &self.fenced {
            _ if self.durable >= end => Ok(true),
            Some(reason) => Err(self.in_doubt(name, reason.clone())),
            None => Ok(false),
        }
    }

    /// What is said of records of which nobody knows whether they are stored. Of a topic that was deleted durably that is
    /// known: what was not yet to be read never will be, and a restart would show nothing.
    pub(super) fn in_doubt(&self, name: &str, reason: String) -> Error {
        match self.is_gone_for_good {
            true => Error::Deleted { partition: name.into() },
            false => Error::OutcomeUnknown { what: name.into(), reason },
        }
    }

    pub(super) fn readable_end(&self, durability: Durability) -> Offset {
        if durability == Durability::Always { self.durable } else { self.end }
    }

    /// Why an offset behind the readable end cannot be told from one that does not exist, where that is so.
    pub(super) fn hidden(&self, config: &Config<D>, offset: Offset) -> Option<Error> {
        let end = self.readable_end(config.durability);
        let is_hidden = match self.hidden {
            Hidden::Nothing => false,
            Hidden::Until(to) => end < to && offset >= end,
            Hidden::Unknown => offset >= end,
        };
        let reason = self.fenced.as_ref().filter(|_| is_hidden)?;
        Some(Error::Unopened {
            what: format!("{} from offset {end} on", config.name),
            reason: reason.clone(),
        })
    }

    pub(super) fn range(&self, config: &Config<D>) -> Result<Range, Error> {
        match &self.unopened {
            _ if self.life == Life::Deleted => Err(Error::Deleted { partition: config.name.clone() }),
            Some(reason) => Err(Error::Unopened { what: config.name.clone(), reason: reason.clone() }),
            None => Ok(Range { start: self.start, end: self.readable_end(config.durability) }),
        }
    }

    /// The first known damage to records that are kept and lie before `end`. What a start of the broker could not read
    /// of a segment may be readable by now: a lookup reads all of such a segment anyway.
    pub(super) fn damage_before(&self, end: Offset) -> Option<Error> {
        let kept = |d: &&Damage| d.first < d.next && d.next > self.start && d.first < end;
        let unread = |d: &Damage| {
            let has_it = |s: &Sealed| s.base <= d.first && d.next <= s.end;
            self.sealed.iter().any(|s| s.latest.is_none() && s.bytes > 0 && has_it(s))
        };
        let damage = self.damage.iter().filter(kept).find(|d| !unread(d))?;
        let Damage { segment, position, first, next, .. } = damage.clone();
        Some(Error::Corrupt { segment, position, offset: first, next })
    }

    pub(super) fn has_chores(&self) -> bool {
        let writes = self.fenced.is_none() && (self.roll == Roll::Wanted || self.cut_wanted);
        writes || self.may_sync && self.sync_wanted
    }

    pub(super) fn next_chore(&mut self) -> Option<Chore<D::File>> {
        if !self.has_chores() {
            return None;
        }
        let may_write = self.fenced.is_none();
        if may_write && std::mem::take(&mut self.cut_wanted) {
            let active = self.active.as_ref()?;
            return Some(Chore::SyncCut { handles: active.handles(), base: active.base });
        }
        self.unsynced = 0;
        if may_write && self.roll == Roll::Wanted {
            self.roll = Roll::UnderWay;
            if let Some(active) = &mut self.active {
                // What cannot be written now is missing from the sealed segment, and `sync_indexes` says so.
                let _ = active.index.flush();
                let _ = active.time_index.flush();
            }
            self.sync_wanted = false;
            return Some(Chore::Roll { old: self.to_sync(), base: self.end });
        }
        self.sync_wanted = false;
        if let Some(active) = &mut self.active {
            active.preallocated.sync_begins();
        }
        self.to_sync().map(Chore::Sync)
    }

    /// The active segment's log, with all that is in it by now.
    fn to_sync(&self) -> Option<ToSync<D::File>> {
        let active = self.active.as_ref()?;
        let mark = SyncedTo { segment: active.base, bytes: active.position, end: self.end };
        Some(ToSync { handles: active.handles(), mark })
    }

    /// What a clean stop records. A start believes of it only what the files are like still.
    pub(super) fn closed(&self, config: &Config<D>) -> Closed {
        let mut segments: Vec<Sealed> =
            self.sealed.iter().copied().chain(self.active.as_ref().map(Active::as_sealed)).collect();
        if self.active.is_none() {
            // The one that the next append makes: none of those before it is to be written on.
            let (base, end) = (self.end, self.end);
            segments.push(Sealed { base, end, bytes: 0, latest: None, entries: 0 });
        }
        Closed { index_interval: config.index_interval, segments }
    }
}
