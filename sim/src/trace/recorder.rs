//! Where every part of the world adds to the one trace.

use std::sync::{Arc, Mutex, MutexGuard};

use super::{CallId, CrashKind, Entry, Event, Millis, Request, Trace};

/// Adds to the trace. Clones add to the same one.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Recording>>);

#[derive(Debug, Default)]
struct Recording {
    now: Millis,
    trace: Trace,
    calls: u32,
    /// Of each step of the disk's history, the entry that it belongs to.
    marks: Vec<usize>,
}

impl Recording {
    fn push(&mut self, event: Event) {
        self.trace.entries.push(Entry { at: self.now, event });
    }
}

impl Recorder {
    /// Nobody panics while holding the lock; if somebody did, the trace is still what happened.
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets the time of what comes next.
    pub fn set_now(&self, now: Millis) {
        self.lock().now = now;
    }

    /// Simulated time.
    pub fn now(&self) -> Millis {
        self.lock().now
    }

    /// Adds an event.
    pub fn add(&self, event: Event) {
        self.lock().push(event);
    }

    /// Adds the beginning of a call, and gives the number that its answer will carry.
    pub fn call(&self, client: &Arc<str>, request: Request, probe: bool) -> CallId {
        let mut recording = self.lock();
        let id = CallId(recording.calls);
        recording.calls += 1;
        recording.push(Event::Call { id, client: client.clone(), request, probe });
        id
    }

    /// The disk's history has this many steps by now, and the next entry is about the last of them.
    pub fn recorded(&self, steps: usize) {
        let mut recording = self.lock();
        let entry = recording.trace.entries.len();
        if steps > recording.marks.len() {
            recording.marks.resize(steps, entry);
        }
    }

    /// Takes out, of each step of the disk's history, the entry that it belongs to.
    pub fn take_marks(&self) -> Vec<usize> {
        std::mem::take(&mut self.lock().marks)
    }

    /// How many entries there are so far.
    pub fn entries(&self) -> usize {
        self.lock().trace.entries.len()
    }

    /// When and how the broker went down, where it is down: what happens to the machine afterwards does not take it down again.
    pub fn down_since(&self) -> Option<(Millis, CrashKind)> {
        let recording = self.lock();
        let entries = recording.trace.entries.iter().rev();
        let since_start = entries.take_while(|entry| !matches!(entry.event, Event::Starting(_)));
        let crashes = since_start.filter_map(|entry| match entry.event {
            Event::Crash { kind, .. } => Some((entry.at, kind)),
            _ => None,
        });
        crashes.last()
    }

    /// Takes the trace out.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut self.lock().trace)
    }
}
