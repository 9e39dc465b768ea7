//! The oracle judged: short stories, told as traces without a world, with what it must say of each. A broker that is right tells
//! none of the bad ones, so no scenario can show that they would be noticed.

mod refused_absent;

use std::sync::Arc;

use broker::error::Code;
use bytes::Bytes;

use super::judge;
use crate::trace::{
    Answer, At, CallId, CrashKind, Entry, Event, Mode, Placed, Request, Seen, Sent, Starting, Trace,
};

/// A trace in the making, of one topic `orders`. A record is one letter: its value; a key comes before it where there is one.
struct Story {
    trace: Trace,
    mode: Mode,
    calls: u32,
}

impl Story {
    /// A broker that has started for the first time.
    fn new(mode: Mode) -> Self {
        Self::with_partitions(mode, 1)
    }

    fn with_partitions(mode: Mode, partitions: u32) -> Self {
        let mut story = Self { trace: Trace::default(), mode, calls: 0 };
        story.start();
        let topic = Request::CreateTopic {
            topic: "orders".into(),
            partitions,
            retention_bytes: None,
            retention_ms: None,
        };
        let id = story.call(topic);
        story.answer(id, Answer::Done);
        story
    }

    fn add(&mut self, event: Event) {
        let at = self.trace.entries.len() as u64;
        self.trace.entries.push(Entry { at, event });
    }

    fn start(&mut self) {
        self.add(Event::Starting(Starting {
            durability: self.mode,
            index_interval: 1,
            retention: false,
            connections_max: 10,
            sync_slack_ms: 0,
            lying: false,
        }));
        self.add(Event::Started { clean: false, partitions: Vec::new(), notes: Vec::new() });
    }

    fn crash(&mut self, kind: CrashKind) {
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
        self.answer(id, Answer::Lost { why: "timeout".into(), sent: true });
    }

    fn refused(&mut self, letters: &str) {
        let id = self.asks(letters);
        self.answer(id, Answer::Refused { code: Code::StorageFull, message: String::new(), offset: None });
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

    /// All that partition 0 holds: a letter is a record, a dot an offset that cannot be read.
    fn look(&mut self, letters: &str) {
        let end = letters.len() as u64;
        self.add(Event::LookBegins);
        for (offset, letter) in (0..).zip(letters.chars()) {
            let id = self.consume(0, offset);
            match letter {
                '.' => self.answer(
                    id,
                    Answer::Refused { code: Code::Corrupt, message: String::new(), offset: Some(offset) },
                ),
                letter => self.fetched(id, offset, letter, end),
            }
        }
        for at in [At::Earliest, At::Latest] {
            let id = self.call(Request::Offsets { topic: "orders".into(), partition: 0, at });
            let offset = if at == At::Latest { end } else { 0 };
            self.answer(id, Answer::Offset(Some((offset, 0))));
        }
        self.add(Event::LookEnds { complete: true });
    }

    /// Somebody reads one record of a partition.
    fn reads(&mut self, partition: u32, offset: u64, letter: char) {
        let id = self.consume(partition, offset);
        self.fetched(id, offset, letter, offset + 1);
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
}

fn value(letter: char) -> Bytes {
    Bytes::from(letter.to_string())
}
