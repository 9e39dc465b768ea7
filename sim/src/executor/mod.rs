//! `execute : scenario → trace`. The only place with a world in it, and a pure function of the scenario.
//!
//! turmoil's simulation has one host for the broker and one for each client. The first client goes through the scenario's
//! steps; the loop around it ticks the simulation, clears away a broker that has died, and does what only it can do, such as
//! starting a host. When the steps are through, everything is healed, the oracle looks at all there is, and every partition has
//! to take and give a record (P11).
//!
//! | file | is about |
//! | --- | --- |
//! | [`plan`] | the steps, numbered |
//! | `stage` | what clients share: the host, armed faults, commands to the loop |
//! | `actor` | a client: step after step |
//! | `requests`, `reads` | steps that are requests: what they ask; those that read |
//! | `came` | what came of them, and whether it had to |
//! | `ask`, `pipe` | one call, asked, answered, written down; many at once on one connection |
//! | `raw` | raw connections |
//! | `surgery`, `files` | files changed behind the broker's back; files for people |
//! | `look`, `ending` | the oracle's questions; how a run ends |
//! | `say` | what came of a step, in words |
//! | `races` | what those words leave out, since timing decides it |
//! | `panics` | what a panic said |

mod actor;
mod ask;
mod came;
mod ending;
mod files;
mod look;
pub(crate) mod panics;
mod pipe;
pub mod plan;
mod races;
mod raw;
mod reads;
mod requests;
mod say;
mod stage;
mod surgery;

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::mpsc;

use actor::Actor;
use plan::Node;
use stage::{Job, Stage};

use crate::scenario::{BrokerSettings, Scenario};
use crate::source_line::SourceLine;
use crate::trace::{Millis, Recorder, Trace, World};
use crate::world::BROKER;
use crate::world::clock::EPOCH_MS;
use crate::world::host::{Host, State};
use crate::world::net::Shape;

/// The first client's host.
pub const CLIENT: &str = "client";

/// The most simulated time that a run may take.
const SIMULATED_MAX: Duration = Duration::from_secs(7200);

/// The run itself failed, before the oracle could say anything.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// It did not come to its end in the simulated time that a run may take.
    #[error("the run did not end: {0}")]
    Stuck(String),
    /// The broker, or the harness, panicked.
    #[error("{0}")]
    Panic(String),
}

/// What came of a run: the trace, up to its end or to a panic.
#[derive(Debug)]
pub struct Executed {
    /// What happened.
    pub trace: Trace,
    /// The message of a panic, in the broker or in the harness.
    pub panic: Option<String>,
    /// The places in the broker that synced.
    pub syncs: Vec<faults::Site>,
}

/// A run, and all that its disk went through.
#[derive(Debug)]
pub struct Recorded {
    /// What came of it.
    pub executed: Executed,
    /// Every change to the disk.
    pub history: faults::History,
    /// Of each step of the history, the entry of the trace that it belongs to.
    pub marks: Vec<usize>,
    /// What the broker was started with, from which entry of the trace on.
    pub starts: Vec<(usize, BrokerSettings)>,
    /// What kept the disk from taking changes at the end of the scenario's own steps.
    pub limits_at_end: faults::Limits,
}

/// Runs a scenario. Its seed is its first; random lines must have been unfolded.
pub fn execute(scenario: &Scenario) -> Result<Executed, ExecuteError> {
    execute_without(scenario, &[])
}

/// Runs a scenario on a broker in which these places do not sync.
pub fn execute_without(scenario: &Scenario, off: &[SourceLine]) -> Result<Executed, ExecuteError> {
    let recorder = Recorder::default();
    let prepare = |host: &Host| off.iter().for_each(|at| host.disk.disable_barrier(&at.file, at.line));
    let (panic, syncs) = match panics::caught(|| run(scenario, &recorder, prepare)) {
        Ok(Ok(host)) => (None, host.disk.barriers().into_iter().map(|(site, _)| site).collect()),
        Ok(Err(why)) => return Err(ExecuteError::Stuck(why)),
        Err(words) => (Some(words), Vec::new()),
    };
    Ok(Executed { trace: recorder.take(), panic, syncs })
}

/// Runs a scenario, and writes down all that its disk goes through.
pub fn record(scenario: &Scenario) -> Result<Recorded, ExecuteError> {
    let recorder = Recorder::default();
    let ran = panics::caught(|| run(scenario, &recorder, |host| host.disk.record()));
    let host = match ran {
        Ok(Ok(host)) => host,
        Ok(Err(why)) => return Err(ExecuteError::Stuck(why)),
        Err(words) => return Err(ExecuteError::Panic(words)),
    };
    let history = host.disk.take_history();
    let history = history.ok_or_else(|| ExecuteError::Stuck("nothing was recorded".into()))?;
    let (marks, starts, limits_at_end) =
        (recorder.take_marks(), host.starts.take(), host.limits_at_end.get());
    let syncs = host.disk.barriers().into_iter().map(|(site, _)| site).collect();
    let executed = Executed { trace: recorder.take(), panic: None, syncs };
    Ok(Recorded { executed, history, marks, starts, limits_at_end })
}

/// One independent stream of random numbers for each subsystem.
fn stream(seed: u64, number: u64) -> u64 {
    let mut x = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn run(scenario: &Scenario, recorder: &Recorder, prepare: impl Fn(&Host)) -> Result<Rc<Host>, String> {
    let seed = scenario.seeds.start;
    let host = Rc::new(build_host(scenario, recorder, seed));
    prepare(&host);
    let mut sim = build_network(scenario, seed);
    let steps = plan::plan(&scenario.steps);
    let mut clients = plan::clients(&scenario.steps);
    let others = clients.clone();
    clients.insert(0, CLIENT.to_owned());
    let stage = Rc::new(Stage::new(host.clone(), clients, scenario.net.clone()));
    stage.set_disk(&scenario.disk);
    stage.tell_pace();
    host.clock.tell();
    if scenario.net.fail_rate.is_some() {
        stage.sever();
        stage.tell(World::Flaky(true));
    }
    if let Some(errors) = scenario.net.accept_errors {
        stage.tell(World::AcceptErrors(errors.into()));
    }
    let ended = Rc::new(Cell::new(false));
    // Clients before the broker: what they send in a tick, it answers in the same one.
    first_client(&mut sim, stage.clone(), steps, ended.clone());
    others.iter().for_each(|name| other_client(&mut sim, name, stage.clone()));
    let broker = host.clone();
    sim.host(BROKER, move || broker.clone().run());
    loop {
        let now = Millis::try_from(sim.elapsed().as_millis()).unwrap_or(Millis::MAX);
        recorder.set_now(now);
        host.disk.set_time(Duration::from_millis(now));
        let done = sim.step().map_err(|e| e.to_string())?;
        if let Some(death) = host.death() {
            stage.bury(&mut sim, &death);
        }
        while let Some(command) = { stage.commands.borrow_mut().pop_front() } {
            command(&mut sim);
        }
        if done && ended.get() {
            break;
        }
    }
    host.disk.kill_all(); // what is dropped with the simulation changes nothing
    host.disk.stop_observing();
    Ok(host)
}

fn build_host(scenario: &Scenario, recorder: &Recorder, seed: u64) -> Host {
    let profile = scenario.disk.profile.unwrap_or_default();
    let max_open = scenario.disk.max_open_files.map(|n| n as usize);
    let config = faults::Config { seed: stream(seed, 1), max_open, ..faults::Config::new(profile) };
    let disk = faults::Disk::new(config);
    let chunk = scenario.net.chunk_bytes.map(|n| n as usize);
    let shape = Shape::new(chunk, stream(seed, 2));
    let host = Host::new(disk, recorder.clone(), shape, scenario.broker.clone(), stream(seed, 3));
    if let Some(at) = scenario.clock.at {
        host.clock.set(at);
    }
    host.clock.stand_still(scenario.clock.frozen.unwrap_or(false));
    let errors = scenario.net.accept_errors.unwrap_or(0);
    host.accept_errors.store(errors.into(), std::sync::atomic::Ordering::Relaxed);
    host
}

fn build_network(scenario: &Scenario, seed: u64) -> turmoil::Sim<'static> {
    let latency = scenario.net.latency;
    let mut builder = turmoil::Builder::new();
    builder
        .epoch(UNIX_EPOCH + Duration::from_millis(EPOCH_MS))
        .rng_seed(stream(seed, 4))
        .simulation_duration(SIMULATED_MAX)
        .tick_duration(Duration::from_millis(1))
        .tcp_capacity(1 << 16)
        .min_message_latency(latency.map_or(Duration::ZERO, |span| span.min))
        .max_message_latency(latency.map_or(Duration::ZERO, |span| span.max));
    if let Some(rate) = scenario.net.fail_rate {
        builder.fail_rate(rate.as_f64());
    }
    if let Some(rate) = scenario.net.repair_rate {
        builder.repair_rate(rate.as_f64());
    }
    builder.build()
}

fn first_client(sim: &mut turmoil::Sim<'static>, stage: Rc<Stage>, steps: Vec<Node>, ended: Rc<Cell<bool>>) {
    sim.client(CLIENT, async move {
        let _ = stage.until(|state| *state != State::Starting && *state != State::Down).await;
        let mut actor = Actor::new(CLIENT, stage.clone());
        actor.run(&steps).await;
        stage.actors.borrow_mut().clear(); // the other clients have nothing more to do
        drop(actor);
        ending::end(&stage).await;
        ended.set(true);
        Ok(())
    });
}

fn other_client(sim: &mut turmoil::Sim<'static>, name: &str, stage: Rc<Stage>) {
    let (jobs, mut to_do) = mpsc::unbounded_channel::<Job>();
    stage.actors.borrow_mut().insert(name.to_owned(), jobs);
    let name = name.to_owned();
    sim.client(name.clone(), async move {
        // Its connections stay from one of its blocks to the next.
        let mut actor: Option<Actor> = None;
        while let Some(job) = to_do.recv().await {
            let actor = actor.get_or_insert_with(|| Actor::new(&name, stage.clone()));
            actor.round = job.round;
            actor.run(&job.steps).await;
            let _ = job.done.send(());
        }
        Ok(())
    });
}

#[cfg(test)]
mod tests;
