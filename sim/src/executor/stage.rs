//! What the clients of a run share: the broker's host, the faults that are armed, and a way to ask the outer loop for what
//! only it can do (kill a host, start one).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::plan::Node;
use super::races::Races;
use super::{ask, surgery};
use crate::scenario::{self as s, DiskSettings, NetSettings};
use crate::trace::{CallId, CrashKind, Event, Pace, Recorder, World};
use crate::world::host::{Host, State};
use crate::world::observe::{self, Armed, Silent};
use crate::world::{BROKER, aim};

/// Something that only the outer loop can do.
pub(super) type Command = Box<dyn FnOnce(&mut turmoil::Sim<'_>)>;

/// Steps for another client, and who waits for them.
pub(super) struct Job {
    pub(super) steps: Vec<Node>,
    pub(super) round: u64,
    pub(super) done: oneshot::Sender<()>,
}

/// A fault that a step has aimed.
struct Aimed {
    step: u32,
    text: Arc<str>,
    id: faults::FaultId,
    may_miss: bool,
    /// Whether the oracle's own questions could set it off.
    on_reads: bool,
}

/// The longest that a start or a stop may take, in simulated time.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the clients share.
pub(super) struct Stage {
    pub(super) host: Rc<Host>,
    pub(super) recorder: Recorder,
    pub(super) commands: RefCell<VecDeque<Command>>,
    pub(super) actors: RefCell<BTreeMap<String, mpsc::UnboundedSender<Job>>>,
    /// How many clients are at work besides the first.
    pub(super) busy: Cell<u32>,
    /// What several clients at once leave open.
    pub(super) races: Races,
    /// All hosts but the broker's.
    pub(super) clients: Vec<String>,
    pub(super) net: RefCell<NetSettings>,
    /// Topics that are there, as far as clients know, with their partitions.
    pub(super) topics: RefCell<BTreeMap<Arc<str>, u32>>,
    /// Whether a topic was made with a retention of its own.
    pub(super) retention: Cell<bool>,
    /// Whether a sector cannot be read.
    pub(super) unreadable: Cell<bool>,
    known: observe::Known,
    aimed: RefCell<Vec<Aimed>>,
    /// The aimed power losses that leave an image of a certain number: the steps that aimed them, and the images.
    exact: RefCell<BTreeMap<faults::FaultId, (u32, s::Keep)>>,
    /// Whether a link was ever cut: the broker may then hold connections whose other end is gone.
    severed: Cell<bool>,
    /// How often each client's link was cut, held or healed: a cut that heals by itself heals no later one.
    links: RefCell<BTreeMap<String, u64>>,
    /// How often the broker went down, and how it did the last time.
    crashes: Cell<u32>,
    last_crash: RefCell<Arc<str>>,
}

impl Stage {
    pub(super) fn new(host: Rc<Host>, clients: Vec<String>, net: NetSettings) -> Self {
        let known = observe::Known::default();
        observe::observe(&host.disk, host.recorder.clone(), known.clone());
        Self {
            recorder: host.recorder.clone(),
            host,
            commands: RefCell::default(),
            actors: RefCell::default(),
            busy: Cell::new(0),
            races: Races::default(),
            clients,
            net: RefCell::new(net),
            topics: RefCell::default(),
            retention: Cell::new(false),
            unreadable: Cell::new(false),
            known,
            aimed: RefCell::default(),
            exact: RefCell::default(),
            severed: Cell::new(false),
            links: RefCell::default(),
            crashes: Cell::new(0),
            last_crash: RefCell::new("".into()),
        }
    }

    /// Has the outer loop do something, and waits until it is done.
    pub(super) async fn command<T: 'static>(
        &self,
        run: impl FnOnce(&mut turmoil::Sim<'_>) -> T + 'static,
    ) -> Option<T> {
        let (done, wait) = oneshot::channel();
        let command: Command = Box::new(move |sim| {
            let _ = done.send(run(sim));
        });
        self.commands.borrow_mut().push_back(command);
        wait.await.ok()
    }

    /// Waits until the broker is in a state like this.
    pub(super) async fn until(&self, like: impl Fn(&State) -> bool) -> Result<State, String> {
        let wait = async {
            loop {
                let changed = self.host.changed.notified();
                let state = self.host.state();
                if like(&state) {
                    return state;
                }
                changed.await;
            }
        };
        let state = timeout(PATIENCE, wait).await;
        state.map_err(|_| format!("the broker is {:?} after {PATIENCE:?}", self.host.state()))
    }

    /// The broker's process has died: writes it down, and clears the host away.
    pub(super) fn bury(&self, sim: &mut turmoil::Sim<'_>, death: &faults::Death) {
        let kind = if self.lights_out(death) { CrashKind::Power } else { CrashKind::Process };
        self.down(kind, &observe::place_of(death));
        self.clear_away(sim);
    }

    /// Whether a process has died of a power loss. One that leaves a certain image has still to come: where it leaves
    /// another number of images, the step that aimed it is impossible, and the process alone is dead.
    pub(super) fn lights_out(&self, death: &faults::Death) -> bool {
        let fault = death.inside.as_ref().map(|struck| struck.fault);
        let Some((step, keep)) = fault.and_then(|id| self.exact.borrow().get(&id).copied()) else {
            return death.power_loss;
        };
        match can_be_left(&self.host.disk, keep) {
            Ok(()) => {
                self.host.disk.power_loss_keeping(keep);
                true
            }
            Err(why) => {
                self.recorder.add(Event::Impossible { step, text: why.into() });
                false
            }
        }
    }

    /// Nothing of the broker is left in memory, and the machine runs without it.
    fn clear_away(&self, sim: &mut turmoil::Sim<'_>) {
        self.host.want(false);
        sim.bounce(BROKER);
        self.host.buried();
    }

    /// Writes down that the broker, or the machine that it could run on, went down.
    pub(super) fn down(&self, kind: CrashKind, place: &str) {
        let how = if kind == CrashKind::Power { "power loss" } else { "crash" };
        let text = if place.is_empty() { how.to_owned() } else { format!("{how} {place}") };
        self.crashes.set(self.crashes.get() + 1);
        self.last_crash.replace(text.into());
        self.recorder.add(Event::Crash { kind, during: place.into() });
    }

    /// Kills the broker from outside; of the machine's memory, `keep` says what a power loss leaves. Gives whether anything was
    /// there to go down: a power loss finds the machine, whatever runs on it. Fails, and kills nothing, where that is an image that
    /// there is not.
    pub(super) async fn kill(self: &Rc<Self>, power: Option<s::Keep>) -> Result<bool, String> {
        let stage = self.clone();
        let killed = self.command(move |sim| {
            let kind = if power.is_some() { CrashKind::Power } else { CrashKind::Process };
            match power {
                None if !matches!(stage.host.state(), State::Up | State::Starting) => return Ok(false),
                None => stage.host.disk.kill_all(),
                Some(keep) => {
                    can_be_left(&stage.host.disk, keep)?;
                    stage.host.disk.power_loss_keeping(keep);
                }
            }
            stage.down(kind, "");
            stage.clear_away(sim);
            Ok(true)
        });
        killed.await.unwrap_or(Ok(true))
    }

    /// Starts the broker, and waits for what comes of it.
    pub(super) async fn start(&self) -> Result<State, String> {
        let host = self.host.clone();
        self.command(move |sim| {
            host.set_state(State::Starting);
            host.want(true);
            sim.bounce(BROKER);
        })
        .await;
        self.until(|state| *state != State::Starting).await
    }

    /// Stops the broker cleanly, and waits until it is down.
    pub(super) async fn stop(&self) -> Result<(), String> {
        self.host.ask_to_stop();
        self.until(|state| !matches!(state, State::Up | State::Starting)).await.map(|_| ())
    }

    /// Whether the broker may be deleting old records.
    pub(super) fn has_retention(&self) -> bool {
        let settings = self.host.settings.borrow();
        self.retention.get() || settings.retention_bytes.is_some() || settings.retention_age.is_some()
    }

    /// How often the broker went down.
    pub(super) fn crashes(&self) -> u32 {
        self.crashes.get()
    }

    /// How it went down the last time.
    pub(super) fn last_crash(&self) -> Arc<str> {
        self.last_crash.borrow().clone()
    }

    /// Why nobody answers, where that is so.
    pub(super) fn why_down(&self) -> Option<String> {
        match self.host.state() {
            State::Up => None,
            State::Starting => Some("the broker is still starting".to_owned()),
            State::Failed(why) => Some(format!("the broker did not start: {why}")),
            State::Down => {
                let since = self.recorder.down_since().map(|(at, kind)| {
                    let how = match kind {
                        CrashKind::Process | CrashKind::FailedStop => "crash",
                        CrashKind::Power => "power loss",
                        CrashKind::Stop => "stop",
                    };
                    format!(" since the {how} at {at} ms")
                });
                Some(format!("the broker is down{}; `start` starts it", since.unwrap_or_default()))
            }
        }
    }

    /// Arms a fault, unless what it is to hit is not there, and need not be. Gives which of the two it was.
    pub(super) fn aim(&self, step: u32, text: &Arc<str>, fault: &s::Fault) -> Result<String, String> {
        let now = Duration::from_millis(self.recorder.now());
        let mut fault = fault.clone();
        let names = [Some(&mut fault.pattern), fault.into.as_mut()];
        for named in names.into_iter().flatten().filter(|name| name.contains('@')) {
            match surgery::resolve(&self.host.image(), named) {
                Ok(file) => *named = file,
                Err(why) if fault.may_miss => return Ok(format!("not armed: {why}")),
                Err(why) => return Err(why),
            }
        }
        let aimed = aim::aim(&fault, now);
        let silent = Silent::of(&aimed.kind);
        let id = self.host.disk.aim(aimed).map_err(|e| e.to_string())?;
        match fault.kind {
            s::FaultKind::PowerLoss { keep: keep @ s::Keep::Image(_), .. } => {
                self.exact.borrow_mut().insert(id, (step, keep));
            }
            s::FaultKind::PowerLoss { keep, .. } => self.host.disk.keep(id, keep),
            s::FaultKind::Unreadable { .. } => self.unreadable.set(true),
            _ => {}
        }
        let stray = match fault.kind {
            s::FaultKind::Misdirect { at } => Some((fault.into.map(Into::into), at)),
            _ => None,
        };
        let known = Armed { words: text.to_string(), silent, stray };
        self.known.lock().unwrap_or_else(|e| e.into_inner()).insert(id, known);
        let on_reads = matches!(fault.op, s::Op::Any | s::Op::Read | s::Op::Open | s::Op::List);
        let may_miss = fault.may_miss || fault.aim.rate.is_some();
        self.aimed.borrow_mut().push(Aimed { step, text: text.clone(), id, may_miss, on_reads });
        Ok("armed".to_owned())
    }

    /// What has just happened to the disk, without an operation of the broker, are steps of its history: a crash that comes before
    /// them comes before what the trace says from here on.
    pub(super) fn mark_history(&self) {
        self.recorder.recorded(self.host.disk.recorded());
    }

    /// The system gives up its page cache.
    pub(super) fn drop_caches(&self) {
        self.host.disk.drop_caches();
        self.mark_history();
        self.tell(World::CachesDropped);
    }

    /// Disarms every fault; those that had to strike and never did go into the trace.
    pub(super) fn disarm(&self) {
        for aimed in self.aimed.borrow_mut().drain(..) {
            let (struck, due) = self.struck(aimed.id);
            if !aimed.may_miss && struck < due {
                self.recorder.add(Event::Inert { step: aimed.step, text: aimed.text, struck, due });
            }
        }
        self.host.disk.disarm_all();
    }

    /// How often a fault has struck, and how often it has to: once, where it strikes for as long as it is armed.
    fn struck(&self, id: faults::FaultId) -> (u64, u64) {
        let Some((fault, struck)) = self.host.disk.fault(id) else { return (0, 1) };
        let due = match fault.trigger {
            faults::Trigger::Nth { times: Some(times), .. } => times,
            _ => 1,
        };
        (struck, due)
    }

    /// Whether the oracle can ask the broker without setting off a fault that is meant for the scenario, and without
    /// finding it in the middle of other work.
    pub(super) fn is_quiet(&self) -> bool {
        let waits = |aimed: &Aimed| aimed.on_reads && self.struck(aimed.id).0 == 0;
        self.busy.get() == 0 && !self.aimed.borrow().iter().any(waits)
    }

    /// Every sector can be read again.
    pub(super) fn mend_sectors(&self) {
        self.host.disk.mend_sectors();
        self.mark_history();
        if self.unreadable.take() {
            self.tell(World::Readable);
        }
    }

    /// Changes the disk from here on.
    pub(super) fn set_disk(&self, change: &DiskSettings) {
        let disk = &self.host.disk;
        match change.capacity {
            Some(s::Capacity::Bytes(bytes)) => disk.set_capacity(Some(bytes)),
            Some(s::Capacity::Free(bytes)) => disk.set_capacity(Some(disk.used().saturating_add(bytes))),
            Some(s::Capacity::Unlimited) => disk.set_capacity(None),
            None => {}
        }
        if let Some(read_only) = change.read_only {
            disk.set_read_only(read_only);
        }
        if let Some(span) = change.latency {
            self.host.stalls.set_latency(span.min, span.max);
        }
        if let Some(span) = change.sync_latency {
            self.host.stalls.set_sync_latency(span.min, span.max);
        }
        if change.latency.is_some() || change.sync_latency.is_some() {
            self.tell_pace();
        }
    }

    /// Writes down how long things take from here on.
    pub(super) fn tell_pace(&self) {
        let millis = |d: Duration| u64::try_from(d.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        let net = self.net.borrow();
        let pace = Pace {
            timeout: millis(ask::timeout_of(net.timeout)),
            message: net.latency.map_or(0, |span| millis(span.max)),
            disk: millis(self.host.stalls.longest()),
            sync: millis(self.host.stalls.longest_sync()),
        };
        self.tell(World::Pace(pace));
    }

    /// Writes down what has changed in the world.
    pub(super) fn tell(&self, change: World) {
        self.recorder.add(Event::World(change));
    }

    /// All links work again.
    pub(super) fn heal(&self) {
        for client in &self.clients {
            self.relink(client);
            turmoil::release(client.as_str(), BROKER);
        }
        self.tell(World::Whole);
    }

    /// Something becomes of a client's link: gives the number of times that something has.
    pub(super) fn relink(&self, client: &str) -> u64 {
        let mut links = self.links.borrow_mut();
        let times = links.entry(client.to_owned()).or_default();
        *times += 1;
        *times
    }

    /// Heals a client's link, unless something else has become of it since. Says whether it did.
    pub(super) fn heal_if_still(&self, client: &str, times: u64) -> bool {
        let still = self.links.borrow().get(client) == Some(&times);
        if still {
            turmoil::release(client, BROKER);
        }
        still
    }

    /// A link was cut, or may have been.
    pub(super) fn sever(&self) {
        self.severed.set(true);
    }

    /// Whether a link was ever cut.
    pub(super) fn was_severed(&self) -> bool {
        self.severed.get()
    }

    /// The beginning of a call.
    pub(super) fn call(&self, client: &Arc<str>, request: crate::trace::Request, probe: bool) -> CallId {
        self.recorder.call(client, request, probe)
    }
}

/// Whether a power loss now could leave this.
fn can_be_left(disk: &faults::Disk, keep: s::Keep) -> Result<(), String> {
    let s::Keep::Image(number) = keep else { return Ok(()) };
    match disk.images().count_up_to(number.into()) {
        Some(1) => Err("a power loss here leaves one image only, `image 0`".to_owned()),
        Some(count) => Err(format!("a power loss here leaves one of {count} images, 0 to {}", count - 1)),
        None => Ok(()),
    }
}
