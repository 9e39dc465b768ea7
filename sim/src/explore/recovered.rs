//! What recoveries have come to. The same image is met at many crash points, and is recovered once; and what different
//! recoveries leave is mostly the same: behind each such result the broker goes on once.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker::settings::Settings;
use faults::Image;
use fnv::{FnvHashMap, FnvHashSet, FnvHasher};

use super::go_on::go_on;
use super::record::Run;
use super::recover::{self, Found};
use crate::oracle::Broken;

/// What is known of an image by its hash, the run's start that it is recovered like, and the name under which the machine
/// was started.
type Key = (u128, usize, Arc<str>);
pub(super) type Known = Arc<Result<Found, String>>;

/// What a recovery has come to: the hash of the files that it left, start and name as in a [`Key`], and a hash of what it said.
type Left = (u128, usize, Arc<str>, u64);

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
    ever: FnvHashSet<Key>,
    found: FnvHashMap<Key, Known>,
    bytes: usize,
}

/// So much is kept of what recoveries have found.
const MEMORY_BYTES: usize = 256 << 20;

impl Memory {
    /// Whether it is the first time that anything was found there.
    fn learn(&mut self, key: Key, found: &Known) -> bool {
        let bytes = found.as_ref().as_ref().map_or(0, Found::bytes);
        if self.bytes + bytes > MEMORY_BYTES {
            (self.found, self.bytes) = (FnvHashMap::default(), 0);
        }
        if self.found.insert(key.clone(), found.clone()).is_none() {
            self.bytes += bytes;
        }
        self.ever.insert(key)
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
}

impl<'a> Recoveries<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        Self { run, known: Mutex::default(), then: Mutex::default() }
    }

    /// What the broker makes of an image; whether it had to be asked.
    pub(super) fn recovered(&self, image: &Image, hash: u128, start: &Start) -> (Known, bool) {
        let key = (hash, start.number, start.boot.clone());
        if let Some(found) = hold(&self.known).found.get(&key) {
            return (found.clone(), false);
        }
        let found = Arc::new(self.ask(image, start));
        let new = hold(&self.known).learn(key, &found);
        (found, new)
    }

    /// How many different results there were.
    pub(super) fn results(&self) -> usize {
        hold(&self.then).len()
    }

    fn ask(&self, image: &Image, start: &Start) -> Result<Found, String> {
        let (off, boot) = (self.run.off.as_ref(), &start.boot);
        let disk = image.to_disk(faults::Config::new(self.run.profile));
        let (found, running) = recover::start(&disk, &start.settings, boot.clone(), off)?;
        let failing = image.is_failing();
        if failing {
            // A device that fails may have the broker take nothing.
            return Ok(Found { failing, ..found });
        }
        let left = (found.left, start.number, boot.clone(), said(&found));
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

fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
