//! The machine that the disk is in: processes, their descriptors and locks, and the one path every operation takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fnv::FnvHashMap;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::config::Config;
use crate::errno::Errno;
use crate::event::{Death, Event, Op, Progress, Site, Struck};
use crate::fault::{Cut, FaultId, Faults, Keep, Kind, Target};
use crate::history::Recording;
use crate::legal::Certain;
use crate::limits::Limits;
use crate::node::Ino;
use crate::state::{Change, State};

/// What a process and its handles share.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) id: u64,
    pub(crate) dead: AtomicBool,
    pub(crate) death: OnceLock<Death>,
}

/// An open file description.
pub(crate) struct Descriptor {
    pub(crate) ino: Ino,
    pub(crate) writable: bool,
    pub(crate) owner: u64,
    /// The file's present name, or its last one.
    pub(crate) path: Arc<str>,
    /// How many of the file's writeback errors its owner has been told of.
    pub(crate) errors_seen: u64,
}

pub(crate) type Observer = Box<dyn FnMut(&Event<'_>) + Send>;

pub(crate) struct Machine {
    pub(crate) config: Config,
    pub(crate) state: State,
    pub(crate) descriptors: FnvHashMap<u64, Descriptor>,
    pub(crate) next_descriptor: u64,
    /// Which lock (by descriptor number) holds a directory.
    pub(crate) locks: BTreeMap<Ino, u64>,
    pub(crate) processes: BTreeMap<u64, Arc<Life>>,
    pub(crate) next_process: u64,
    pub(crate) boots: u64,
    pub(crate) faults: Faults,
    /// What power losses keep that are aimed at an operation, where it is not drawn.
    pub(crate) keeps: BTreeMap<FaultId, Keep>,
    pub(crate) phase: Arc<str>,
    pub(crate) now: Duration,
    pub(crate) delay: Duration,
    pub(crate) limits: Limits,
    pub(crate) observer: Option<Observer>,
    pub(crate) recording: Option<Recording>,
    pub(crate) sites: BTreeMap<Site, u64>,
    pub(crate) barriers_off: BTreeSet<(String, u32)>,
    pub(crate) operations: u64,
    /// The job at work, where one says so.
    pub(crate) job: Option<crate::slow::Job>,
    pub(crate) losses: ChaCha8Rng,
}

/// An operation, before it happens.
pub(crate) struct Call<'a> {
    pub(crate) op: Op,
    pub(crate) path: &'a str,
    pub(crate) to: Option<&'a str>,
    /// Whether it makes a new file.
    pub(crate) making: bool,
    pub(crate) position: u64,
    pub(crate) len: u64,
    /// The file, where there is one already.
    pub(crate) ino: Option<Ino>,
    pub(crate) site: Option<Site>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(op: Op, path: &'a str) -> Call<'a> {
        Call { op, path, to: None, making: false, position: 0, len: 0, ino: None, site: None }
    }

    /// Asked for at this place of the program.
    pub(crate) fn at(op: Op, path: &'a str, place: &'static Location<'static>) -> Call<'a> {
        Call { site: Some(place.into()), ..Call::new(op, path) }
    }
}

/// A fault that ends the process, or the machine, inside an operation.
struct Crash {
    fault: FaultId,
    power_loss: bool,
    at: Cut,
}

impl Crash {
    fn of(fault: FaultId, kind: &Kind) -> Option<Crash> {
        match kind {
            Kind::Crash { at } => Some(Crash { fault, power_loss: false, at: *at }),
            Kind::PowerLoss { at } => Some(Crash { fault, power_loss: true, at: *at }),
            _ => None,
        }
    }

    /// Whether it comes after something was done.
    fn reaches_effect(&self, op: Op) -> bool {
        match self.at {
            Cut::Before => false,
            Cut::Bytes(_) => op == Op::Write,
            Cut::After => true,
        }
    }
}

/// What an effect has done: its value, and the number that an event shows.
pub(crate) type Done<T> = Result<(T, u64), Errno>;

/// The stream of random numbers that power losses draw from.
const LOSS_STREAM: u64 = 1;

impl Machine {
    pub(crate) fn new(config: Config, state: State) -> Machine {
        let mut losses = ChaCha8Rng::seed_from_u64(config.seed);
        losses.set_stream(LOSS_STREAM);
        Machine {
            faults: Faults::new(config.seed),
            keeps: BTreeMap::new(),
            config,
            state,
            descriptors: FnvHashMap::default(),
            next_descriptor: 1,
            locks: BTreeMap::new(),
            processes: BTreeMap::new(),
            next_process: 1,
            boots: 1,
            phase: "".into(),
            now: Duration::ZERO,
            delay: Duration::ZERO,
            limits: Limits { capacity: config.capacity, ..Limits::default() },
            observer: None,
            recording: None,
            sites: BTreeMap::new(),
            barriers_off: BTreeSet::new(),
            operations: 0,
            job: None,
            losses,
        }
    }

    /// One operation: what strikes it, what it does, who hears of it.
    pub(crate) fn run<T>(
        &mut self,
        life: &Life,
        call: &Call<'_>,
        effect: impl FnOnce(&mut Machine, Option<&Kind>) -> Done<T>,
    ) -> io::Result<T> {
        if life.dead.load(Ordering::Acquire) {
            return Err(dead(life));
        }
        self.operations += 1;
        self.goes_on();
        if self.faults.is_empty() {
            let done = self.permitted(call).and_then(|()| effect(self, None));
            self.observe(life, call, count(&done), None, None, Duration::ZERO);
            return done.map(|(value, _)| value).map_err(io::Error::from);
        }
        self.run_under_fire(life, call, effect)
    }

    fn run_under_fire<T>(
        &mut self,
        life: &Life,
        call: &Call<'_>,
        effect: impl FnOnce(&mut Machine, Option<&Kind>) -> Done<T>,
    ) -> io::Result<T> {
        let strikes = self.strike(call);
        let stalled = strikes.stall.map_or(Duration::ZERO, |(_, delay)| delay);
        self.delay += stalled;
        let crash = strikes.main.as_ref().and_then(|(fault, kind)| Crash::of(*fault, kind));
        let fault = strikes.main.as_ref().map(|(id, _)| *id).or(strikes.stall.map(|(id, _)| id));
        let kind = strikes.main.map(|(_, kind)| kind);
        if kind == Some(Kind::ReadOnly) {
            self.limits.read_only = true;
        }
        let attempt = |machine: &mut Machine| {
            machine.stalls(!stalled.is_zero());
            let done = machine.permitted(call).and_then(|()| effect(machine, kind.as_ref()));
            machine.stalls(false);
            done
        };
        if let Some(crash) = crash {
            let done = if crash.reaches_effect(call.op) { count(&attempt(self)).unwrap_or(0) } else { 0 };
            return Err(self.die(life, call, &crash, done, stalled));
        }
        let done = match kind {
            Some(Kind::Error { errno, effect: false }) => Err(errno),
            Some(Kind::Error { errno, effect: true }) => {
                let first = self.next_descriptor;
                let done = attempt(self).and(Err(errno));
                // Nobody has got what was opened: it is closed again.
                (first..self.next_descriptor).for_each(|number| self.close(number));
                done
            }
            _ => attempt(self),
        };
        self.observe(life, call, count(&done), fault, None, stalled);
        done.map(|(value, _)| value).map_err(io::Error::from)
    }

    fn permitted(&self, call: &Call<'_>) -> Result<(), Errno> {
        if self.limits.read_only && call.op.changes() { Err(Errno::EROFS) } else { Ok(()) }
    }

    fn strike(&mut self, call: &Call<'_>) -> crate::fault::Strikes {
        let file = call.ino.and_then(|ino| self.state.file(ino));
        let len = match (call.op, file) {
            (Op::Read, Some(file)) => call.len.min(file.seen.len().saturating_sub(call.position)),
            _ => call.len,
        };
        // What lands behind the last byte on the medium is in no file, and what lands where it was meant to has not gone astray.
        let strays = |path: Option<&str>, position: u64| {
            let hit = path.map_or(call.ino, |path| find_file(&self.state, path));
            let is_elsewhere = hit != call.ino || position != call.position;
            let file = hit.and_then(|ino| self.state.file(ino));
            is_elsewhere && file.is_some_and(|file| position < file.durable.len())
        };
        let bites = |kind: &Kind| match kind {
            Kind::Short { bytes } => *bytes < len,
            Kind::Tear { bytes, .. } => *bytes == 0 || *bytes < len,
            Kind::Torn { kept } => *kept < len,
            Kind::Lost | Kind::WritebackFailure { .. } => len > 0,
            Kind::BitRot { byte, xor } => *byte < len && *xor != 0,
            Kind::BadSector { byte } => *byte < len,
            Kind::Misdirected { path, position } => len > 0 && strays(path.as_deref(), *position),
            _ => true,
        };
        let target = Target {
            op: call.op,
            path: call.path,
            to: call.to,
            making: call.making,
            position: call.position,
            len,
            phase: &self.phase,
            now: self.now,
        };
        self.faults.strike(&target, bites)
    }

    fn observe(
        &mut self,
        life: &Life,
        call: &Call<'_>,
        result: Result<u64, Errno>,
        fault: Option<FaultId>,
        death: Option<&Death>,
        stalled: Duration,
    ) {
        let Some(observer) = &mut self.observer else { return };
        observer(&Event {
            process: life.id,
            op: call.op,
            path: call.path,
            to: call.to,
            position: call.position,
            len: call.len,
            result,
            fault,
            death,
            site: call.site,
            barrier_off: call.site.is_some_and(|site| is_off(&self.barriers_off, site)),
            phase: &self.phase,
            stalled,
            recorded: self.recording.as_ref().map_or(0, Recording::len),
        });
    }

    /// The process, or the machine, dies in the middle of this operation.
    fn die(
        &mut self,
        life: &Life,
        call: &Call<'_>,
        crash: &Crash,
        done: u64,
        stalled: Duration,
    ) -> io::Error {
        let Crash { fault, power_loss, at } = *crash;
        let progress = match at {
            Cut::After => Progress::After,
            Cut::Bytes(_) if call.op == Op::Write => Progress::Bytes(done, call.len),
            Cut::Bytes(_) | Cut::Before => Progress::Before,
        };
        let struck = Struck { fault, op: call.op, path: call.path.to_owned(), progress };
        let death = Death { power_loss, inside: Some(struck) };
        self.observe(life, call, Ok(done), Some(fault), Some(&death), stalled);
        if power_loss {
            let torn = match (progress, call.ino) {
                (Progress::Bytes(done, _), Some(ino)) if done > 0 => {
                    Some(Certain { ino, bytes: call.position..call.position + done })
                }
                _ => None,
            };
            let keep = self.keeps.get(&fault).copied().unwrap_or_default();
            self.power_loss(death, torn, keep);
        } else {
            self.end_process(life.id, death);
        }
        dead(life)
    }

    /// A process ends: its descriptors are closed and its locks are free.
    pub(crate) fn end_process(&mut self, id: u64, death: Death) {
        let Some(life) = self.processes.remove(&id) else { return };
        // The reason first: who sees the process dead can read why.
        let _ = life.death.set(death);
        life.dead.store(true, Ordering::Release);
        let mut theirs: Vec<u64> =
            self.descriptors.iter().filter(|(_, d)| d.owner == id).map(|(number, _)| *number).collect();
        theirs.sort_unstable();
        theirs.into_iter().for_each(|number| self.close(number));
    }

    pub(crate) fn end_all(&mut self, death: &Death) {
        let all: Vec<u64> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|id| self.end_process(id, death.clone()));
    }

    /// The lights go out: what is on the medium now is one of the images that the profile allows. `torn` names the bytes
    /// of a write that are certain to be there.
    pub(crate) fn power_loss(&mut self, death: Death, torn: Option<Certain>, keep: Keep) {
        self.end_all(&death);
        self.state = crate::legal::keep(&self.state, keep, torn.as_ref(), &mut self.losses);
        self.booted();
    }

    /// Power is lost, and this is what is left.
    pub(crate) fn power_loss_leaving(&mut self, state: State) {
        self.end_all(&Death { power_loss: true, inside: None });
        self.state = state;
        self.booted();
    }

    pub(crate) fn boot_id(&self) -> String {
        format!("boot-{}", self.boots)
    }

    fn booted(&mut self) {
        self.boots += 1;
        self.limits = self.limits.after_power_loss();
        self.phase = "".into();
        if let Some(recording) = &mut self.recording {
            recording.restart(&self.state, self.limits);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free_blocks() == Some(0) || self.limits.brim.is_some_and(|brim| self.state.used_bytes >= brim)
    }

    /// Makes a change, and remembers it where a history is being recorded.
    pub(crate) fn change(&mut self, call: &Call<'_>, change: Change) -> Option<Ino> {
        let made = self.state.apply(&change);
        if let Some(recording) = &mut self.recording {
            recording.push(change, call, (&self.phase, self.limits));
        }
        made
    }

    pub(crate) fn close(&mut self, number: u64) {
        let Some(closed) = self.descriptors.remove(&number) else { return };
        self.locks.retain(|_, lock| *lock != number);
        self.release(closed.ino);
    }

    /// Frees an inode's blocks if nothing leads to it any more.
    pub(crate) fn release(&mut self, ino: Ino) {
        let nameless = self.state.file(ino).is_some_and(|file| file.links == 0);
        if nameless && !self.descriptors.values().any(|d| d.ino == ino) {
            self.state.release(ino);
        }
    }

    pub(crate) fn sweep(&mut self) {
        self.state.sweep(self.descriptors.values().map(|d| d.ino));
    }

    /// Blocks that are free; none where there is no end to them.
    pub(crate) fn free_blocks(&self) -> Option<u64> {
        self.limits.free_blocks(self.state.used_blocks)
    }

    pub(crate) fn has_descriptor_left(&self, owner: u64) -> Result<(), Errno> {
        match self.config.max_open {
            Some(most) if self.descriptors.values().filter(|d| d.owner == owner).count() >= most => {
                Err(Errno::EMFILE)
            }
            _ => Ok(()),
        }
    }

    /// Counts a sync's place in the program; whether the sync is switched off.
    pub(crate) fn is_barrier_off(&mut self, site: Site) -> bool {
        *self.sites.entry(site).or_default() += 1;
        is_off(&self.barriers_off, site)
    }
}

fn is_off(off: &BTreeSet<(String, u32)>, site: Site) -> bool {
    !off.is_empty() && off.iter().any(|(file, line)| *line == site.line && site.file.ends_with(file.as_str()))
}

pub(crate) fn find_file(state: &State, path: &str) -> Option<Ino> {
    let ino = state.lookup(&crate::path::Parsed::new(path.as_ref()).ok()?).ok()?;
    state.file(ino).map(|_| ino)
}

fn count<T>(done: &Done<T>) -> Result<u64, Errno> {
    done.as_ref().map(|(_, count)| *count).map_err(|errno| *errno)
}

/// What a dead process is told, for ever.
pub(crate) fn dead(life: &Life) -> io::Error {
    match life.death.get() {
        Some(death) => io::Error::other(death.clone()),
        None => Errno::EIO.into(),
    }
}
