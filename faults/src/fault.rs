//! Faults: what may go wrong, where it is aimed, and whether it ever struck.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::errno::Errno;
use crate::event::Op;
use crate::glob;

/// Where in an operation a crash strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before it has done anything.
    Before,
    /// Of a write: after so many bytes. Of any other operation the same as [`Cut::Before`].
    Bytes(u64),
    /// After all of it, and before the caller knows.
    After,
}

/// Of what was pending when power was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// What is kept is drawn from what the profile allows.
    #[default]
    Drawn,
    /// As little as is legal.
    Nothing,
    /// Everything.
    Everything,
    /// Every name that was given or taken away, and as little of the data as is legal: what follows a directory sync that
    /// came before the sync of what it names.
    Names,
    /// All data, and as few of the names as is legal.
    Data,
    /// The legal image of this number, as [`crate::Images::nth`] counts them; counted round where there are fewer.
    Image(u64),
    /// The image that [`crate::Images::draw`] draws from this seed.
    Draw(u64),
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The operation fails, and with `effect` it has done its work all the same.
    Error {
        /// What the caller is told.
        errno: Errno,
        /// Whether it was done.
        effect: bool,
    },
    /// A read or write does no more than so many bytes, and says so.
    Short {
        /// How many.
        bytes: u64,
    },
    /// A write does so many of its bytes, and fails: its caller is not told that any got down. One of no more bytes than
    /// that is left alone, as with [`Kind::Short`].
    Tear {
        /// How many get down.
        bytes: u64,
        /// What the caller is told.
        errno: Errno,
    },
    /// From this write on the disk is full: so many bytes of it fit (an error where none does). It has room again when
    /// something is deleted or truncated, or the capacity is set anew.
    Full {
        /// How many bytes fit.
        fits: u64,
    },
    /// A sync fails as on Linux: the dirty pages stay readable, count as clean, and are never written unless somebody
    /// changes them again. Each descriptor open at the time is told once.
    SyncFailure {
        /// What the caller is told.
        errno: Errno,
    },
    /// A write succeeds, and the kernel fails to write it back in the background: as [`Kind::SyncFailure`], but the
    /// next sync of each descriptor is where it is told.
    WritebackFailure {
        /// What the next sync is told.
        errno: Errno,
    },
    /// A write succeeds, and of its bytes only the first `kept` reach the medium, whatever a sync says. The cache has
    /// them all until power is lost or the caches are dropped.
    Torn {
        /// How many bytes reach the medium.
        kept: u64,
    },
    /// A write succeeds and never reaches the medium. The cache has it, as with [`Kind::Torn`].
    Lost,
    /// A write succeeds, and reaches the medium somewhere else: over what is there, without moving any length. The cache
    /// has it in the right place. Where the medium has no byte of the file at that position, or it is where the write
    /// belongs, nothing goes astray: the fault does not strike.
    Misdirected {
        /// The file it hits; its own where there is none.
        path: Option<String>,
        /// The byte position it hits.
        position: u64,
    },
    /// Bits flip at rest, in the cache and on the medium, just before they are read.
    BitRot {
        /// Which byte of what the read asks for.
        byte: u64,
        /// What it is xored with.
        xor: u8,
    },
    /// The sector under this byte of a read cannot be read from now on: the read ends before it, or fails with `EIO`.
    /// Writing the whole sector mends it; writing part of it fails.
    BadSector {
        /// Which byte of what the read asks for.
        byte: u64,
    },
    /// The file system turns read-only, as ext4 does after an error of its own (`errors=remount-ro`): from this operation on,
    /// every change fails with `EROFS`, and so does a sync of what is pending, since the journal takes no more. It can be
    /// written again after a power loss, or [`crate::Disk::set_read_only`].
    ReadOnly,
    /// A sync says yes and does nothing.
    Lie,
    /// The device makes the caller wait; see [`crate::Disk::take_delay`]. A sync of a file that a job makes
    /// ([`crate::Disk::begin_job`]) keeps nothing before the wait is over; any other keeps it at once.
    Stall {
        /// How long.
        delay: Duration,
    },
    /// The process dies in the operation; what it has written stays in the cache.
    Crash {
        /// Where in the operation.
        at: Cut,
    },
    /// The machine loses power in the operation. Of a write cut at a byte, exactly the bytes before the cut are on the
    /// medium, each sector as the cache had it then, with a length that covers them; what else was pending is drawn from what the
    /// profile allows beside that.
    PowerLoss {
        /// Where in the operation.
        at: Cut,
    },
}

impl Kind {
    /// Its name in a report.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Error { .. } => "error",
            Kind::Short { .. } => "short",
            Kind::Tear { .. } => "tear",
            Kind::Full { .. } => "full",
            Kind::SyncFailure { .. } => "sync-failure",
            Kind::WritebackFailure { .. } => "writeback-failure",
            Kind::Torn { .. } => "torn",
            Kind::Lost => "lost",
            Kind::Misdirected { .. } => "misdirected",
            Kind::BitRot { .. } => "bit-rot",
            Kind::BadSector { .. } => "bad-sector",
            Kind::ReadOnly => "read-only",
            Kind::Lie => "lie",
            Kind::Stall { .. } => "stall",
            Kind::Crash { .. } => "crash",
            Kind::PowerLoss { .. } => "power-loss",
        }
    }

    fn suits(&self, op: Option<Op>) -> bool {
        let only = |ops: &[Op]| op.is_some_and(|op| ops.contains(&op));
        match self {
            Kind::Short { .. } => only(&[Op::Read, Op::Write]),
            Kind::Tear { .. }
            | Kind::Full { .. }
            | Kind::WritebackFailure { .. }
            | Kind::Torn { .. }
            | Kind::Lost
            | Kind::Misdirected { .. } => only(&[Op::Write]),
            Kind::SyncFailure { .. } => only(&[Op::Sync]),
            Kind::Lie => only(&[Op::Sync, Op::SyncDir]),
            Kind::BitRot { .. } | Kind::BadSector { .. } => only(&[Op::Read]),
            Kind::Error { .. }
            | Kind::ReadOnly
            | Kind::Stall { .. }
            | Kind::Crash { .. }
            | Kind::PowerLoss { .. } => true,
        }
    }
}

/// When a fault strikes among the operations it is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// From the nth matching operation on (from 1), so many times in a row.
    Nth {
        /// Which.
        nth: u64,
        /// How many times; for as long as it is armed where there is none.
        times: Option<u64>,
    },
    /// Each matching operation with this probability, from the fault's own stream of random numbers.
    Rate {
        /// Out of a million.
        per_million: u32,
    },
}

/// A fault, aimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which operation; any where there is none. One aimed at [`Op::Remove`] strikes directories too.
    pub op: Option<Op>,
    /// Which files: a pattern as in a `.gitignore`. `*` names everything. A rename is aimed at by either of its names.
    pub path: String,
    /// Only where the operation makes a new file.
    pub making: bool,
    /// Only while this tag is set: see [`crate::Disk::set_phase`].
    pub phase: Option<String>,
    /// Only from this time on: see [`crate::Disk::set_time`].
    pub from: Option<Duration>,
    /// Only reads and writes that cover this byte of the file.
    pub covering: Option<u64>,
    /// Which of the matching operations.
    pub trigger: Trigger,
    /// What goes wrong.
    pub kind: Kind,
}

impl Fault {
    /// Aims at the next such operation on a file that the pattern names.
    pub fn new(op: Op, path: &str, kind: Kind) -> Fault {
        Fault { op: Some(op), ..Fault::any(path, kind) }
    }

    /// Aims at the next operation of whatever kind on a file that the pattern names.
    pub fn any(path: &str, kind: Kind) -> Fault {
        Fault {
            op: None,
            path: path.to_owned(),
            making: false,
            phase: None,
            from: None,
            covering: None,
            trigger: Trigger::Nth { nth: 1, times: Some(1) },
            kind,
        }
    }

    /// The operation fails with this error as on Linux: before any effect, and for the device failing a sync
    /// ([`Kind::SyncFailure`]) with the loss of the dirty pages.
    pub fn error(op: Op, path: &str, errno: Errno) -> Fault {
        let device_failed = matches!(errno, Errno::EIO | Errno::ENOSPC | Errno::EDQUOT);
        let kind = if op == Op::Sync && device_failed {
            Kind::SyncFailure { errno }
        } else {
            Kind::Error { errno, effect: false }
        };
        Fault::new(op, path, kind)
    }

    /// Strikes the nth matching operation, from 1.
    pub fn nth(mut self, nth: u64) -> Fault {
        let times = match self.trigger {
            Trigger::Nth { times, .. } => times,
            Trigger::Rate { .. } => Some(1),
        };
        self.trigger = Trigger::Nth { nth, times };
        self
    }

    /// Strikes so many matching operations in a row.
    pub fn times(mut self, times: u64) -> Fault {
        let nth = match self.trigger {
            Trigger::Nth { nth, .. } => nth,
            Trigger::Rate { .. } => 1,
        };
        self.trigger = Trigger::Nth { nth, times: Some(times) };
        self
    }

    /// Strikes at random.
    pub fn rate(mut self, per_million: u32) -> Fault {
        self.trigger = Trigger::Rate { per_million };
        self
    }

    /// Strikes only while the tag is set.
    pub fn during(mut self, phase: &str) -> Fault {
        self.phase = Some(phase.to_owned());
        self
    }

    /// Strikes only from this time on.
    pub fn from(mut self, time: Duration) -> Fault {
        self.from = Some(time);
        self
    }

    /// Strikes only where a new file is made.
    pub fn making(mut self) -> Fault {
        self.making = true;
        self
    }

    /// Strikes only reads and writes that cover this byte of the file.
    pub fn covering(mut self, byte: u64) -> Fault {
        self.covering = Some(byte);
        self
    }

    /// Whether it is meant for such an operation on what has this name; on a rename, either of the two.
    pub fn is_for(&self, op: Op, path: &str, to: Option<&str>) -> bool {
        let names = |path: &str| glob::matches(&self.path, path);
        self.op.is_none_or(|aimed| aimed.takes_in(op)) && (names(path) || to.is_some_and(names))
    }
}

/// Names a fault that was aimed at a disk, counted from 0 over the life of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// A fault that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The operation cannot go wrong like this.
    #[error("{kind} cannot happen to {}", op.map_or("every operation", Op::name))]
    Unsuitable {
        /// What was to go wrong.
        kind: &'static str,
        /// With which operation.
        op: Option<Op>,
    },
    /// It could never strike.
    #[error("a fault that is aimed at number {nth} of its operations, {}, can never strike", in_words(*times))]
    Never {
        /// Which operation.
        nth: u64,
        /// How many times; for as long as it is armed where there is none.
        times: Option<u64>,
    },
}

fn in_words(times: Option<u64>) -> String {
    times.map_or("every time".to_owned(), |times| format!("{times} times"))
}

/// An operation about to happen, as far as a fault's aim cares.
pub(crate) struct Target<'a> {
    pub(crate) op: Op,
    pub(crate) path: &'a str,
    /// The new name that a rename gives.
    pub(crate) to: Option<&'a str>,
    /// Whether a new file is made.
    pub(crate) making: bool,
    pub(crate) position: u64,
    /// The bytes a write gives, or those a read will get.
    pub(crate) len: u64,
    pub(crate) phase: &'a str,
    pub(crate) now: Duration,
}

struct Armed {
    id: FaultId,
    fault: Fault,
    matched: u64,
    fired: u64,
    rng: ChaCha8Rng,
}

/// The faults aimed at a disk.
pub(crate) struct Faults {
    seed: u64,
    next: u64,
    armed: Vec<Armed>,
    /// Struck as often as they could; kept so that `get` still knows them.
    spent: Vec<(FaultId, Fault, u64)>,
}

/// Streams of random numbers below this are the disk's own.
const FIRST_FAULT_STREAM: u64 = 16;

impl Faults {
    pub(crate) fn new(seed: u64) -> Faults {
        Faults { seed, next: 0, armed: Vec::new(), spent: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.armed.is_empty()
    }

    pub(crate) fn aim(&mut self, fault: Fault) -> Result<FaultId, FaultError> {
        if !fault.kind.suits(fault.op) {
            return Err(FaultError::Unsuitable { kind: fault.kind.name(), op: fault.op });
        }
        if let Trigger::Nth { nth, times } = fault.trigger
            && (nth == 0 || times == Some(0))
        {
            return Err(FaultError::Never { nth, times });
        }
        let id = FaultId(self.next);
        self.next += 1;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(FIRST_FAULT_STREAM + id.0);
        self.armed.push(Armed { id, fault, matched: 0, fired: 0, rng });
        Ok(id)
    }

    pub(crate) fn disarm(&mut self, id: FaultId) {
        self.armed.retain(|armed| armed.id != id);
    }

    pub(crate) fn disarm_all(&mut self) {
        self.armed.clear();
    }

    pub(crate) fn get(&self, id: FaultId) -> Option<(&Fault, u64)> {
        let armed = self.armed.iter().map(|a| (a.id, &a.fault, a.fired));
        let spent = self.spent.iter().map(|(id, fault, fired)| (*id, fault, *fired));
        armed.chain(spent).find(|(known, ..)| *known == id).map(|(_, fault, fired)| (fault, fired))
    }

    pub(crate) fn unfired(&self) -> Vec<(FaultId, Fault)> {
        let aimed = |armed: &&Armed| matches!(armed.fault.trigger, Trigger::Nth { .. }) && armed.fired == 0;
        self.armed.iter().filter(aimed).map(|armed| (armed.id, armed.fault.clone())).collect()
    }

    /// What strikes this operation: at most one stall, and at most one other fault. Two that are due at once strike one
    /// after the other, the second at the next matching operation; so does one that would make no difference to this
    /// one, by `bites`.
    pub(crate) fn strike(&mut self, target: &Target<'_>, bites: impl Fn(&Kind) -> bool) -> Strikes {
        let mut strikes = Strikes::default();
        for armed in &mut self.armed {
            if !armed.aims_at(target) {
                continue;
            }
            armed.matched += 1;
            let due = match armed.fault.trigger {
                Trigger::Nth { nth, times } => {
                    armed.matched >= nth && times.is_none_or(|times| armed.fired < times)
                }
                Trigger::Rate { per_million } => armed.rng.random_range(0..1_000_000) < per_million,
            };
            if !due || !bites(&armed.fault.kind) {
                continue;
            }
            match &armed.fault.kind {
                Kind::Stall { delay } if strikes.stall.is_none() => strikes.stall = Some((armed.id, *delay)),
                Kind::Stall { .. } => continue,
                kind if strikes.main.is_none() => strikes.main = Some((armed.id, kind.clone())),
                _ => continue,
            }
            armed.fired += 1;
        }
        let is_spent = |armed: &Armed| match armed.fault.trigger {
            Trigger::Nth { times, .. } => times.is_some_and(|times| armed.fired >= times),
            Trigger::Rate { .. } => false,
        };
        if strikes.main.is_some() || strikes.stall.is_some() {
            for armed in self.armed.extract_if(.., |armed| is_spent(armed)) {
                self.spent.push((armed.id, armed.fault, armed.fired));
            }
        }
        strikes
    }
}

impl Armed {
    fn aims_at(&self, target: &Target<'_>) -> bool {
        let fault = &self.fault;
        let end = target.position.saturating_add(target.len);
        fault.is_for(target.op, target.path, target.to)
            && (target.making || !fault.making)
            && fault.phase.as_deref().is_none_or(|phase| phase == target.phase)
            && fault.from.is_none_or(|from| target.now >= from)
            && fault.covering.is_none_or(|byte| (target.position..end).contains(&byte))
    }
}

/// The faults that strike one operation.
#[derive(Default)]
pub(crate) struct Strikes {
    pub(crate) stall: Option<(FaultId, Duration)>,
    pub(crate) main: Option<(FaultId, Kind)>,
}
