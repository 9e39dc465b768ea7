//! Writes down what the disk does.

use std::collections::BTreeMap;
use std::sync::Arc;

use faults::{Death, Kind};

use super::DATA;
use crate::trace::{DiskOp, Event, Millis, Recorder};

/// The faults that are aimed, or were.
pub type Known = Arc<std::sync::Mutex<BTreeMap<faults::FaultId, Armed>>>;

/// What the disk's observer needs to know of a fault to describe it.
#[derive(Clone, Debug)]
pub struct Armed {
    /// Its words.
    pub words: String,
    /// What it keeps silent about.
    pub silent: Silent,
    /// Where a write lands, in the place of its own: the file, where it is another one, and the byte position.
    pub stray: Option<(Option<Arc<str>>, u64)>,
}

/// What a disk with some fault does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Silent {
    /// Nothing is hidden.
    #[default]
    Not,
    /// It says that it did what it did not do.
    Lies,
    /// What was stored, and well, is no longer what it was.
    Rots,
    /// What was stored cannot be read from here on.
    LosesASector,
    /// It says that it did what it then fails to do, and the next sync is told of.
    Drops,
}

impl Silent {
    /// What is not said where this fault strikes.
    pub fn of(kind: &Kind) -> Silent {
        match kind {
            Kind::Torn { .. } | Kind::Lost | Kind::Misdirected { .. } | Kind::Lie => Silent::Lies,
            Kind::WritebackFailure { .. } => Silent::Drops,
            Kind::BitRot { .. } => Silent::Rots,
            Kind::BadSector { .. } => Silent::LosesASector,
            _ => Silent::Not,
        }
    }
}

/// The path below the data directory.
pub fn relative(path: &str) -> &str {
    path.strip_prefix(DATA).map_or(path, |rest| rest.strip_prefix('/').unwrap_or(rest))
}

/// What the broker says, with every path as the trace has it: below the data directory.
pub fn with_relative_paths(text: &str) -> String {
    text.replace(&format!("{DATA}/"), "")
}

/// Tells the recorder of every operation from here on.
pub fn observe(disk: &faults::Disk, recorder: Recorder, known: Known) {
    let mut names: BTreeMap<String, Arc<str>> = BTreeMap::new();
    let mut name = move |path: &str| -> Arc<str> {
        let path = relative(path);
        if let Some(name) = names.get(path) {
            return name.clone();
        }
        let name: Arc<str> = path.into();
        names.insert(path.to_owned(), name.clone());
        name
    };
    disk.observe(move |event| {
        let fault = event.fault.and_then(|id| {
            let known = known.lock().unwrap_or_else(|e| e.into_inner());
            known.get(&id).cloned()
        });
        let (fault, silent, stray) = match fault {
            Some(Armed { words, silent, stray }) => (Some(words), silent, stray),
            None => (None, Silent::Not, None),
        };
        recorder.recorded(event.recorded);
        if silent == Silent::LosesASector {
            let text = "a sector of what is read cannot be read any more".into();
            recorder.add(Event::Fault { text, path: Some(name(event.path)), damages: true });
        }
        recorder.add(Event::Disk(DiskOp {
            op: event.op,
            path: name(event.path),
            to: event.to.map(&mut name),
            hit: stray
                .filter(|_| event.result.is_ok())
                .map(|(file, at)| (file.unwrap_or_else(|| name(event.path)), at)),
            position: event.position,
            len: event.len,
            result: event.result,
            // A sync that is switched off is a mistake of the broker, and no fault that would excuse it.
            fault,
            // What fails says so.
            lies: silent == Silent::Lies && event.result.is_ok(),
            rots: silent == Silent::Rots,
            drops: silent == Silent::Drops && event.result.is_ok(),
            stalled_ms: Millis::try_from(event.stalled.as_micros().div_ceil(1000)).unwrap_or(Millis::MAX),
        }));
    });
}

/// An operation that no fault has struck.
pub fn unharmed(event: &faults::Event<'_>) -> DiskOp {
    DiskOp {
        op: event.op,
        path: relative(event.path).into(),
        to: event.to.map(|to| relative(to).into()),
        hit: None,
        position: event.position,
        len: event.len,
        result: event.result,
        fault: None,
        lies: false,
        rots: false,
        drops: false,
        stalled_ms: 0,
    }
}

/// Where a crash struck, for a snapshot: `byte 15 of 35`, `before sync`; empty between operations.
pub fn place_of(death: &Death) -> String {
    let Some(struck) = &death.inside else { return String::new() };
    let file = match relative(&struck.path) {
        "" => ".",
        file => file,
    };
    match struck.progress {
        faults::Progress::Before => format!("before {} {file}", struck.op),
        faults::Progress::Bytes(done, of) => format!("at byte {done} of {of}"),
        faults::Progress::After => format!("after {} {file}", struck.op),
    }
}
