//! The broker as a host of the simulated network: it is started, recovers, serves, and stops or is killed, as often as the
//! scenario wants. What it finds at each start goes into the trace.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use broker::Broker;
use broker::broker::World;
use broker::metrics::Metrics;
use broker::report::{PartitionReport, Report};
use broker::server::{Limits, serve};
use broker::settings::{Durability, Settings};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::DATA;
use super::clock::WorldClock;
use super::disk::WorldDisk;
use super::net::{Connections, Gate, Shape, WorldListener};
use super::observe::{relative, with_relative_paths};
use super::phase::Phases;
use super::stall::Stalls;
use super::work::WorldWork;
use crate::scenario::{BrokerSettings, Phase};
use crate::trace::{
    Again, CrashKind, Event, Image, ImageFile, Millis, Mode, Moment, Pace, Recorder, Recovered, Retention,
    Starting, World as Change,
};

/// What the broker's process is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none.
    Down,
    /// It recovers.
    Starting,
    /// It serves.
    Up,
    /// It said why it cannot start, and ended.
    Failed(String),
}

/// What the last start found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// By topic and partition.
    pub partitions: Vec<Recovered>,
    /// Foreign files and leftovers.
    pub notes: Vec<String>,
}

/// The broker's host. What it is made of survives the broker.
pub struct Host {
    /// The machine's disk.
    pub disk: faults::Disk,
    /// The broker's wall clock.
    pub clock: WorldClock,
    /// What the broker is at.
    pub phases: Phases,
    /// How slow the disk is.
    pub stalls: Stalls,
    /// Where everything is written down.
    pub recorder: Recorder,
    /// The connections that the broker holds.
    pub connections: Connections,
    /// How streams deliver bytes.
    pub shape: Shape,
    /// So many accepts fail.
    pub accept_errors: Arc<AtomicU64>,
    /// What the broker is started with.
    pub settings: RefCell<BrokerSettings>,
    /// Told when the state changes.
    pub changed: Notify,
    /// What the broker was started with, and which entry of the trace says so.
    pub starts: RefCell<Vec<(usize, BrokerSettings)>>,
    /// What kept the disk from taking changes before all was healed.
    pub limits_at_end: Cell<faults::Limits>,
    report: RefCell<Found>,
    state: RefCell<State>,
    process: RefCell<Option<faults::Process>>,
    stop: RefCell<CancellationToken>,
    /// Whether there is to be a broker.
    wanted: Cell<bool>,
    /// Whether a stop is under way.
    stopping: Cell<bool>,
    /// Whether any broker has run on this disk yet.
    used: Cell<bool>,
}

impl Host {
    /// A machine with this disk and no broker running on it.
    pub fn new(
        disk: faults::Disk,
        recorder: Recorder,
        shape: Shape,
        settings: BrokerSettings,
        seed: u64,
    ) -> Self {
        Self {
            phases: Phases::new(disk.clone()),
            stalls: Stalls::new(disk.clone(), seed),
            clock: WorldClock::new(recorder.clone()),
            disk,
            recorder,
            connections: Connections::default(),
            shape,
            accept_errors: Arc::default(),
            settings: RefCell::new(settings),
            changed: Notify::new(),
            starts: RefCell::default(),
            limits_at_end: Cell::default(),
            report: RefCell::default(),
            state: RefCell::new(State::Down),
            process: RefCell::new(None),
            stop: RefCell::new(CancellationToken::new()),
            wanted: Cell::new(true),
            stopping: Cell::new(false),
            used: Cell::new(false),
        }
    }

    /// What the broker's process is doing.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Says what it is doing now.
    pub fn set_state(&self, state: State) {
        self.state.replace(state);
        self.changed.notify_waiters();
    }

    /// Asks the broker to stop cleanly.
    pub fn ask_to_stop(&self) {
        self.stopping.set(true);
        self.recorder.add(Event::World(Change::Stopping));
        self.phases.set(Some(Phase::Stop));
        self.stop.borrow().cancel();
    }

    /// What the last start found.
    pub fn report(&self) -> Found {
        self.report.borrow().clone()
    }

    /// Tries to start another broker on the same directory, as a second process; stops it at once where it starts. Also
    /// says how its process died, where a fault has struck it.
    pub fn second_broker(&self) -> (Result<(), String>, Option<faults::Death>) {
        let process = self.disk.process();
        let world = World {
            disk: WorldDisk::new(process.clone(), Phases::new(self.disk.clone()), self.stalls.clone()),
            clock: Arc::new(self.clock.clone()),
            work: Arc::new(broker::work::InLine),
        };
        let settings = log_settings(&self.settings.borrow());
        let opened = Broker::open(world, Path::new(DATA), settings, &|_, _, _| {});
        let death = process.death();
        self.disk.kill(&process); // before the broker is dropped
        (opened.map(|_| ()).map_err(|e| with_relative_paths(&e.to_string())), death)
    }

    /// How the process died, where it has died and nobody has cleared it away yet.
    pub fn death(&self) -> Option<faults::Death> {
        self.process.borrow().as_ref().filter(|p| p.is_dead()).map(|p| p.death().unwrap_or(NO_REASON))
    }

    /// Has the host execute nothing but the machine, or the broker too, when it is next bounced.
    pub fn want(&self, broker: bool) {
        self.wanted.set(broker);
    }

    /// The process is gone, and all that the host executed with it.
    pub fn buried(&self) {
        self.process.replace(None);
        self.stopping.set(false);
        self.phases.set(None);
        self.set_state(State::Down);
    }

    /// The files of the data directory.
    pub fn image(&self) -> Arc<Image> {
        Arc::new(image_of(&self.disk))
    }

    /// Adds the files of the data directory to the trace.
    pub fn record_image(&self, moment: Moment) {
        self.recorder.add(Event::Image { moment, image: self.image() });
    }

    /// What the simulated host executes: one run of the broker, where it was started; and then, or at once, what a
    /// machine does that no broker runs on: it refuses every connection. A host with nothing to execute would leave
    /// clients to their timeouts, as a machine without power does, and nearly all of the time would go by in them.
    pub async fn run(self: Rc<Self>) -> turmoil::Result {
        if self.wanted.get() {
            self.clone().run_broker().await?;
        }
        std::future::pending().await
    }

    /// One run of the broker.
    async fn run_broker(self: Rc<Self>) -> turmoil::Result {
        self.set_state(State::Starting);
        self.stopping.set(false);
        self.stop.replace(CancellationToken::new());
        let settings = self.settings.borrow().clone();
        self.starts.borrow_mut().push((self.recorder.entries(), settings.clone()));
        if self.used.get() {
            self.record_image(Moment::Down);
        }
        self.recorder.add(Event::Starting(self.starting(&settings)));
        self.recover_beside();
        let process = self.disk.process();
        self.process.replace(Some(process.clone()));
        self.stalls.restarted();
        self.phases.set_segment_bytes(log_settings(&settings).segment_bytes);
        self.phases.set(Some(Phase::Recovery));
        let world = World {
            disk: WorldDisk::new(process.clone(), self.phases.clone(), self.stalls.clone()),
            clock: Arc::new(self.clock.clone()),
            work: Arc::new(WorldWork::new(self.stalls.clone(), self.recorder.clone())),
        };
        let opened = Broker::open(world, Path::new(DATA), log_settings(&settings), &|_, _, _| {});
        tokio::time::sleep(self.stalls.of_sync()).await;
        if process.is_dead() {
            return Ok(()); // the executor finds the dead process, and buries it
        }
        self.phases.set(None);
        match opened {
            Ok((broker, report)) => self.serve(process, broker, &report, &settings).await,
            Err(e) => {
                let why = with_relative_paths(&e.to_string());
                self.recorder.add(Event::NotStarted { error: why.as_str().into() });
                self.disk.kill(&process);
                self.process.replace(None);
                self.set_state(State::Failed(why));
                Ok(())
            }
        }
    }

    async fn serve(
        &self,
        process: faults::Process,
        broker: Broker<WorldDisk>,
        report: &Report,
        settings: &BrokerSettings,
    ) -> turmoil::Result {
        self.used.set(true);
        let partitions: Vec<Recovered> = report.partitions.iter().map(recovered).collect();
        let unserved = report.unserved.iter();
        let unserved = unserved.map(|(topic, why)| format!("{topic}: this topic cannot be served: {why}"));
        let gone = report
            .missed
            .gone
            .keys()
            .map(|topic| format!("{topic}: this topic is gone since the last clean stop"));
        let uncounted = report.missed.uncounted.keys();
        let uncounted =
            uncounted.map(|partition| format!("{partition}: its topic does not have it any more"));
        let said = report.notes.iter().chain(&report.unnoted).cloned();
        let notes: Vec<String> = said.chain(unserved).chain(gone).chain(uncounted).collect();
        self.report.replace(Found { partitions: partitions.clone(), notes: notes.clone() });
        self.recorder.add(Event::Started { clean: report.clean, partitions, notes });
        self.record_image(Moment::Recovered);
        let gate = Gate {
            process: process.clone(),
            stalls: self.stalls.clone(),
            accept_errors: self.accept_errors.clone(),
        };
        let listener = WorldListener::bind(self.shape.clone(), gate, self.connections.clone()).await?;
        let stop = self.stop.borrow().clone();
        self.set_state(State::Up);
        let served = serve(listener, broker, limits(settings), stop, Arc::new(Metrics::new())).await;
        if process.is_dead() {
            return Ok(());
        }
        let (kind, during) = match served {
            Ok(()) => (CrashKind::Stop, String::new()),
            Err(e) => (CrashKind::FailedStop, e.to_string()),
        };
        self.disk.kill(&process);
        self.recorder.add(Event::Crash { kind, during: during.into() });
        self.buried();
        Ok(())
    }

    fn starting(&self, settings: &BrokerSettings) -> Starting {
        let (log, limits) = (log_settings(settings), limits(settings));
        let millis = |d: std::time::Duration| Millis::try_from(d.as_millis()).unwrap_or(Millis::MAX);
        Starting {
            durability: match log.durability {
                Durability::Os => Mode::Os,
                Durability::Interval(interval) => Mode::Interval(millis(interval)),
                Durability::Always => Mode::Always,
            },
            index_interval: log.index_interval,
            retention: Retention { bytes: log.retention_bytes, age_ms: log.retention_age.map(millis) },
            connections_max: limits.connections as u64,
            record_bytes_max: log.max_record_bytes.into(),
            frame_bytes_max: limits.frame_bytes as u64,
            records_max: limits.request_records as u64,
            silence_max_ms: millis(limits.idle.min(limits.frame_time).min(limits.write_time)),
            sync_slack_ms: Pace { sync: millis(self.stalls.longest_sync()), ..Pace::default() }.sync_slack(),
            lying: self.disk.config().profile == faults::Profile::Lying,
        }
    }

    /// Recovers copies of the disk beside the run (P8): once; once more from what that left; and once after a recovery
    /// that was killed half way.
    fn recover_beside(&self) {
        if !self.used.get() {
            return;
        }
        let copy = self.copy_of(&self.disk);
        // Where it does not start, the run itself says so.
        let Ok(once) = self.recover(&copy) else { return };
        let operations = copy.operations();
        let other = self.recover(&self.copy_of(&copy));
        self.recorder.add(Event::Again { how: Again::Twice, once: once.clone(), other });
        let killed = self.copy_of(&self.disk);
        let nth = 1 + self.recorder.now() % operations.max(1);
        let crash = faults::Kind::Crash { at: faults::Cut::Before };
        let aimed = killed.aim(faults::Fault::any("*", crash).nth(nth));
        let _ = self.recover(&killed);
        killed.disarm_all();
        if aimed.is_ok() {
            let other = self.recover(&killed);
            self.recorder.add(Event::Again { how: Again::Killed { operation: nth }, once, other });
        }
    }

    fn copy_of(&self, disk: &faults::Disk) -> faults::Disk {
        // With room: what is compared is what recovery does, and not what a full disk keeps it from doing.
        disk.snapshot().to_disk(faults::Config { capacity: None, ..self.disk.config() })
    }

    /// What the broker makes of a copy of the disk when it opens it.
    fn recover(&self, copy: &faults::Disk) -> Result<Arc<Image>, Arc<str>> {
        let phases = Phases::new(copy.clone());
        let world = World {
            disk: WorldDisk::new(copy.process(), phases, Stalls::new(copy.clone(), 0)),
            clock: Arc::new(self.clock.clone()),
            work: Arc::new(broker::work::InLine),
        };
        let settings = log_settings(&self.settings.borrow());
        let opened = Broker::open(world, Path::new(DATA), settings, &|_, _, _| {});
        copy.kill_all(); // before the broker is dropped: dropping is not what is looked at
        match opened {
            Ok(_) => Ok(Arc::new(image_of(copy))),
            Err(e) => Err(with_relative_paths(&e.to_string()).into()),
        }
    }
}

const NO_REASON: faults::Death = faults::Death { power_loss: false, inside: None };

/// The files of the data directory.
pub fn image_of(disk: &faults::Disk) -> Image {
    files_of(&disk.snapshot())
}

/// The same of what a crash has left.
pub fn files_of(image: &faults::Image) -> Image {
    let files = image.files().into_iter();
    let files = files.filter(|(path, _)| path.starts_with(DATA) && !path.ends_with('/'));
    let mut files: Vec<ImageFile> =
        files.map(|(path, bytes)| ImageFile { path: relative(&path).into(), bytes: bytes.into() }).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Image(files)
}

/// The log's settings; what the scenario does not say is the broker's default.
pub fn log_settings(s: &BrokerSettings) -> Settings {
    let default = Settings::with_recovery_threads(1);
    Settings {
        durability: s.durability.unwrap_or(default.durability),
        segment_bytes: s.segment_bytes.unwrap_or(default.segment_bytes),
        max_unsynced_bytes: s.max_unsynced_bytes.unwrap_or(default.max_unsynced_bytes),
        index_interval: s.index_interval.unwrap_or(default.index_interval),
        max_record_bytes: s.max_record_bytes.unwrap_or(default.max_record_bytes),
        retention_bytes: s.retention_bytes.or(default.retention_bytes),
        retention_age: s.retention_age.or(default.retention_age),
        retention_check: s.retention_check.unwrap_or(default.retention_check),
        recovery_threads: s.recovery_threads.map_or(1, |n| n as usize),
        max_partitions: default.max_partitions,
    }
}

fn limits(s: &BrokerSettings) -> Limits {
    let default = Limits::default();
    let frame_bytes = s.max_frame_bytes.map_or(default.frame_bytes, |n| n as usize);
    let bytes =
        |given: Option<u64>, default| given.map_or(default, |n| usize::try_from(n).unwrap_or(usize::MAX));
    Limits {
        connections: s.max_connections.map_or(default.connections, |n| n as usize),
        frame_bytes,
        in_flight_bytes: bytes(s.max_in_flight_bytes, default.in_flight_bytes),
        buffer_bytes: bytes(s.max_buffer_bytes, default.buffer_bytes),
        idle: s.idle_timeout.unwrap_or(default.idle),
        frame_time: s.frame_timeout.unwrap_or(default.frame_time),
        write_time: s.write_timeout.unwrap_or(default.write_time),
        ..default
    }
}

/// What a partition's recovery said, as the trace has it.
pub fn recovered(p: &PartitionReport) -> Recovered {
    let name = |path: &Path| path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let damage = p.damage.iter();
    Recovered {
        topic: p.topic.as_str().into(),
        partition: p.partition,
        start: p.start.get(),
        end: p.end.get(),
        cut: p.cut,
        set_aside: p.set_aside,
        rebuilt: p.rebuilt.iter().map(|f| name(Path::new(f))).collect(),
        damage: damage
            .map(|d| (name(&d.segment), d.position.get(), d.bytes, d.first.get(), d.next.get()))
            .collect(),
        fenced: p.fenced.clone(),
        notes: p.notes.clone(),
    }
}
