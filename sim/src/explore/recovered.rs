//! What recoveries have come to. The same image is met at many crash points, and is recovered once; and what different
//! recoveries leave is mostly the same: behind each such result the broker goes on once.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::settings::Settings;
use faults::{Image, Limits};
use fnv::{FnvHashMap, FnvHashSet, FnvHasher};

use super::go_on::go_on;
use super::record::Run;
use super::recover::{self, Found};
use crate::oracle::Broken;

/// What is known of an image by its hash, the run's start that it is recovered like, the name under which the machine was started,
/// and what keeps its disk from taking changes.
type Key = (u128, usize, Arc<str>, Limits);
pub(super) type Known = Arc<Result<Found, String>>;

/// What a recovery has come to: the hash of the files that it left, all else as in a [`Key`], and a hash of what it said.
type Left = (Key, u64);

/// All of them, of one run.
pub(super) struct Recoveries<'a> {
    run: &'a Run,
    known: Mutex<Memory>,
    then: Mutex<FnvHashMap<Left, Option<Box<Broken>>>>,
}

/// Most crash points at which an image is met are close to each other: what was found is forgotten where it grows large, and not
/// that it was.
#[derive(Default)]
struct Memory {
    /// The least depth at which each was met.
    ever: FnvHashMap<Key, Depth>,
    /// Those whose disk had no room for something, or took no changes.
    refused: FnvHashSet<Key>,
    found: FnvHashMap<Key, Known>,
    bytes: usize,
}

/// So much is kept of what recoveries have found.
const MEMORY_BYTES: usize = 256 << 20;

/// Which crash has left an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    /// One of the run.
    Run,
    /// One inside a recovery.
    Recovery,
}

impl Memory {
    /// What is known of an image, which is met at this depth.
    fn look_up(&mut self, key: &Key, depth: Depth) -> Option<Known> {
        let least = self.ever.entry(key.clone()).or_insert(depth);
        *least = depth.min(*least);
        self.found.get(key).cloned()
    }

    fn learn(&mut self, key: Key, found: &Known) {
        let bytes = found.as_ref().as_ref().map_or(0, Found::bytes);
        if found.as_ref().as_ref().is_ok_and(Found::was_refused) {
            self.refused.insert(key.clone());
        }
        if self.bytes + bytes > MEMORY_BYTES {
            (self.found, self.bytes) = (FnvHashMap::default(), 0);
        }
        if self.found.insert(key, found.clone()).is_none() {
            self.bytes += bytes;
        }
    }
}

/// How a machine is started.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// Which of the run's starts it is like.
    pub(super) number: usize,
    /// What with.
    pub(super) settings: Settings,
    /// Its name: another one after each power loss.
    pub(super) boot: Arc<str>,
    /// What keeps its disk from taking changes.
    pub(super) limits: Limits,
}

impl Start {
    /// The key of an image, or of the files that a recovery has left, by their hash.
    fn key(&self, hash: u128) -> Key {
        (hash, self.number, self.boot.clone(), self.limits)
    }
}

impl<'a> Recoveries<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        Self { run, known: Mutex::default(), then: Mutex::default() }
    }

    /// What the broker makes of an image.
    pub(super) fn recovered(&self, image: &Image, hash: u128, start: &Start, depth: Depth) -> Known {
        let key = start.key(hash);
        let known = hold(&self.known).look_up(&key, depth);
        known.unwrap_or_else(|| {
            let found = Arc::new(self.ask(image, start));
            hold(&self.known).learn(key, &found);
            found
        })
    }

    /// How many different ones there were of what a crash of the run left, and how many others of what a crash inside a recovery
    /// left.
    pub(super) fn distinct(&self) -> (u64, u64) {
        let memory = hold(&self.known);
        let of_run = memory.ever.values().filter(|depth| **depth == Depth::Run).count();
        (of_run as u64, (memory.ever.len() - of_run) as u64)
    }

    /// How many of them had no room for something, or could change nothing.
    pub(super) fn refused(&self) -> u64 {
        hold(&self.known).refused.len() as u64
    }

    /// How many different results there were.
    pub(super) fn results(&self) -> usize {
        hold(&self.then).len()
    }

    fn ask(&self, image: &Image, start: &Start) -> Result<Found, String> {
        let (off, boot) = (self.run.off.as_ref(), &start.boot);
        let disk = image.to_disk(faults::Config::new(self.run.profile));
        disk.limit(start.limits);
        let (found, running) = recover::start(&disk, &start.settings, boot.clone(), off)?;
        let failing = image.is_failing();
        if failing {
            // A device that fails may have the broker take nothing.
            return Ok(Found { failing, ..found });
        }
        let left = (start.key(found.left), said(&found));
        let known = hold(&self.then).get(&left).cloned();
        let then = known.unwrap_or_else(|| {
            let restart = || recover::recover(&disk, &start.settings, boot.clone(), off);
            let broken = go_on(&found, running, restart);
            hold(&self.then).insert(left, broken.clone());
            broken
        });
        Ok(Found { then, ..found })
    }
}

/// What a recovery said that it did: two that left the same files may have something else in memory.
fn said(found: &Found) -> u64 {
    let mut hasher = FnvHasher::default();
    (found.clean, &found.said).hash(&mut hasher);
    hasher.finish()
}

pub(super) fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
