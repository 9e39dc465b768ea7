//! A client: goes through its steps one after another, compares what comes with what the scenario says must come, and writes
//! both down. Anything may stand in a client's steps: it may as well crash the broker while others produce.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::ask::{self, WorldClient};
use super::plan::Node;
use super::races::{Open, TIMING};
use super::raw::RawConnections;
use super::stage::{Job, Stage};
use super::{files, look, pipe, requests, say, surgery};
use crate::scenario::{Expect, Keep, Start, StartExpect, Step};
use crate::trace::{Answer, CrashKind, Event, Request, World};
use crate::world::clock::WorldClock;
use crate::world::host::State;
use crate::world::net::WorldConnector;
use crate::world::observe;

/// A client at work.
pub(super) struct Actor {
    pub(super) name: Arc<str>,
    pub(super) stage: Rc<Stage>,
    pub(super) client: WorldClient,
    /// The timeout that the client was made with.
    timeout: Option<Duration>,
    pub(super) connector: WorldConnector,
    pub(super) raw: RawConnections,
    /// The round of the innermost `repeat`.
    pub(super) round: u64,
}

impl Actor {
    pub(super) fn new(name: &str, stage: Rc<Stage>) -> Self {
        let connector = WorldConnector::new(stage.host.shape.clone());
        let (client, timeout) = (connect(&stage, &connector), stage.net.borrow().timeout);
        Self {
            name: name.into(),
            stage,
            client,
            timeout,
            connector,
            raw: RawConnections::default(),
            round: 0,
        }
    }

    /// All steps, in order.
    pub(super) fn run<'a>(&'a mut self, steps: &'a [Node]) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            for node in steps {
                self.stage.recorder.add(Event::Step { step: node.id, text: node.text.clone() });
                self.step(node).await;
            }
        })
    }

    pub(super) fn say(&self, step: u32, text: impl Into<Arc<str>>) {
        let text: Arc<str> = text.into();
        self.say_if(step, text.clone(), text);
    }

    /// Says what certainly comes of a step, and what has come of it this time.
    pub(super) fn say_if(&self, step: u32, text: impl Into<Arc<str>>, fact: impl Into<Arc<str>>) {
        self.stage.recorder.add(Event::Said { step, text: text.into(), fact: fact.into() });
    }

    pub(super) fn unmet(&self, step: u32, expected: impl Into<Arc<str>>, found: impl AsRef<str>) {
        let found = found.as_ref();
        let found = found.strip_prefix("→ ").unwrap_or(found);
        self.stage.recorder.add(Event::Unmet { step, expected: expected.into(), found: found.into() });
    }

    pub(super) fn impossible(&self, step: u32, text: impl Into<Arc<str>>) {
        self.stage.recorder.add(Event::Impossible { step, text: text.into() });
    }

    /// Asks, writes down call and answer, and says with which crash the answer was lost, if with one.
    pub(super) async fn ask(&self, request: Request) -> (Answer, Option<String>) {
        let crashes = self.stage.crashes();
        let id = self.stage.call(&self.name, request.clone(), false);
        let answer = ask::ask(&self.client, &request).await;
        pipe::remember(&self.stage, &request, &answer);
        self.stage.recorder.add(Event::Answer { id, answer: answer.clone() });
        let crash = (self.stage.crashes() != crashes).then(|| self.stage.last_crash().to_string());
        (answer, crash)
    }

    /// A timeout that any client has changed is every client's, and a connection cannot change its own.
    fn keep_up(&mut self) {
        let timeout = self.stage.net.borrow().timeout;
        if timeout != self.timeout {
            self.timeout = timeout;
            self.client = connect(&self.stage, &self.connector);
        }
    }

    async fn step(&mut self, node: &Node) {
        let id = node.id;
        self.keep_up();
        match &node.step {
            Step::Topic(_)
            | Step::DeleteTopic { .. }
            | Step::ListTopics { .. }
            | Step::ListPartitions(_)
            | Step::Produce(_)
            | Step::Consume(_)
            | Step::Fetch(_)
            | Step::Offsets(_) => requests::one(self, node).await,
            Step::Pipeline(_) => requests::pipeline(self, node).await,
            Step::Open(_) | Step::Send(_) | Step::Receive(_) | Step::HalfClose | Step::Close => {
                self.stage.tell(World::Raw);
                super::raw::step(self, node).await;
            }
            Step::Fault(fault) => match self.stage.aim(id, &node.text, fault) {
                Ok(said) => self.say(id, said),
                Err(why) => self.impossible(id, why),
            },
            Step::Calm => {
                self.stage.disarm();
                self.stage.mend_sectors();
                self.stage.heal();
            }
            Step::DropCaches => self.stage.drop_caches(),
            Step::Crash => self.kill(id, None).await,
            Step::PowerLoss { keep } => self.kill(id, Some(*keep)).await,
            Step::Stop => self.stop(id).await,
            Step::Start(start) => self.start(id, start).await,
            Step::Restart(start) => self.restart(id, start).await,
            Step::SecondBroker { expect } => self.second_broker(id, *expect),
            Step::Surgery { surgery, may_miss } => {
                match surgery::operate(&self.stage, &node.text, surgery, *may_miss, self.round) {
                    Ok(said) => self.say(id, said),
                    Err(why) => self.impossible(id, why),
                }
            }
            Step::Disk(change) => self.stage.set_disk(change),
            Step::Net(change) => self.net(change).await,
            Step::Clock(change) => clock(&self.stage.host.clock, change),
            Step::Partition(_) | Step::Hold(_) => self.link(node),
            Step::Heal => self.stage.heal(),
            Step::Advance(time) => sleep(*time).await,
            Step::Client(branch) => self.hand_over(id, &branch.client, &node.inside).await,
            Step::Parallel(_) => self.parallel(node).await,
            Step::Repeat { times, .. } => self.repeat(*times, &node.inside).await,
            Step::Draw(_) | Step::Random(_) => self.impossible(id, "a seed has to unfold this line first"),
            Step::Files => self.say_unless(Open::Count, id, files::list(&self.stage.host.image())),
            Step::Dump { file } => match files::dump(&self.stage.host.image(), file.as_deref()) {
                Ok(text) => self.say_unless(Open::Order, id, text),
                Err(why) => self.impossible(id, why),
            },
            Step::Verify(verify) => files::verify(self, id, *verify),
            Step::Check(_) => self.check(id).await,
        }
    }

    async fn repeat(&mut self, times: u32, inside: &[Node]) {
        let before = self.round;
        for round in 0..u64::from(times) {
            self.round = round;
            self.run(inside).await;
        }
        self.round = before;
    }

    /// Looks at the whole broker, where one serves and nobody else asks it.
    async fn check(&self, id: u32) {
        if self.stage.races.running() {
            let why = "a check needs a broker that nobody else asks: it belongs behind the block";
            return self.impossible(id, why);
        }
        match self.stage.why_down() {
            Some(why) => self.impossible(id, format!("there is nobody to ask: {why}")),
            // What is judged is what could be looked at.
            None => match look::look(&self.stage).await {
                unseen if unseen.is_empty() => {}
                unseen => self.say(id, format!("could not look at {}", unseen.join(", "))),
            },
        }
    }

    /// Says what is in the files, unless timing decides this much about them.
    fn say_unless(&self, open: Open, id: u32, fact: String) {
        let races = &self.stage.races;
        let open = races.running() || races.most().is_some_and(|most| most >= open);
        self.say_if(id, if open { TIMING.to_owned() } else { fact.clone() }, fact);
    }

    async fn restart(&mut self, id: u32, start: &Start) {
        if self.stage.host.state() == State::Up {
            self.stop(id).await;
        }
        self.start(id, start).await;
    }

    async fn kill(&self, id: u32, power: Option<Keep>) {
        match self.stage.kill(power).await {
            Ok(true) => {}
            // Where another client may have been first, that is no certain outcome.
            Ok(false) if self.stage.races.running() => self.say_if(id, "", "is not running"),
            Ok(false) => self.say(id, "is not running"),
            Err(why) => self.impossible(id, why),
        }
    }

    async fn stop(&mut self, id: u32) {
        if self.stage.host.state() != State::Up {
            return self.say(id, "is not running");
        }
        // A client that is idle would only be waited for.
        self.client = connect(&self.stage, &self.connector);
        let crashes = self.stage.crashes();
        if let Err(why) = self.stage.stop().await {
            self.unmet(id, "the broker stops", why);
        } else if self.stage.crashes() != crashes {
            self.say(id, self.stage.last_crash());
        }
    }

    async fn start(&mut self, id: u32, start: &Start) {
        if matches!(self.stage.host.state(), State::Up | State::Starting) {
            match start.expect {
                StartExpect::Any => {
                    self.uncounted(id, start, "the broker is already running");
                    self.say(id, "is already running");
                }
                _ => self.impossible(id, "the broker is already running; `restart` stops it first"),
            }
            return;
        }
        let settings = self.stage.host.settings.borrow().with(&start.settings);
        self.stage.host.settings.replace(settings);
        let both = |found, said: String| (found, said.clone(), said);
        let (found, said, fact) = match self.stage.start().await {
            Ok(State::Up) => {
                let (said, fact) = self.started(id, start);
                (StartExpect::Ok, said, fact)
            }
            Ok(State::Failed(why)) => both(StartExpect::Refused, format!("→ does not start: {why}")),
            Ok(_) => both(StartExpect::Crashed, format!("→ {}", self.stage.last_crash())),
            Err(why) => return self.unmet(id, "the broker starts", why),
        };
        if start.expect != StartExpect::Any && start.expect != found {
            self.unmet(id, start.expect.to_string(), &fact);
        } else if found != StartExpect::Ok {
            self.uncounted(id, start, &fact);
        }
        let open = start.expect == StartExpect::Any && self.stage.races.running();
        self.say_if(id, if open { TIMING } else { &said }, fact);
        if found == StartExpect::Ok && self.stage.is_quiet() {
            look::look(&self.stage).await;
        }
    }

    /// What recovery certainly found, and what it found this time; and whether that is what had to be found.
    fn started(&self, id: u32, start: &Start) -> (String, String) {
        let report = self.stage.host.report();
        let sums = [
            ("bytes cut", start.expect_cut, report.partitions.iter().map(|p| p.cut).sum::<u64>()),
            (
                "records",
                start.expect_records,
                report.partitions.iter().map(|p| p.end.saturating_sub(p.start)).sum(),
            ),
            ("damage", start.expect_damage, report.partitions.iter().map(|p| p.damage.len() as u64).sum()),
        ];
        for (what, expected, found) in sums {
            if expected.is_some_and(|expected| expected != found) {
                self.unmet(id, format!("{what}: {}", expected.unwrap_or_default()), found.to_string());
            }
        }
        let said = self.stage.races.recovered(&report.partitions, &report.notes);
        (said, say::recovered(&report.partitions, &report.notes))
    }

    /// What was to be counted where nothing was: that was not found right.
    fn uncounted(&self, id: u32, start: &Start, found: &str) {
        let counts = [
            ("bytes cut", start.expect_cut),
            ("records", start.expect_records),
            ("damage", start.expect_damage),
        ];
        for (what, expected) in counts {
            if let Some(expected) = expected {
                self.unmet(id, format!("{what}: {expected}"), found);
            }
        }
    }

    fn second_broker(&self, id: u32, expect: StartExpect) {
        let (opened, death) = self.stage.host.second_broker();
        // Where a broker runs, it has died of that too, and is buried for it.
        if let Some(death) = death
            && self.stage.lights_out(&death)
            && self.stage.host.death().is_none()
        {
            self.stage.down(CrashKind::Power, &observe::place_of(&death));
        }
        let (found, said) = match opened {
            Ok(()) => (StartExpect::Ok, "→ started".to_owned()),
            Err(why) => (StartExpect::Refused, format!("→ does not start: {why}")),
        };
        self.say(id, said.as_str());
        if expect != StartExpect::Any && expect != found {
            // Without a first broker there is nobody to refuse it: that explains it.
            let alone = self.stage.why_down().filter(|_| found == StartExpect::Ok);
            let alone = alone.map_or_else(String::new, |why| format!(", as the only one: {why}"));
            self.unmet(id, expect.to_string(), said + &alone);
        }
    }

    async fn net(&mut self, change: &crate::scenario::NetSettings) {
        if let Some(errors) = change.accept_errors {
            self.stage.host.accept_errors.store(errors.into(), std::sync::atomic::Ordering::Relaxed);
            self.stage.tell(World::AcceptErrors(errors.into()));
        }
        if change.timeout.is_some() {
            self.stage.net.borrow_mut().timeout = change.timeout;
            self.stage.tell_pace();
        }
        let (latency, rate) = (change.latency, change.fail_rate);
        if let Some(rate) = rate {
            self.stage.sever();
            self.stage.tell(World::Flaky(rate.millionths > 0));
        }
        if latency.is_some() {
            self.stage.net.borrow_mut().latency = latency;
            self.stage.tell_pace();
        }
        let clients = self.stage.clients.clone();
        self.stage
            .command(move |sim| {
                if let Some(span) = latency {
                    for client in &clients {
                        sim.set_link_latency(client.as_str(), crate::world::BROKER, span.min);
                        sim.set_link_max_message_latency(client.as_str(), crate::world::BROKER, span.max);
                    }
                }
                if let Some(rate) = rate {
                    sim.set_fail_rate(rate.as_f64());
                }
            })
            .await;
    }

    fn link(&self, node: &Node) {
        let (link, hold) = match &node.step {
            Step::Partition(link) => (link, false),
            Step::Hold(link) => (link, true),
            _ => return,
        };
        let broker = crate::world::BROKER;
        let known = |host: &String| host == broker || self.stage.clients.contains(host);
        if let Some(stranger) = [&link.a, &link.b].into_iter().find(|host| !known(host)) {
            let known = self.stage.clients.join(", ");
            return self
                .impossible(node.id, format!("there is no host {stranger:?}; there are {broker}, {known}"));
        }
        self.stage.sever();
        let (a, b) = (link.a.clone(), link.b.clone());
        let client = if a == broker { b.clone() } else { a.clone() };
        let times = self.stage.relink(&client);
        let ends: (Arc<str>, Arc<str>) = (a.as_str().into(), b.as_str().into());
        self.stage.tell(World::Cut(ends.0.clone(), ends.1.clone()));
        match (hold, link.one_way) {
            (true, _) => turmoil::hold(a.as_str(), b.as_str()),
            (false, true) => turmoil::partition_oneway(a.as_str(), b.as_str()),
            (false, false) => turmoil::partition(a.as_str(), b.as_str()),
        }
        if let Some(lasts) = link.lasts {
            let stage = self.stage.clone();
            tokio::task::spawn_local(async move {
                sleep(lasts).await;
                if stage.heal_if_still(&client, times) {
                    stage.tell(World::Mended(ends.0, ends.1));
                }
            });
        }
    }

    /// Another client's steps: it goes through them on its own host, and this one waits.
    async fn hand_over(&self, id: u32, client: &str, steps: &[Node]) {
        if let Some(done) = self.send(id, client, steps) {
            let _ = done.await;
        }
    }

    fn send(&self, id: u32, client: &str, steps: &[Node]) -> Option<oneshot::Receiver<()>> {
        let (done, wait) = oneshot::channel();
        let actors = self.stage.actors.borrow();
        let job = Job { steps: steps.to_vec(), round: self.round, done };
        let sent = actors.get(client).is_some_and(|actor| actor.send(job).is_ok());
        if !sent {
            self.impossible(id, format!("client {client:?} is in the middle of its own steps"));
        }
        sent.then_some(wait)
    }

    async fn parallel(&self, node: &Node) {
        let branches = node.inside.iter().filter_map(|branch| match &branch.step {
            Step::Client(client) => Some((branch, client)),
            _ => None,
        });
        let mut waits = Vec::new();
        let race = node.inside.len() > 1;
        if race {
            self.stage.races.begin(&node.inside);
        }
        self.stage.busy.set(self.stage.busy.get() + 1);
        for (branch, client) in branches {
            waits.extend(self.send(branch.id, &client.client, &branch.inside));
        }
        for wait in waits {
            let _ = wait.await;
        }
        self.stage.busy.set(self.stage.busy.get() - 1);
        if race {
            self.stage.races.end();
        }
    }
}

/// A client that connects when it needs to.
fn connect(stage: &Stage, connector: &WorldConnector) -> WorldClient {
    WorldClient::new(connector.clone(), ask::address(), ask::options(stage.net.borrow().timeout))
}

fn clock(clock: &WorldClock, change: &crate::scenario::ClockChange) {
    if let Some(at) = change.at {
        clock.set(at);
    }
    if let Some(jump) = change.jump {
        clock.jump(jump);
    }
    if let Some(frozen) = change.frozen {
        clock.stand_still(frozen);
    }
    clock.tell();
}

/// Whether an answer is what had to come.
pub(super) fn fits(expect: Expect, answer: &Answer) -> bool {
    use crate::trace::Placed;
    match (expect, answer) {
        (Expect::Any, _) => true,
        (Expect::Ok, Answer::Produced(placed)) => placed.iter().all(|p| matches!(p, Placed::At(..))),
        (Expect::Refused, Answer::Produced(placed)) => placed.iter().all(|p| matches!(p, Placed::Refused(_))),
        (Expect::Code(wanted), Answer::Produced(placed)) => {
            !placed.is_empty() && placed.iter().all(|p| *p == Placed::Refused(wanted))
        }
        (Expect::Unknown, Answer::Produced(placed)) => placed.contains(&Placed::Unknown),
        (Expect::Ok, answer) => !matches!(answer, Answer::Refused { .. } | Answer::Lost { .. }),
        (Expect::Refused, answer) => matches!(answer, Answer::Refused { .. }),
        (Expect::Unknown, answer) => matches!(answer, Answer::Lost { .. }),
        (Expect::Code(wanted), Answer::Refused { code, .. }) => *code == wanted,
        // The broker has said so; a request that is merely lost has no code.
        (Expect::Code(wanted), Answer::Lost { told, .. }) => *told && wanted.leaves_outcome_unknown(),
        (Expect::Code(_), _) => false,
    }
}
