//! The disk itself: what survives every process and every power loss.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::config::Config;
use crate::event::{Death, Event, Site};
use crate::fault::{Fault, FaultError, FaultId, Keep};
use crate::history::{History, Recording};
use crate::image::{Image, Images};
use crate::limits::Limits;
use crate::machine::{Call, Life, Machine};
use crate::process::{Process, hold};
use crate::state::{Change, State};

/// A simulated disk, and the machine around it. Clones are the same disk.
#[derive(Clone)]
pub struct Disk {
    pub(crate) machine: Arc<Mutex<Machine>>,
}

impl Disk {
    /// An empty disk: a root directory, and nothing in it.
    pub fn new(config: Config) -> Disk {
        Disk::with_state(config, State::new(config.profile, config.lies()))
    }

    pub(crate) fn with_state(config: Config, state: State) -> Disk {
        Disk { machine: Arc::new(Mutex::new(Machine::new(config, state))) }
    }

    /// What the disk is like now.
    pub fn config(&self) -> Config {
        let machine = hold(&self.machine);
        Config { capacity: machine.limits.capacity, ..machine.config }
    }

    /// A new run of a program. Earlier ones that are alive go on; a restart is a crash, then this.
    pub fn process(&self) -> Process {
        let mut machine = hold(&self.machine);
        let id = machine.next_process;
        machine.next_process += 1;
        let life = Arc::new(Life { id, dead: AtomicBool::new(false), death: OnceLock::new() });
        machine.processes.insert(id, life.clone());
        Process { machine: self.machine.clone(), life }
    }

    /// What a process would be told: see [`Process::boot_id`].
    pub fn boot_id(&self) -> String {
        hold(&self.machine).boot_id()
    }

    /// Every process dies, as by `kill -9`: what they wrote stays in the cache, their locks and descriptors are gone.
    pub fn kill_all(&self) {
        hold(&self.machine).end_all(&Death { power_loss: false, inside: None });
    }

    /// This process dies, as by `kill -9`.
    pub fn kill(&self, process: &Process) {
        hold(&self.machine).end_process(process.id(), Death { power_loss: false, inside: None });
    }

    /// The lights go out: every process dies, the cache is gone, and what is on the medium is one of the images that
    /// the profile allows, drawn from the seed.
    pub fn power_loss(&self) {
        self.power_loss_keeping(Keep::Drawn);
    }

    /// The lights go out, and of what was pending so much is kept.
    pub fn power_loss_keeping(&self, keep: Keep) {
        hold(&self.machine).power_loss(Death { power_loss: true, inside: None }, None, keep);
    }

    /// Says what is kept when this fault, a power loss, strikes.
    pub fn keep(&self, id: FaultId, keep: Keep) {
        hold(&self.machine).keeps.insert(id, keep);
    }

    /// The lights go out, and this is what is left.
    pub fn power_loss_leaving(&self, image: &Image) {
        let mut machine = hold(&self.machine);
        let left = image.found(machine.config);
        machine.power_loss_leaving(left);
    }

    /// The disk as it is, as a value: what is pending is still pending on it. The next change of each file copies what
    /// is pending on that file, so a snapshot after each of many writes is not linear; a [`History`] is.
    pub fn snapshot(&self) -> Image {
        Image::new(hold(&self.machine).state.clone())
    }

    /// What a power loss now could leave.
    pub fn images(&self) -> Images {
        Images::new(hold(&self.machine).state.clone())
    }

    /// Sets the capacity anew: see [`Config::capacity`]. A disk that [`crate::Kind::Full`] filled has room again.
    pub fn set_capacity(&self, capacity: Option<u64>) {
        let limits = &mut hold(&self.machine).limits;
        (limits.capacity, limits.brim) = (capacity, None);
    }

    /// Sets anew how many files and locks one process may hold open: see [`Config::max_open`].
    pub fn set_max_open(&self, most: Option<usize>) {
        hold(&self.machine).config.max_open = most;
    }

    /// The bytes of the blocks that are in use, as processes see it.
    pub fn used(&self) -> u64 {
        hold(&self.machine).state.used_blocks * crate::PAGE
    }

    /// Makes the file system read-only, or writable again: see [`crate::Kind::ReadOnly`]. A power loss makes it writable.
    pub fn set_read_only(&self, read_only: bool) {
        hold(&self.machine).limits.read_only = read_only;
    }

    /// What keeps it from taking changes.
    pub fn limits(&self) -> Limits {
        hold(&self.machine).limits
    }

    /// Sets anew all that keeps it from taking changes.
    pub fn limit(&self, limits: Limits) {
        hold(&self.machine).limits = limits;
    }

    /// Clean pages leave the cache: the next read finds what the medium has, after lost, torn and misdirected writes and
    /// after failed syncs.
    pub fn drop_caches(&self) {
        let mut machine = hold(&self.machine);
        machine.change(&Call::new(crate::Op::Read, "/"), Change::DropCaches);
    }

    /// Aims a fault.
    pub fn aim(&self, fault: Fault) -> Result<FaultId, FaultError> {
        hold(&self.machine).faults.aim(fault)
    }

    /// Takes a fault back.
    pub fn disarm(&self, id: FaultId) {
        hold(&self.machine).faults.disarm(id);
    }

    /// Takes every fault back: from here on the disk is a good one.
    pub fn disarm_all(&self) {
        hold(&self.machine).faults.disarm_all();
    }

    /// A fault that was aimed, and how often it has struck; none where it was taken back.
    pub fn fault(&self, id: FaultId) -> Option<(Fault, u64)> {
        hold(&self.machine).faults.get(id).map(|(fault, fired)| (fault.clone(), fired))
    }

    /// The aimed faults that have never struck. A test with one of these has not tested what it says.
    pub fn unfired(&self) -> Vec<(FaultId, Fault)> {
        hold(&self.machine).faults.unfired()
    }

    /// Tags what happens from here on, so that a fault can be aimed at it: `recovery`, `roll`. Empty is no tag.
    pub fn set_phase(&self, phase: &str) {
        hold(&self.machine).phase = phase.into();
    }

    /// Tells the disk the simulated time, for faults that are aimed at one.
    pub fn set_time(&self, now: Duration) {
        hold(&self.machine).now = now;
    }

    /// How long the device has made its callers wait since this was last asked. The disk never sleeps: a simulation lets
    /// its own clock run on by as much.
    pub fn take_delay(&self) -> Duration {
        std::mem::take(&mut hold(&self.machine).delay)
    }

    /// How many operations the disk was asked for, failed ones too.
    pub fn operations(&self) -> u64 {
        hold(&self.machine).operations
    }

    /// Calls `observer` after each operation, before its caller gets the answer. It must not call the disk: the disk is
    /// locked.
    pub fn observe(&self, observer: impl FnMut(&Event<'_>) + Send + 'static) {
        hold(&self.machine).observer = Some(Box::new(observer));
    }

    /// Calls the observer no more.
    pub fn stop_observing(&self) {
        hold(&self.machine).observer = None;
    }

    /// Switches off every sync that is asked for at this place of the program: it says yes and does nothing. `file` is
    /// the end of the source file's path.
    pub fn disable_barrier(&self, file: &str, line: u32) {
        hold(&self.machine).barriers_off.insert((file.to_owned(), line));
    }

    /// Every place of the program that has asked for a sync, and how often.
    pub fn barriers(&self) -> Vec<(Site, u64)> {
        hold(&self.machine).sites.iter().map(|(site, count)| (*site, *count)).collect()
    }

    /// Begins to record a history, from the present state on; what was recorded before is forgotten.
    pub fn record(&self) {
        let mut machine = hold(&self.machine);
        machine.recording = Some(Recording::new(machine.state.clone()));
    }

    /// How many steps were recorded so far: where an acknowledgement belongs in the history.
    pub fn recorded(&self) -> usize {
        hold(&self.machine).recording.as_ref().map_or(0, Recording::len)
    }

    /// Ends the recording; none where there was none.
    pub fn take_history(&self) -> Option<History> {
        hold(&self.machine).recording.take().map(Recording::finish)
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = hold(&self.machine);
        f.debug_struct("Disk")
            .field("config", &machine.config)
            .field("boots", &machine.boots)
            .finish_non_exhaustive()
    }
}
