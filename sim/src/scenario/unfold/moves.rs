//! What a random block can do in one step. Each move writes one or a few lines, and leaves a broker that runs, no fault
//! armed, a disk with room and a network that is whole: the next move, whichever it is, can be executed.

use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::{Streams, Topic};
use crate::oracle::decode;
use crate::scenario::{
    Aim, Branch, ClockChange, Consume, Content, CreateTopic, Expect, Fault, FaultKind, FilePosition, Keep,
    Link, LookUp, OffsetAt, Op, Phase, Produce, Start, StartExpect, Step, Surgery,
};

/// The names in `weights`.
pub const MOVES: [&str; 39] = [
    "produce",
    "consume",
    "fetch",
    "offsets",
    "list",
    "pipeline",
    "parallel",
    "topic",
    "delete-topic",
    "restart",
    "crash",
    "power-loss",
    "crash-writing",
    "power-loss-writing",
    "crash-syncing",
    "crash-anywhere",
    "crash-recovering",
    "crash-stopping",
    "crash-parallel",
    "write-error",
    "file-error",
    "sync-error",
    "slow-sync",
    "writeback-error",
    "read-error",
    "interrupt",
    "index-error",
    "disk-full",
    "read-only",
    "start-error",
    "lie",
    "damage-log",
    "damage-index",
    "tear-log",
    "lose-sector",
    "rot",
    "partition",
    "clock",
    "wait",
];

/// The hosts between which a network breaks.
const HOSTS: [&str; 2] = ["client", "broker"];

/// Writes moves.
pub(super) struct Mover<'a> {
    pub(super) streams: &'a mut Streams,
    pub(super) topics: &'a mut Vec<Topic>,
    /// How many keys there are.
    pub(super) keys: u32,
    /// The largest value.
    pub(super) size: u32,
    /// Of how many values one begins with records; 0: none.
    pub(super) copied: u32,
    /// How many topics it has made: no name comes twice, so that a deleted topic is not taken for a new one.
    pub(super) made: u32,
}

impl Mover<'_> {
    /// The lines of one move.
    pub(super) fn go(&mut self, name: &str, out: &mut Vec<Step>) {
        match name {
            "produce" => out.push(self.produce()),
            "consume" => out.push(self.consume()),
            "fetch" => out.push(self.fetch()),
            "offsets" => out.push(self.offsets()),
            "list" => out.push(Step::ListTopics { expect: Expect::Ok, expect_count: None }),
            "pipeline" => self.pipeline(out),
            "parallel" => out.push(self.parallel(false)),
            "topic" => self.topic(out),
            "delete-topic" => self.delete_topic(out),
            "restart" => out.push(start()),
            "crash" => out.extend([Step::Crash, start()]),
            "power-loss" => {
                let keep = self.keep();
                out.extend([Step::PowerLoss { keep }, start()]);
            }
            "crash-writing" => self.dying_write(false, out),
            "power-loss-writing" => self.dying_write(true, out),
            "crash-syncing" => self.dying(&[Op::Sync, Op::SyncDir], None, out),
            "crash-anywhere" => self.dying(&[Op::Any], None, out),
            "crash-recovering" => self.dying_recovery(out),
            "crash-stopping" => self.dying(&[Op::Any], Some(Phase::Stop), out),
            "crash-parallel" => out.extend([self.parallel(true), start()]),
            "write-error" => self.write_error(out),
            "file-error" => self.file_error(out),
            "sync-error" => self.sync_error(out),
            "slow-sync" => self.slow_sync(out),
            "writeback-error" => self.writeback_error(out),
            "read-error" => self.read_error(out),
            "interrupt" => self.interrupt(out),
            "index-error" => self.index_error(out),
            "disk-full" => self.disk_full(out),
            "read-only" => self.read_only(out),
            "start-error" => self.start_error(out),
            "lie" => self.lie(out),
            "damage-log" => self.damage("log", out),
            "damage-index" => self.damage_index(out),
            "tear-log" => self.tear_log(out),
            "lose-sector" => self.lose_sector(out),
            "rot" => self.rot(out),
            "partition" => self.partition(out),
            "clock" => out.push(self.clock()),
            _ => out.push(Step::Advance(self.short())),
        }
    }

    // Requests. A random run expects nothing of one answer: the oracle judges.

    pub(super) fn a_topic(&mut self) -> Topic {
        let none = || Topic { name: "orders".to_owned(), partitions: 1 };
        self.topics.choose(&mut self.streams.workload).cloned().unwrap_or_else(none)
    }

    pub(super) fn produce(&mut self) -> Step {
        let topic = self.a_topic();
        let rng = &mut self.streams.workload;
        let key = match rng.random_range(0..8u32) {
            0 => None,
            1 => Some(Content::Text(String::new())),
            _ => Some(Content::Text(format!("user-{}", rng.random_range(0..self.keys)))),
        };
        // Small sizes often, the edges sometimes.
        let size = match rng.random_range(0..8u32) {
            0 => 0,
            1 => self.size,
            2 | 3 => rng.random_range(0..=self.size),
            _ => rng.random_range(0..=self.size.min(24)),
        };
        let is_copied = self.copied > 0 && rng.random_range(0..self.copied) == 0;
        let value =
            if is_copied { records(rng.random_range(0..=self.size)) } else { Content::Size(size.into()) };
        let count = *[1, 1, 1, 2, 3, 8].choose(rng).unwrap_or(&1);
        Step::Produce(Produce {
            partition: (rng.random_range(0..4u32) == 0).then(|| rng.random_range(0..topic.partitions)),
            topic: topic.name,
            key,
            value,
            count,
            batch: *[1, count].choose(rng).unwrap_or(&1),
            expect: Expect::Any,
            ..Produce::default()
        })
    }

    pub(super) fn consume(&mut self) -> Step {
        let topic = self.a_topic();
        let rng = &mut self.streams.workload;
        let all = topic.partitions == 1 || rng.random_range(0..4u32) > 0;
        Step::Consume(Consume {
            partition: all.then(|| rng.random_range(0..topic.partitions)),
            topic: topic.name,
            from: Some(rng.random_range(0..20)).filter(|from| *from > 5),
            // Less would read a long log record by record, in as many requests: a fetch asks for less.
            max_bytes: [None, None, Some(1000), Some(4096)].choose(rng).copied().flatten(),
            expect: Expect::Any,
            ..Consume::default()
        })
    }

    pub(super) fn fetch(&mut self) -> Step {
        let topic = self.a_topic();
        let rng = &mut self.streams.workload;
        Step::Fetch(Consume {
            partition: Some(rng.random_range(0..topic.partitions)),
            topic: topic.name,
            from: Some(rng.random_range(0..40)),
            max_bytes: [None, Some(0), Some(1), Some(64), Some(200)].choose(rng).copied().flatten(),
            expect: Expect::Any,
            ..Consume::default()
        })
    }

    fn offsets(&mut self) -> Step {
        let topic = self.a_topic();
        let rng = &mut self.streams.workload;
        let at = *[OffsetAt::Earliest, OffsetAt::Latest].choose(rng).unwrap_or(&OffsetAt::Latest);
        Step::Offsets(LookUp {
            partition: rng.random_range(0..topic.partitions),
            topic: topic.name,
            at,
            ..LookUp::default()
        })
    }

    fn pipeline(&mut self, out: &mut Vec<Step>) {
        let length = self.streams.workload.random_range(2..6u32);
        let mut steps = Vec::new();
        for i in 0..length {
            steps.push(if i % 3 == 2 { self.fetch() } else { self.produce() });
        }
        out.push(Step::Pipeline(steps));
    }

    /// Two or three clients at the same time; one of them may kill the broker while the others are at work.
    fn parallel(&mut self, crash: bool) -> Step {
        let mut branches = Vec::new();
        for client in ["a", "b"] {
            let mut steps = Vec::new();
            for _ in 0..self.streams.workload.random_range(1..4u32) {
                steps.push(self.produce());
            }
            steps.push(self.consume());
            branches.push(Branch { client: client.to_owned(), steps });
        }
        if crash {
            let wait = Duration::from_millis(self.streams.faults.random_range(1..12));
            let kill = match self.streams.faults.random_range(0..2u32) {
                0 => Step::Crash,
                _ => Step::PowerLoss { keep: self.keep() },
            };
            branches.push(Branch { client: "c".to_owned(), steps: vec![Step::Advance(wait), kill] });
        }
        Step::Parallel(branches)
    }

    fn topic(&mut self, out: &mut Vec<Step>) {
        if self.topics.len() >= 4 {
            return out.push(self.produce());
        }
        let topic = Topic {
            name: format!("made-{}", self.made),
            partitions: self.streams.workload.random_range(1..4),
        };
        self.made += 1;
        out.push(Step::Topic(CreateTopic {
            name: topic.name.clone(),
            partitions: topic.partitions,
            expect: Expect::Any,
            ..CreateTopic::default()
        }));
        self.topics.push(topic);
    }

    fn delete_topic(&mut self, out: &mut Vec<Step>) {
        if self.topics.len() < 2 {
            return out.push(self.produce());
        }
        let topic = self.topics.remove(self.streams.workload.random_range(1..self.topics.len()));
        out.push(Step::DeleteTopic { name: topic.name, expect: Expect::Any });
    }

    /// A few requests: what a fault strikes. Now and then at once, from one client or from two: a fault that strikes one may
    /// leave another waiting.
    pub(super) fn work(&mut self, out: &mut Vec<Step>) {
        match self.streams.workload.random_range(0..8u32) {
            0 => self.pipeline(out),
            1 => out.push(self.parallel(false)),
            _ => {
                for _ in 0..self.streams.workload.random_range(1..5u32) {
                    out.push(self.produce());
                }
            }
        }
    }

    // Deaths.

    pub(super) fn keep(&mut self) -> Keep {
        match self.streams.faults.random_range(0..6u32) {
            0 => Keep::Nothing,
            1 => Keep::Everything,
            _ => Keep::Drawn,
        }
    }

    fn death(&mut self, bytes: Option<u64>, power: bool) -> FaultKind {
        if power { FaultKind::PowerLoss { bytes, keep: self.keep() } } else { FaultKind::Crash { bytes } }
    }

    /// A write gets so many bytes down, and then the process, or the machine, is gone.
    fn dying_write(&mut self, power: bool, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let pattern = *["*.log", "*.log", "*.log", "*.index", "*.timeindex"].choose(rng).unwrap_or(&"*.log");
        let nth = rng.random_range(1..4);
        let bytes = rng.random_range(0..48);
        let kind = self.death(Some(bytes), power);
        out.push(fault(Op::Write, pattern, Aim { nth, ..Aim::default() }, kind));
        self.work(out);
        out.extend([Step::Calm, start()]);
    }

    /// The process, or the machine, is gone at one of these operations.
    fn dying(&mut self, ops: &[Op], during: Option<Phase>, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let op = *ops.choose(rng).unwrap_or(&Op::Any);
        let aim = Aim { nth: rng.random_range(1..10), during, ..Aim::default() };
        let power = rng.random_range(0..2u32) == 0;
        let kind = self.death(None, power);
        out.push(fault(op, "**", aim, kind));
        self.work(out);
        if during == Some(Phase::Stop) {
            out.push(Step::Stop);
        }
        out.extend([Step::Calm, start()]);
    }

    /// Recovery after a crash is itself cut off, once or twice.
    fn dying_recovery(&mut self, out: &mut Vec<Step>) {
        let power = self.streams.faults.random_range(0..2u32) == 0;
        out.push(if power { Step::PowerLoss { keep: self.keep() } } else { Step::Crash });
        for _ in 0..self.streams.faults.random_range(1..3u32) {
            let op = *[Op::Any, Op::Any, Op::Write, Op::Sync, Op::Truncate]
                .choose(&mut self.streams.faults)
                .unwrap_or(&Op::Any);
            let nth = if op == Op::Any { self.streams.faults.random_range(1..40) } else { 1 };
            let aim = Aim { nth, during: Some(Phase::Recovery), ..Aim::default() };
            let power = self.streams.faults.random_range(0..2u32) == 0;
            let kind = self.death(None, power);
            out.push(fault(op, "**", aim, kind));
            out.push(Step::Restart(Start { expect: StartExpect::Any, ..Start::default() }));
            out.push(Step::Calm);
        }
        out.push(start());
    }

    // What happens to files while the broker is down.

    pub(super) fn a_file(&mut self, ending: &str) -> String {
        let topic = self.a_topic();
        let rng = &mut self.streams.faults;
        let which = *["@first", "@last", "@last"].choose(rng).unwrap_or(&"@last");
        format!("{}/{}/{which}.{ending}", topic.name, rng.random_range(0..topic.partitions))
    }

    fn a_place(&mut self) -> FilePosition {
        FilePosition::Percent(self.streams.faults.random_range(0..100))
    }

    /// Stopped cleanly or killed.
    pub(super) fn down(&mut self) -> Step {
        if self.streams.faults.random_range(0..3u32) == 0 { Step::Crash } else { Step::Stop }
    }

    fn damage(&mut self, ending: &str, out: &mut Vec<Step>) {
        let (down, file, at) = (self.down(), self.a_file(ending), self.a_place());
        let rng = &mut self.streams.faults;
        let surgery = match rng.random_range(0..4u32) {
            0 => Surgery::Zeros { file, at: Some(at), bytes: rng.random_range(1..64) },
            1 => Surgery::Write { file, at: Some(at), bytes: Content::Hex(bytes(rng)) },
            _ => Surgery::Corrupt { file, at, xor: 1 << rng.random_range(0..8u32), bytes: 1 },
        };
        out.extend([down, changed(surgery), start()]);
    }

    fn damage_index(&mut self, out: &mut Vec<Step>) {
        let ending = *["index", "timeindex"].choose(&mut self.streams.faults).unwrap_or(&"index");
        if self.streams.faults.random_range(0..2u32) == 0 {
            return self.damage(ending, out);
        }
        let (down, file, to) = (self.down(), self.a_file(ending), self.a_place());
        out.extend([down, changed(Surgery::Truncate { file, to }), start()]);
    }

    /// The last segment loses its end: records that nobody may have lost, but that a scan must not stumble over.
    fn tear_log(&mut self, out: &mut Vec<Step>) {
        let (down, file, to) = (self.down(), self.a_file("log"), self.a_place());
        out.extend([down, changed(Surgery::Truncate { file, to }), start()]);
    }

    /// A sector of a log cannot be read, found out by a start or by a reader. Then the disk reads again, and so must a start.
    fn lose_sector(&mut self, out: &mut Vec<Step>) {
        let any = || Step::Restart(Start { expect: StartExpect::Any, ..Start::default() });
        let (file, at) = (self.a_file("log"), self.a_place());
        let lost = changed(Surgery::Unreadable { file, at });
        // The sector is bad from the read on that finds out, of a start or of a reader.
        let rng = &mut self.streams.faults;
        let kind = FaultKind::Unreadable { byte: *[0, 300, 1000].choose(rng).unwrap_or(&0) };
        let aim = Aim { nth: rng.random_range(1..4), ..Aim::default() };
        let under_a_read = fault(Op::Read, "*.log", aim, kind);
        match rng.random_range(0..4u32) {
            0 => out.push(lost),
            1 => out.extend([self.down(), lost, any()]),
            2 => out.extend([under_a_read, self.consume()]),
            _ => out.extend([under_a_read, self.down(), any()]),
        }
        out.extend([self.fetch(), self.produce()]);
        if self.streams.faults.random_range(0..2u32) == 0 {
            out.extend([Step::Crash, any(), self.produce(), self.consume()]);
        }
        out.extend([Step::Calm, self.fetch(), start()]);
    }

    /// A bit flips as it is read, by a client or by a start.
    fn rot(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let pattern =
            *["*.log", "*.log", "*.log", "*.index", "*.timeindex", "**"].choose(rng).unwrap_or(&"*.log");
        let kind = FaultKind::Flip { bit: rng.random_range(0..2400) };
        let aim = Aim { nth: rng.random_range(1..4), ..Aim::default() };
        if rng.random_range(0..2u32) == 0 {
            out.push(fault(Op::Read, pattern, aim, kind));
            out.extend([self.consume(), self.fetch(), Step::Calm]);
        } else {
            let during = Some(Phase::Recovery);
            out.push(fault(Op::Read, pattern, Aim { during, ..aim }, kind));
            let any = Step::Restart(Start { expect: StartExpect::Any, ..Start::default() });
            out.extend([self.down(), any, Step::Calm]);
        }
        self.work(out);
        out.extend([start(), self.consume()]);
    }

    // Network and time.

    fn partition(&mut self, out: &mut Vec<Step>) {
        let one_way = self.streams.faults.random_range(0..3u32) == 0;
        let swap = self.streams.faults.random_range(0..2usize);
        let link = Link { a: HOSTS[swap].to_owned(), b: HOSTS[1 - swap].to_owned(), one_way, lasts: None };
        out.push(if self.streams.faults.random_range(0..3u32) == 0 && !one_way {
            Step::Hold(link)
        } else {
            Step::Partition(link)
        });
        out.extend([self.produce(), Step::Heal, self.produce(), self.consume()]);
    }

    fn clock(&mut self) -> Step {
        let rng = &mut self.streams.faults;
        let jump = *[-3_600_000, -1_000, -1, 1, 1_000, 86_400_000].choose(rng).unwrap_or(&1);
        match rng.random_range(0..4u32) {
            0 => Step::Clock(ClockChange { frozen: Some(true), ..ClockChange::default() }),
            1 => Step::Clock(ClockChange { frozen: Some(false), ..ClockChange::default() }),
            _ => Step::Clock(ClockChange { jump: Some(jump), ..ClockChange::default() }),
        }
    }

    fn short(&mut self) -> Duration {
        Duration::from_millis(self.streams.workload.random_range(1..60))
    }
}

pub(super) fn start() -> Step {
    Step::Restart(Start::default())
}

pub(super) fn fault(op: Op, pattern: &str, aim: Aim, kind: FaultKind) -> Step {
    Step::Fault(Fault { op, pattern: pattern.to_owned(), aim, kind, into: None, may_miss: true })
}

/// A change of a file, which may have nothing to change.
fn changed(surgery: Surgery) -> Step {
    Step::Surgery { surgery, may_miss: true }
}

/// A few bytes of garbage.
fn bytes(rng: &mut impl Rng) -> Vec<u8> {
    let length = rng.random_range(1..40);
    (0..length).map(|_| rng.random()).collect()
}

/// What a client sends that copies a log: a value of so many bytes that begins with records as a log has them, where there is room
/// for one, with offsets that may be due in its own log, may lie behind it, or be any others.
fn records(size: u32) -> Content {
    let len = usize::try_from(size).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    for offset in u64::from(size % 32).. {
        let record = decode::record(offset, 0, None, b"of another log");
        if bytes.len() + record.len() > len {
            break;
        }
        bytes.extend(record);
    }
    if bytes.is_empty() {
        return Content::Size(size.into());
    }
    bytes.resize(len, b'x');
    Content::Hex(bytes)
}
