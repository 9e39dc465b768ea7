//! The scenario and its steps.

use std::time::Duration;

use super::{
    BrokerSettings, ClockChange, ClockSettings, Consume, CreateTopic, DiskSettings, Draw, Expect, Fault,
    Keep, Lines, ListPartitions, LookUp, NetSettings, Open, Produce, Random, Receive, Send, Surgery,
};

/// A world and what happens in it. Two equal scenarios give the same trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scenario {
    /// The comment at the head of the file, line by line: what the scenario shows, and why.
    pub about: Vec<String>,
    /// One line for lists and reports.
    pub title: String,
    /// The seeds that it is run with; each draws what the scenario leaves open (latencies, what survives a power
    /// loss, random blocks).
    pub seeds: Seeds,
    /// Whether its test visits every crash point too.
    pub explore: bool,
    /// States that its seeds promise to reach: a sweep that never reached one has not tested what it says.
    pub sometimes: Vec<String>,
    /// What the broker is started with.
    pub broker: BrokerSettings,
    /// The disk at the start.
    pub disk: DiskSettings,
    /// The network at the start.
    pub net: NetSettings,
    /// The broker's clock at the start.
    pub clock: ClockSettings,
    /// Lines of the world that a seed draws; none in an explicit scenario.
    pub draws: Vec<Draw>,
    /// What happens, in order. The broker runs before the first step.
    pub steps: Vec<Step>,
    /// Where they stand in the file.
    pub lines: Lines,
}

/// Seeds `start` to `end - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub start: u64,
    /// The one after the last; above `start`. The last of all seeds has none after it, and stands alone.
    pub end: u64,
}

impl Default for Seeds {
    fn default() -> Self {
        Self::one(0)
    }
}

impl Seeds {
    /// Just this one.
    pub fn one(seed: u64) -> Self {
        Self { start: seed, end: seed.saturating_add(1) }
    }

    /// Each of them; at least the first.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        self.start..=self.end.saturating_sub(1).max(self.start)
    }

    /// How many.
    pub fn count(self) -> u64 {
        self.end.saturating_sub(self.start).max(1)
    }
}

/// One line, or one block, of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `topic NAME partitions=N`: creates a topic.
    Topic(CreateTopic),
    /// `delete-topic NAME`.
    DeleteTopic {
        /// The topic.
        name: String,
        /// What must come of it.
        expect: Expect,
    },
    /// `list-topics`.
    ListTopics {
        /// What must come of it.
        expect: Expect,
        /// How many there must be.
        expect_count: Option<u32>,
    },
    /// `list-partitions TOPIC`.
    ListPartitions(ListPartitions),
    /// `produce TOPIC …`.
    Produce(Produce),
    /// `consume TOPIC …`: requests until the end is reached.
    Consume(Consume),
    /// `fetch TOPIC …`: one request.
    Fetch(Consume),
    /// `offsets TOPIC partition= at=`: earliest, latest, first at or after a time.
    Offsets(LookUp),
    /// `pipeline { … }`: the requests inside are sent back to back on one connection; then the answers are read.
    /// Holds only requests: topic, delete-topic, list-topics, list-partitions, produce, fetch, offsets.
    Pipeline(Vec<Step>),

    /// `open count=N`: raw connections that say nothing.
    Open(Open),
    /// `send …`: raw bytes on the client's raw connection, which is opened where there is none.
    Send(Send),
    /// `receive …`: one answer from the client's raw connection.
    Receive(Receive),
    /// `half-close`: the client's raw connection sends no more, and can still receive.
    HalfClose,
    /// `close`: closes the client's raw connections.
    Close,

    /// `fault OP "PATTERN" …`: arms one fault.
    Fault(Fault),
    /// `calm`: disarms what is armed and did not strike, makes every sector readable again, and heals the network.
    Calm,
    /// `drop-caches`: clean pages leave the page cache: the next read finds what is on the disk.
    DropCaches,
    /// `crash`: kill -9. The page cache survives.
    Crash,
    /// `power-loss`: the lights go out. Of what was not synced, a legal choice survives.
    PowerLoss {
        /// Which choice.
        keep: Keep,
    },
    /// `stop`: a clean stop.
    Stop,
    /// `start …`: starts the broker, which must be down.
    Start(Start),
    /// `restart …`: stops the broker cleanly if it runs, and starts it.
    Restart(Start),
    /// `second-broker …`: another broker process on the same directory, while the first may run. Stopped at once
    /// where it starts.
    SecondBroker {
        /// What must come of it; refused, by default.
        expect: StartExpect,
    },

    /// `corrupt`, `truncate`, `zeros`, `delete`, `write` … : what happens to files behind the broker's back.
    Surgery {
        /// What happens.
        surgery: Surgery,
        /// `may-miss`: that there is nothing to change is no failure.
        may_miss: bool,
    },
    /// `disk …`: changes the disk from here on.
    Disk(DiskSettings),
    /// `net …`: changes the network from here on.
    Net(NetSettings),
    /// `clock …`: sets, jumps, stops the broker's clock.
    Clock(ClockChange),
    /// `partition A B`: nothing passes between two hosts.
    Partition(Link),
    /// `hold A B`: what two hosts send each other waits, and passes when it heals.
    Hold(Link),
    /// `heal`: all links work again.
    Heal,
    /// `advance "5s"`: lets simulated time pass.
    Advance(Duration),

    /// `client NAME { … }`: the steps inside are another client's.
    Client(Branch),
    /// `parallel { client a { … } client b { … } }`: all at the same time.
    Parallel(Vec<Branch>),
    /// `repeat N { … }`.
    Repeat {
        /// How often.
        times: u32,
        /// What.
        steps: Vec<Step>,
    },
    /// `draw LINE` and `each LINE`: one line with choices that a seed makes. Not in an explicit scenario.
    Draw(Draw),
    /// `random steps=N { … }`: a generator. Not in an explicit scenario.
    Random(Random),

    /// `files`: prints the data directory's files, decoded in one line each.
    Files,
    /// `dump "FILE"`: prints one file, or all, record by record.
    Dump {
        /// Which; all by default.
        file: Option<String>,
    },
    /// `verify`: the broker's own offline check of the data directory, as `broker verify` does it.
    Verify(Verify),
    /// `check P2 P9`: asks the oracle now.
    Check(Check),
}

/// The steps of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branch {
    /// The client's name; also the name of its host in the network.
    pub client: String,
    /// Its steps. Anything may stand here: a branch may as well crash the broker while others produce.
    pub steps: Vec<Step>,
}

/// Two hosts of the network. The broker is `broker`; outside of `client` blocks the client is `client`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// One.
    pub a: String,
    /// The other.
    pub b: String,
    /// Only what goes from `a` to `b`; not of a `hold`.
    pub one_way: bool,
    /// Heals by itself after this time; the step itself does not wait.
    pub lasts: Option<Duration>,
}

/// How the broker is started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// Settings that change from here on.
    pub settings: BrokerSettings,
    /// What must come of it.
    pub expect: StartExpect,
    /// Bytes that recovery must cut off, over all partitions.
    pub expect_cut: Option<u64>,
    /// Records that must be found, over all partitions.
    pub expect_records: Option<u64>,
    /// Stretches of damage that must be found, over all partitions.
    pub expect_damage: Option<u64>,
}

/// What must come of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartExpect {
    /// It serves.
    #[default]
    Ok,
    /// It says why not, and ends.
    Refused,
    /// A fault kills it while it recovers.
    Crashed,
    /// Whatever happens; the oracle judges.
    Any,
}

/// The offline check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// How many problems it must find; the snapshot shows them.
    pub expect_problems: Option<u32>,
}

/// Which promises to ask the oracle about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Their numbers, 1 to 12; all where empty.
    pub promises: Vec<u8>,
}
