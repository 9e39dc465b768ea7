//! Goes through a trace once, keeps the model, and asks each promise where it can be broken.
//!
//! | part | takes in |
//! | --- | --- |
//! | `calls` | what clients ask and are told |
//! | `disk` | what the disk does, and fails to do |
//! | `images` | what files hold |
//! | `lost_topics` | a power loss over a disk that has lied about which topics there are |
//! | `starts`, `last_stop` | how the broker comes up and goes down |
//! | `looks` | what a look at a running broker has found |
//! | `successors` | topics that may have taken the place of others of their name |
//! | `beside` | a crash that did not happen in the run, and a start after it |

mod beside;
mod calls;
mod disk;
mod images;
mod last_stop;
mod looks;
mod lost_topics;
mod starts;
mod successors;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answered::Asked;
use super::disk_errors::DiskErrors;
use super::look::Look;
use super::lost_names::LostNames;
use super::model::Model;
use super::obstacles::{Before, Obstacles};
use super::p10_routed::Routing;
use super::p11_live::Liveness;
use super::retained::Logs;
use super::topic_changes::TopicChanges;
use super::{Findings, Verdict, p08_idempotent, p12_bounded};
use crate::trace::{CallId, CrashKind, DiskOp, Entry, Event, Image, Millis, Request, Trace, World};

pub(crate) use beside::StartBeside;
use last_stop::LastStop;

/// What the promises say about a trace.
pub fn judge(trace: &Trace) -> Verdict {
    let mut walk = Walk::default();
    for (index, entry) in trace.entries.iter().enumerate() {
        walk.findings.entry = index;
        walk.entry(entry);
    }
    walk.findings.into_verdict()
}

/// A trace, walked up to some entry. A clone goes on from there by itself.
#[derive(Clone, Default)]
pub(crate) struct Walk {
    pub(crate) findings: Findings,
    model: Model,
    routing: Routing,
    liveness: Liveness,
    obstacles: Obstacles,
    disk_errors: DiskErrors,
    last_stop: LastStop,
    topic_changes: TopicChanges,
    lost_names: LostNames,
    logs: Logs,
    /// Calls without their answers.
    calls: BTreeMap<CallId, Open>,
    /// A look that has begun and has not ended.
    look: Option<Look>,
    /// Files before the scenario's hand touched them.
    untouched: Option<Arc<Image>>,
    /// Files that the next start finds.
    down: Option<Arc<Image>>,
    /// The most connections that the broker may hold; 0 before it was started for the first time.
    connections_max: u64,
    /// Whether a client has sent bytes of its own making: what they ask for, nobody has looked at.
    raw: bool,
    /// A call that a signal has interrupted, and that may be made again.
    interrupted: Option<DiskOp>,
    now: Millis,
    /// When the broker's process began to start.
    process_began: Millis,
    /// When it was asked to stop, and what was in the way of that.
    stopping: Option<(Millis, Before)>,
}

/// A call without its answer.
#[derive(Clone)]
struct Open {
    client: Arc<str>,
    request: Request,
    /// The entry of the trace.
    entry: usize,
    /// How many crashes there had been.
    epoch: u32,
    struck: u64,
    asked: Asked,
    /// Of a topic to be made: whether one of its name was deleted before.
    was_deleted: bool,
}

impl Walk {
    /// Takes in an entry. Gives whether that can change what has to be found after a crash.
    pub(crate) fn entry(&mut self, entry: &Entry) -> bool {
        self.now = entry.at;
        let settled = self.interruption(&entry.event);
        let f = &mut self.findings;
        match &entry.event {
            Event::Call { id, client, request, .. } => {
                self.raw |= matches!(request, Request::Raw { .. });
                self.call(*id, client, request, entry.at);
            }
            Event::Answer { id, answer } => self.answer(*id, answer, entry.at),
            Event::Disk(op) => return self.disk(op) || settled,
            Event::Fault { path, damages, .. } => {
                self.disk_errors.strikes();
                self.obstacles.changed();
                if let Some(path) = path.as_deref().filter(|_| *damages) {
                    self.unreadable(path);
                }
            }
            Event::Starting(starting) => self.starting(starting),
            Event::Started { clean, partitions, .. } => self.started(*clean, partitions),
            Event::Crash { kind, during } => {
                let nothing_failed = self.disk_errors.stop_ends();
                if nothing_failed && *kind == CrashKind::FailedStop {
                    self.liveness.not_stopped(f, &format!("while it stopped: {during}"));
                }
                self.crash(*kind, entry.at);
            }
            Event::Image { moment, image } => self.image(*moment, image),
            Event::Again { how, once, other } => {
                p08_idempotent::again(f, &self.model, *how, once, other.as_deref().map_err(|why| &**why));
            }
            Event::LookBegins => self.look = Some(Look::default()),
            Event::LookEnds { complete, unseen } => self.look_ends(*complete, unseen),
            Event::World(change) => self.world(change, entry.at),
            Event::Healed => {
                self.obstacles.healed();
                self.liveness.healed();
            }
            Event::Network { connections_max, connections_left } => {
                p12_bounded::connections(f, self.connections_max, *connections_max, *connections_left);
            }
            Event::NotStarted { error } => self.liveness.not_started(f, error),
            Event::NotStopped { error } => self.liveness.not_stopped(f, error),
            Event::Ended => self.liveness.ended(f, &self.model),
            Event::Unmet { .. } | Event::Inert { .. } | Event::Impossible { .. } => {} // failures of their own kind
            Event::Step { .. } | Event::Said { .. } | Event::Surgery { .. } => {}
        }
        true
    }

    /// The world has changed around the broker.
    fn world(&mut self, change: &World, at: Millis) {
        match change {
            World::Stopping => self.disk_errors.stop_begins(),
            World::Clock(clock) => self.model.broker_clock.shows(*clock, at),
            // Also where syncs get quicker: one that has begun takes as long as it did before.
            World::Pace(pace) => self.model.slack_ms = self.model.slack_ms.max(pace.sync_slack()),
            World::Readable => self.model.readable = true,
            World::CachesDropped => {
                let starts = self.model.starts;
                self.model.all_mut().for_each(|known| known.caches_dropped(starts));
            }
            _ => {}
        }
        self.obstacles.world(change);
        if *change == World::Stopping {
            self.stopping = Some((at, self.obstacles.before_stop(at)));
        }
    }
}
