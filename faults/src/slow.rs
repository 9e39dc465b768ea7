//! Syncs that take their time. A sync covers what was asked for when it began, and nothing of it is certain before it has ended:
//! what comes meanwhile waits for the next one, and who believes a sync that is under way may lose what it was to keep.
//!
//! The disk never sleeps, so it cannot know how long a sync lasts. A program whose syncs are made by jobs of their own tells it when
//! a job was handed over, and when its work and its waiting are over:
//!
//! | | |
//! | --- | --- |
//! | [`Disk::moment`] | when a job is handed over |
//! | [`Disk::begin_job`] | when it is carried out: a sync covers what was there when it was handed over, and its own writes |
//! | [`AtWork::end`] | when it is done, but for the wait; gives the sync that a fault has stalled, where that came last |
//! | [`Disk::finish`] | when the wait is over |
//!
//! A sync that fails drops what it covers, and nothing that has come since; it does so when it is carried out, also where it
//! is stalled.
//!
//! A stalled sync that a job goes on from is over when it does: all of a job happens at one moment. Only a file has slow
//! syncs, and only in a job: what a directory, or anything outside a job, has to keep is durable at once.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::disk::Disk;
use crate::event::{Op, Site};
use crate::machine::{Call, Machine};
use crate::node::{Ino, Seq};
use crate::process::hold;
use crate::state::Change;

/// A place in the order of all changes to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Seq);

/// A sync that has begun and not ended.
#[derive(Debug)]
pub struct Unfinished {
    ino: Ino,
    path: String,
    site: Option<Site>,
    since: Seq,
    boots: u64,
}

/// A job is at work until it has ended, or this is dropped: one that unwinds leaves nothing behind, and no stalled sync of it ends.
#[must_use = "the job ends when this is dropped"]
pub struct AtWork {
    machine: Arc<Mutex<Machine>>,
}

/// The job that is at work.
pub(crate) struct Job {
    handed_over: Seq,
    began: Seq,
    /// Whether a fault stalls the operation that is under way.
    stalls: bool,
    unfinished: Option<Unfinished>,
}

impl Disk {
    /// Now, in the order of all changes.
    pub fn moment(&self) -> Moment {
        Moment(hold(&self.machine).state.seq)
    }

    /// A job that was handed over then is at work from here on.
    pub fn begin_job(&self, handed_over: Moment) -> AtWork {
        let mut machine = hold(&self.machine);
        let began = machine.state.seq;
        machine.job = Some(Job { handed_over: handed_over.0, began, stalls: false, unfinished: None });
        AtWork { machine: self.machine.clone() }
    }

    /// A sync has come to its end. Nothing comes of it where power was lost meanwhile.
    pub fn finish(&self, sync: Unfinished) {
        hold(&self.machine).finish(&sync);
    }
}

impl AtWork {
    /// The job has done all it had to, but for waiting.
    pub fn end(self) -> Option<Unfinished> {
        let job = hold(&self.machine).job.take();
        job.and_then(|job| job.unfinished)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        hold(&self.machine).job = None;
    }
}

impl fmt::Debug for AtWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtWork").finish_non_exhaustive()
    }
}

impl Machine {
    /// Whether a fault stalls what the job at work does next.
    pub(crate) fn stalls(&mut self, stalls: bool) {
        if let Some(job) = &mut self.job {
            job.stalls = stalls;
        }
    }

    /// The job at work goes on: a sync that it waited for is over.
    pub(crate) fn goes_on(&mut self) {
        if let Some(sync) = self.job.as_mut().and_then(|job| job.unfinished.take()) {
            self.finish(&sync);
        }
    }

    /// A file is synced, or will have been.
    pub(crate) fn sync_file(&mut self, call: &Call<'_>, ino: Ino) {
        let (since, boots) = (self.covered_to(ino), self.boots);
        match &mut self.job {
            Some(job) if job.stalls => {
                let (path, site) = (call.path.to_owned(), call.site);
                job.unfinished = Some(Unfinished { ino, path, site, since, boots });
            }
            _ => {
                let all_but = self.state.pending_since(ino, since);
                self.change(call, Change::SyncFile { ino, all_but });
            }
        }
    }

    /// Up to where a sync that begins now covers a file.
    pub(crate) fn covered_to(&self, ino: Ino) -> Seq {
        match &self.job {
            // What the job itself has written comes before its sync, and with it all that lies before that.
            Some(job) if self.state.pending_since(ino, job.began) == 0 => job.handed_over,
            _ => self.state.seq,
        }
    }

    fn finish(&mut self, sync: &Unfinished) {
        if sync.boots == self.boots {
            let call = Call { site: sync.site, ..Call::new(Op::Sync, &sync.path) };
            let all_but = self.state.pending_since(sync.ino, sync.since);
            self.change(&call, Change::SyncFile { ino: sync.ino, all_but });
        }
    }
}
