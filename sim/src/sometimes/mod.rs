//! States that a run must sometimes be in, or its seeds test less than they seem to. A sweep counts, for each state, the
//! seeds that reached it; a generator names those that it promises, on a line `sometimes "torn tail cut" …`.
//!
//! They are read from the trace: nothing in the broker has to report them, and none can be counted that did not happen.
//!
//! | file | finds |
//! | --- | --- |
//! | `life` | crashes, starts, what recovery did |
//! | `disk` | what the disk did, and to what the broker was doing |
//! | `clients` | what clients were told, and what became of it |

mod clients;
mod disk;
mod life;

use std::fmt;

use crate::trace::{Event, Trace};

macro_rules! states {
    ($($state:ident $name:literal $about:literal),+ $(,)?) => {
        /// One of the states.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum State { $(#[doc = $about] $state),+ }

        impl State {
            /// All of them, in the order of the table.
            pub const ALL: &[State] = &[$(State::$state),+];

            /// Its name, as scenarios and tables write it.
            pub fn name(self) -> &'static str {
                match self { $(State::$state => $name),+ }
            }
        }
    };
}

states! {
    // how the broker goes down, and where it was
    ProcessCrash "process crash" "The process was killed.",
    PowerLoss "power loss" "The lights went out.",
    CleanStop "clean stop" "It was stopped cleanly.",
    CrashInWrite "crash inside a write" "Part of a write was done when it went down.",
    CrashInSync "crash at a sync" "It went down before or after a sync of a file or a directory.",
    CrashInRoll "crash during a roll" "It went down between the making of a segment and the first record in it.",
    CrashInRecovery "crash during recovery" "It went down before it had recovered.",
    CrashInStop "crash during a stop" "It went down while it stopped cleanly.",
    CrashTwice "crash before any request" "It went down again before a client had asked anything.",
    CrashInFlight "crash with requests in flight" "A client was waiting when it went down.",
    // what recovery finds and does
    CleanStart "clean start trusted" "It started after a clean stop.",
    TornTail "torn tail cut" "Recovery cut a torn tail off.",
    SetAside "tail set aside" "Recovery set aside what lay behind a hole.",
    Damage "damage found" "Recovery found damage.",
    DamageSealed "damage in a sealed segment" "Damage lay in another segment than the last.",
    IndexRebuilt "index rebuilt" "Recovery built an index anew.",
    Leftovers "leftovers found" "Recovery reported leftovers or foreign files.",
    StartRefused "start refused" "The broker said why it does not start.",
    LossWindow "acknowledged lost in the loss window" "Records that `os` or `interval` had acknowledged went with the power.",
    RecoveredNothingLost "power loss without loss" "The power went after writes, and every acknowledged record was there.",
    RecoveryFault "fault during recovery" "A fault struck while it recovered.",
    // what the disk does
    FullAppend "ENOSPC on an append" "A write to a log found no room.",
    FullRoll "ENOSPC during a roll" "There was no room for a new segment, or for its first record.",
    FullIndex "ENOSPC on an index" "A write to an index found no room.",
    ShortWrite "short write" "A write did less than it was asked.",
    Interrupted "EINTR" "An operation was interrupted.",
    WriteFailed "write failed" "A write to a log failed with EIO.",
    ReadFailed "read failed" "A read failed with EIO.",
    SyncFailed "sync failed" "A sync of a file failed.",
    DirSyncFailed "directory sync failed" "A sync of a directory failed.",
    OpenFailed "open failed" "A file could not be opened or made.",
    ReadOnly "read-only file system" "A change was refused with EROFS.",
    CutBack "failed append cut off" "A log was cut back while the broker served.",
    CutFailed "cut failed" "A cut did not succeed.",
    Lied "the disk lied" "The disk said that it did what it did not do.",
    Rotted "bytes rotted as they were read" "A read found bits that had flipped.",
    Dropped "not written back" "A write succeeded, and the system then failed to write it back.",
    Rot "bytes changed at rest" "Bytes that were stored changed, or went bad, behind the broker's back.",
    // what the broker does
    Rolled "segment rolled" "A new segment was begun.",
    ManySegments "four segments" "A partition had four segments or more.",
    GroupCommit "one sync for several appends" "In mode `always`, one sync covered several writes.",
    Retention "segment removed by retention" "A log was removed while the broker served.",
    TopicDeleted "topic deleted" "A topic was deleted.",
    Fenced "fenced partition refused" "A partition refused writes until it is reopened.",
    // what clients see
    Full "produce refused, disk full" "A client was told that the disk is full.",
    FullThenRoom "produce after a full disk" "It took writes again after it had been full.",
    StorageFailed "produce refused, disk failed" "A client was told that the disk failed and nothing was stored.",
    Corrupt "CORRUPT answered" "A read of damage was answered with CORRUPT.",
    Lost "answer lost" "A client never had its answer.",
    UnknownStored "unknown produce found stored" "A record whose produce had no answer was there later.",
    UnknownAbsent "unknown produce found absent" "A record whose produce had no answer was not there later.",
    Batch "batch over several partitions" "One request's records went to several partitions.",
    Pipelined "requests pipelined" "A client had several requests under way.",
    ReadAhead "requests read ahead" "A write to a log was longer than what the broker reads at once without more memory.",
    Concurrent "clients at the same time" "Two clients had requests under way at the same time.",
    ClockBack "timestamps ran backwards" "A record was younger than the one after it.",
    NetworkCut "network cut" "A link between hosts was cut or held.",
}

impl State {
    /// The state of this name.
    pub fn named(name: &str) -> Option<State> {
        Self::ALL.iter().copied().find(|state| state.name() == name)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(u64);

const _: () = assert!(State::ALL.len() <= 64, "the set is one word");

impl States {
    /// Adds one.
    pub fn add(&mut self, state: State) {
        self.0 |= 1 << state as u8;
    }

    /// Adds one where this is so.
    fn add_if(&mut self, state: State, so: bool) {
        self.0 |= u64::from(so) << state as u8;
    }

    /// Whether it is in there.
    pub fn has(self, state: State) -> bool {
        self.0 & (1 << state as u8) != 0
    }

    /// Each of them, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = State> {
        State::ALL.iter().copied().filter(move |state| self.has(*state))
    }
}

impl FromIterator<State> for States {
    fn from_iter<T: IntoIterator<Item = State>>(iter: T) -> Self {
        iter.into_iter().fold(Self::default(), |mut states, state| {
            states.add(state);
            states
        })
    }
}

/// The states that a run was in.
pub fn of(trace: &Trace) -> States {
    let mut states = States::default();
    let mut life = life::Life::default();
    let mut disk = disk::Disk::default();
    let mut clients = clients::Clients::default();
    for entry in &trace.entries {
        match &entry.event {
            Event::Disk(op) => disk.did(op, &life, &mut states),
            Event::Fault { damages, .. } => states.add_if(State::Rot, *damages),
            Event::Step { text, .. } => {
                let cut = text.starts_with("partition ") || text.starts_with("hold ");
                states.add_if(State::NetworkCut, cut);
                life.saw(&entry.event, &disk, &clients, &mut states);
            }
            Event::Surgery { .. } => states.add(State::Rot),
            event => {
                clients.saw(event, &mut states);
                life.saw(event, &disk, &clients, &mut states);
                disk.saw(event);
            }
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back() {
        for state in State::ALL {
            assert_eq!(State::named(state.name()), Some(*state));
        }
    }

    #[test]
    fn a_set_gives_back_what_was_added() {
        let states: States = [State::NetworkCut, State::ProcessCrash].into_iter().collect();
        assert_eq!(states.iter().collect::<Vec<_>>(), [State::ProcessCrash, State::NetworkCut]);
    }
}
