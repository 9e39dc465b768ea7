//! The oracle judged: short stories, told as traces without a world, with what it must say of each. A broker that is right tells
//! none of the bad ones, so no scenario can show that they would be noticed.

mod answered;
mod damage;
mod dense;
mod derived;
mod idempotent;
mod kept;
mod live;
mod lost_topics;
mod no_room;
mod refused_absent;
mod retained;
mod routed;
mod stops;
mod strays;
mod successors;
mod time;
mod topics;
mod whole_records;

use std::sync::Arc;

use broker::error::Code;
use bytes::Bytes;
use faults::{Errno, Op};

use super::{decode, judge};
use crate::trace::{
    Answer, At, CallId, CrashKind, DiskOp, Entry, Event, Image, ImageFile, Mode, Moment, Pace, Placed,
    Recovered, Request, Retention, Seen, Sent, Starting, Trace, World,
};

/// A trace in the making, of one topic `orders`. A record is one letter: its value; a key comes before it where there is one.
struct Story {
    trace: Trace,
    mode: Mode,
    calls: u32,
    /// How much later all is than by its place in the story.
    later: u64,
    /// Whether it has stopped cleanly, and knows when it starts.
    stopped: bool,
    /// Whether any sync may be a lie.
    lying: bool,
    /// Every how many records the indexes get an entry.
    interval: u64,
}

impl Story {
    /// A broker that has started for the first time, on a network that may lose an answer.
    fn new(mode: Mode) -> Self {
        Self::with_partitions(mode, 1)
    }

    fn with_partitions(mode: Mode, partitions: u32) -> Self {
        Self::begins(mode, partitions, true)
    }

    /// The same, with nothing in the way of an answer.
    fn quiet(mode: Mode, partitions: u32) -> Self {
        Self::begins(mode, partitions, false)
    }

    /// A broker without a topic.
    fn bare(mode: Mode) -> Self {
        Self::begins(mode, 0, true)
    }

    fn begins(mode: Mode, partitions: u32, flaky: bool) -> Self {
        let (trace, stopped, lying, interval) = (Trace::default(), false, false, 1);
        let mut story = Self { trace, mode, calls: 0, later: 0, stopped, lying, interval };
        let pace = Pace { timeout: 2000, ..Pace::default() };
        story.add(Event::World(World::Pace(pace)));
        if flaky {
            story.add(Event::World(World::Flaky(true)));
        }
        story.start();
        if partitions > 0 {
            story.creates(partitions);
        }
        story
    }

    fn creates(&mut self, partitions: u32) {
        let (retention_bytes, retention_ms) = (None, None);
        let topic =
            Request::CreateTopic { topic: "orders".into(), partitions, retention_bytes, retention_ms };
        let id = self.call(topic);
        self.answer(id, Answer::Done);
    }

    fn add(&mut self, event: Event) {
        let at = self.trace.entries.len() as u64 + self.later;
        self.trace.entries.push(Entry { at, event });
    }

    /// Time goes by.
    fn later(&mut self, ms: u64) {
        self.later += ms;
    }

    fn start(&mut self) {
        self.starts();
        self.started(&[]);
    }

    fn starts(&mut self) {
        self.add(Event::Starting(Starting {
            durability: self.mode,
            index_interval: self.interval,
            retention: Retention::default(),
            connections_max: 100,
            record_bytes_max: 1000,
            frame_bytes_max: 10_000,
            records_max: 100,
            silence_max_ms: 30_000,
            sync_slack_ms: 0,
            lying: self.lying,
        }));
    }

    /// A start that opens nothing.
    fn says_nothing(&mut self) {
        self.add(Event::Started { clean: self.stopped, partitions: Vec::new(), notes: Vec::new() });
    }

    /// A start that says of partition 0 which offsets are damaged: from the first to before the second.
    fn started(&mut self, damage: &[(u64, u64)]) {
        self.found(0, damage);
    }

    /// The same, and where its log ends.
    fn found(&mut self, end: u64, damage: &[(u64, u64)]) {
        self.found_from(0, end, damage);
    }

    /// The same, and where it starts.
    fn found_from(&mut self, start: u64, end: u64, damage: &[(u64, u64)]) {
        let damage = damage.iter().map(|(from, to)| (log(0), 0, 40, *from, *to)).collect();
        self.says(Recovered { start, end, damage, ..recovered() });
    }

    /// A start that says this of partition 0.
    fn says(&mut self, said: Recovered) {
        self.add(Event::Started { clean: self.stopped, partitions: vec![said], notes: Vec::new() });
    }

    /// The files of partition 0 at a moment: the base offset of each log, and its bytes.
    fn image(&mut self, moment: Moment, logs: &[(u64, &[u8])]) {
        self.add(Event::Image { moment, image: image(logs) });
    }

    /// The scenario changes these logs to those.
    fn touches(&mut self, before: &[(u64, &[u8])], after: &[(u64, &[u8])]) {
        self.image(Moment::Untouched, before);
        self.image(Moment::Touched, after);
    }

    /// Something fails on partition 0's first log, as a fault has it.
    fn fails(&mut self, op: Op) {
        self.fails_with(op, Errno::EIO);
    }

    fn fails_with(&mut self, what: Op, errno: Errno) {
        self.struck(op(what, &log(0), Err(errno)));
    }

    /// A fault makes who asks for something wait.
    fn stalls(&mut self, what: Op, stalled_ms: u64) {
        self.struck(DiskOp { stalled_ms, ..op(what, &log(0), Ok(0)) });
    }

    /// Of these files, all empty, a hand takes some away.
    fn takes_away(&mut self, files: &[&str], gone: &[&str]) {
        let image = |without: &[&str]| {
            let mut paths: Vec<&&str> = files.iter().filter(|path| !without.contains(path)).collect();
            paths.sort();
            let file = |path: &&str| ImageFile { path: (*path).into(), bytes: [].into() };
            Arc::new(Image(paths.into_iter().map(file).collect()))
        };
        self.add(Event::Image { moment: Moment::Untouched, image: image(&[]) });
        self.add(Event::Image { moment: Moment::Touched, image: image(gone) });
    }

    /// The disk says that it has written to a file, and has not.
    fn lies(&mut self, path: &str) {
        self.struck(DiskOp { lies: true, ..op(Op::Write, path, Ok(12)) });
    }

    /// Bits of a file flip where it is read.
    fn rots(&mut self, path: &str) {
        self.struck(DiskOp { rots: true, ..op(Op::Read, path, Ok(12)) });
    }

    /// A start takes away what a clean stop has left.
    fn takes_back(&mut self) {
        self.does_above(Op::Remove, "clean", None);
    }

    /// A sector of a file cannot be read.
    fn unreadable_sector(&mut self, path: &str) {
        self.add(Event::Fault { text: "a sector".into(), path: Some(path.into()), damages: true });
    }

    /// The disk does something to a log of partition 0.
    fn does(&mut self, what: Op, base: u64, len: u64) {
        self.add(Event::Disk(op(what, &log(base), Ok(len))));
    }

    /// The disk does something to a file beside the topics; a rename gives it this name.
    fn does_above(&mut self, what: Op, path: &str, to: Option<&str>) {
        self.add(Event::Disk(DiskOp { to: to.map(Into::into), ..op(what, path, Ok(0)) }));
    }

    /// The same, as a fault has it.
    fn struck(&mut self, op: DiskOp) {
        self.add(Event::Disk(DiskOp { fault: Some("a fault".into()), ..op }));
    }

    fn crash(&mut self, kind: CrashKind) {
        self.stopped = kind == CrashKind::Stop;
        self.add(Event::Crash { kind, during: "".into() });
    }

    /// The broker goes down and comes up again.
    fn again(&mut self, kind: CrashKind) {
        self.crash(kind);
        self.start();
    }

    fn call(&mut self, request: Request) -> CallId {
        let id = CallId(self.calls);
        self.calls += 1;
        self.add(Event::Call { id, client: "client".into(), request, probe: false });
        id
    }

    fn answer(&mut self, id: CallId, answer: Answer) {
        self.add(Event::Answer { id, answer });
    }

    /// A request for partition 0 with a record for each letter.
    fn asks(&mut self, letters: &str) -> CallId {
        let records: Arc<[Sent]> =
            letters.chars().map(|letter| Sent { key: None, value: value(letter) }).collect();
        self.call(Request::Produce { topic: "orders".into(), partition: Some(0), records })
    }

    /// The same with its answer: no word of what became of it.
    fn unknown(&mut self, letters: &str) {
        let id = self.asks(letters);
        self.lost(id);
    }

    fn lost(&mut self, id: CallId) {
        self.answer(id, Answer::Lost { why: "timeout".into(), sent: true, told: false });
    }

    fn refused(&mut self, letters: &str) {
        let id = self.asks(letters);
        self.answer(id, Answer::Refused { code: Code::RecordTooLarge, message: String::new(), offset: None });
    }

    /// The same, stored from this offset on.
    fn stored(&mut self, letters: &str, from: u64) {
        let id = self.asks(letters);
        self.told(id, letters.len(), from);
    }

    fn told(&mut self, id: CallId, records: usize, from: u64) {
        self.answer(
            id,
            Answer::Produced((from..).take(records).map(|offset| Placed::At(0, offset)).collect()),
        );
    }

    /// All that partition 0 holds: a letter is a record, a dot an offset that cannot be read, `!` one that is said to be the next that
    /// can, `?` one that is said to be out of range.
    fn look(&mut self, letters: &str) {
        self.look_at(letters, &[]);
    }

    /// The same, with its logs.
    fn look_at(&mut self, letters: &str, logs: &[(u64, &[u8])]) {
        let end = letters.len() as u64;
        self.add(Event::LookBegins);
        for (offset, letter) in (0..).zip(letters.chars()) {
            let id = self.consume(0, offset);
            match letter {
                '.' => self.unreadable(id, Code::Corrupt, offset),
                '!' => {
                    let message = format!("the next offset that can be read is {offset}");
                    self.answer(id, Answer::Refused { code: Code::Corrupt, message, offset: Some(offset) });
                }
                '?' => self.unreadable(id, Code::OffsetOutOfRange, offset),
                letter => self.fetched(id, offset, letter, end),
            }
        }
        for at in [At::Earliest, At::Latest] {
            let id = self.call(Request::Offsets { topic: "orders".into(), partition: 0, at });
            let offset = if at == At::Latest { end } else { 0 };
            self.answer(id, Answer::Offset(Some((offset, 0))));
        }
        if !logs.is_empty() {
            self.image(Moment::Check, logs);
        }
        self.add(Event::LookEnds { complete: true, unseen: Vec::new() });
    }

    /// Somebody looks at two partitions, of which there are as many as this, without records; the others are unknown, in these words.
    fn looks_at_two(&mut self, there: u32, unknown: Code) {
        self.add(Event::LookBegins);
        for partition in 0..2 {
            let id = self.call(Request::Offsets { topic: "orders".into(), partition, at: At::Latest });
            let nothing = Answer::Offset(Some((0, 0)));
            self.answer(id, if partition < there { nothing } else { refused(unknown) });
        }
        self.add(Event::LookEnds { complete: true, unseen: Vec::new() });
    }

    fn unreadable(&mut self, id: CallId, code: Code, offset: u64) {
        self.answer(id, Answer::Refused { code, message: String::new(), offset: Some(offset) });
    }

    /// Somebody reads one record of a partition, of all that were ever sent there.
    fn reads(&mut self, partition: u32, offset: u64, letter: char) {
        let id = self.consume(partition, offset);
        self.fetched(id, offset, letter, self.sent_to(partition));
    }

    /// How many records there can be in a partition.
    fn sent_to(&self, partition: u32) -> u64 {
        let sent = |entry: &Entry| match &entry.event {
            Event::Call { request: Request::Produce { partition: to, records, .. }, .. }
                if to.is_none_or(|to| to == partition) =>
            {
                records.len() as u64
            }
            _ => 0,
        };
        self.trace.entries.iter().map(sent).sum()
    }

    fn consume(&mut self, partition: u32, from: u64) -> CallId {
        let topic = "orders".into();
        self.call(Request::Consume { topic, partition, from, max_bytes: 1000, wait_ms: 0 })
    }

    fn fetched(&mut self, id: CallId, offset: u64, letter: char, end: u64) {
        let seen = Seen { offset, timestamp: offset, key: None, value: value(letter) };
        self.answer(id, Answer::Fetched { records: vec![seen], start: 0, end });
    }

    /// What the oracle says, in the words of the kinds; each once, however many requests it shows in.
    fn broken(&self) -> Vec<&'static str> {
        let mut kinds: Vec<&str> = judge(&self.trace).broken.iter().map(|broken| broken.kind).collect();
        kinds.dedup();
        kinds
    }

    /// What it has found, as a person reads it.
    fn in_words(&self) -> Vec<String> {
        judge(&self.trace).broken.into_iter().map(|broken| broken.found).collect()
    }
}

/// The disk does something, and nothing is wrong with that. What it has done is all that it was asked to.
fn op(op: Op, path: &str, result: Result<u64, Errno>) -> DiskOp {
    DiskOp {
        op,
        path: path.into(),
        to: None,
        hit: None,
        position: 0,
        len: result.unwrap_or(0),
        result,
        fault: None,
        lies: false,
        rots: false,
        drops: false,
        stalled_ms: 0,
    }
}

/// What a start says of partition 0 when it is empty.
fn recovered() -> Recovered {
    Recovered {
        topic: "orders".into(),
        partition: 0,
        start: 0,
        end: 0,
        cut: 0,
        set_aside: 0,
        rebuilt: Vec::new(),
        damage: Vec::new(),
        fenced: None,
        notes: Vec::new(),
    }
}

fn value(letter: char) -> Bytes {
    Bytes::from(letter.to_string())
}

fn log(base: u64) -> String {
    format!("orders/0/{base:020}.log")
}

fn image(logs: &[(u64, &[u8])]) -> Arc<Image> {
    let file = |(base, bytes): &(u64, &[u8])| ImageFile { path: log(*base).into(), bytes: (*bytes).into() };
    Arc::new(Image(logs.iter().map(file).collect()))
}

/// The bytes of a log whose records have these letters.
fn records(base: u64, letters: &str) -> Vec<u8> {
    let record = |(offset, letter)| decode::record(offset, offset, None, &value(letter));
    (base..).zip(letters.chars()).flat_map(record).collect()
}

fn create() -> Request {
    let (retention_bytes, retention_ms) = (None, None);
    Request::CreateTopic { topic: "orders".into(), partitions: 1, retention_bytes, retention_ms }
}

fn delete() -> Request {
    Request::DeleteTopic { topic: "orders".into() }
}

fn refused(code: Code) -> Answer {
    Answer::Refused { code, message: String::new(), offset: None }
}

fn lost() -> Answer {
    Answer::Lost { why: "timeout".into(), sent: true, told: false }
}

fn looks_in_vain(story: &mut Story) {
    story.add(Event::LookBegins);
    let id = story.call(Request::Offsets { topic: "orders".into(), partition: 0, at: At::Latest });
    story.answer(id, refused(Code::UnknownTopic));
    story.add(Event::LookEnds { complete: true, unseen: Vec::new() });
}
