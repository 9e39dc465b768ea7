//! From the faults of a scenario to those of the disk.

use std::time::Duration;

use faults::{Cut, Errno, Keep, Kind, Op, Trigger};

use crate::scenario as s;

/// The disk's fault that does what a fault of a scenario says. `now` is simulated time.
pub fn aim(fault: &s::Fault, now: Duration) -> faults::Fault {
    let aim = &fault.aim;
    let trigger = match aim.rate {
        Some(rate) => Trigger::Rate { per_million: rate.millionths },
        None => Trigger::Nth { nth: aim.nth.into(), times: aim.times.map(u64::from) },
    };
    faults::Fault {
        op: operation(fault.op),
        path: fault.pattern.clone(),
        making: fault.op == s::Op::Create,
        phase: aim.during.map(|phase| phase.name().to_owned()),
        from: aim.after.map(|after| now.saturating_add(after)),
        covering: aim.at_byte,
        trigger,
        kind: kind(fault),
    }
}

fn operation(op: s::Op) -> Option<Op> {
    Some(match op {
        s::Op::Any => return None,
        s::Op::Open | s::Op::Create => Op::Open,
        s::Op::Read => Op::Read,
        s::Op::Write => Op::Write,
        s::Op::Truncate => Op::SetLen,
        s::Op::Sync => Op::Sync,
        s::Op::SyncDir => Op::SyncDir,
        s::Op::Rename => Op::Rename,
        s::Op::Remove => Op::Remove,
        s::Op::MakeDir => Op::MakeDir,
        s::Op::List => Op::List,
        s::Op::Lock => Op::Lock,
    })
}

fn kind(fault: &s::Fault) -> Kind {
    let is_sync = matches!(fault.op, s::Op::Sync | s::Op::SyncDir);
    match fault.kind {
        s::FaultKind::Error { errno, when } => Kind::Error { errno, effect: when == s::When::After },
        s::FaultKind::Tear { bytes } => Kind::Tear { bytes, errno: Errno::EIO },
        s::FaultKind::Short { bytes } => Kind::Short { bytes },
        s::FaultKind::Full { bytes } => Kind::Full { fits: bytes },
        s::FaultKind::Lost if is_sync => Kind::Lie,
        s::FaultKind::Lost => Kind::Lost,
        s::FaultKind::Misdirect { by } => Kind::Misdirected { path: None, position: by },
        s::FaultKind::Flip { bit } => {
            Kind::BitRot { byte: bit / 8, xor: 1 << u8::try_from(bit % 8).unwrap_or_default() }
        }
        s::FaultKind::Drop => Kind::SyncFailure { errno: Errno::EIO },
        s::FaultKind::WritebackError => Kind::WritebackFailure { errno: Errno::EIO },
        s::FaultKind::Stall { lasts } => Kind::Stall { delay: lasts },
        s::FaultKind::Crash { bytes } => Kind::Crash { at: bytes.map_or(Cut::After, Cut::Bytes) },
        // Whether there is such an image can be asked only between two operations: this one kills the process, and the
        // executor turns the lights out.
        s::FaultKind::PowerLoss { bytes, keep: Keep::Image(_) } => {
            Kind::Crash { at: bytes.map_or(Cut::After, Cut::Bytes) }
        }
        s::FaultKind::PowerLoss { bytes, .. } => Kind::PowerLoss { at: bytes.map_or(Cut::After, Cut::Bytes) },
    }
}
