//! From the faults of a scenario to those of the disk.

use std::time::Duration;

use faults::{Cut, Errno, Keep, Kind, Op, Trigger};

use super::DATA;
use crate::scenario as s;

/// The disk's fault that does what a fault of a scenario says. `now` is simulated time; `into=` names a file that there is.
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
        s::FaultKind::Torn { bytes } => Kind::Torn { kept: bytes },
        s::FaultKind::Misdirect { at } => {
            let path = fault.into.as_ref().map(|file| format!("{DATA}/{file}"));
            Kind::Misdirected { path, position: at }
        }
        s::FaultKind::Flip { bit } => {
            Kind::BitRot { byte: bit / 8, xor: 1 << u8::try_from(bit % 8).unwrap_or_default() }
        }
        s::FaultKind::Unreadable { byte } => Kind::BadSector { byte },
        s::FaultKind::ReadOnly => Kind::ReadOnly,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Step, parse};

    /// A line that aims such a fault. A kind that no line can aim does not compile here.
    fn line(kind: &Kind) -> &'static str {
        match kind {
            Kind::Error { .. } => "fault any \"*\" error=EIO",
            Kind::Short { .. } => "fault write \"*\" short=1",
            Kind::Tear { .. } => "fault write \"*\" tear=1",
            Kind::Full { .. } => "fault write \"*\" full",
            Kind::SyncFailure { .. } => "fault sync \"*\" drop",
            Kind::WritebackFailure { .. } => "fault write \"*\" writeback-error",
            Kind::Torn { .. } => "fault write \"*\" torn=1",
            Kind::Lost => "fault write \"*\" lost",
            Kind::Misdirected { path: None, .. } => "fault write \"*\" misdirect=1",
            Kind::Misdirected { path: Some(_), .. } => "fault write \"*\" misdirect=1 into=\"a\"",
            Kind::BitRot { .. } => "fault read \"*\" flip=1",
            Kind::BadSector { .. } => "fault read \"*\" unreadable=1",
            Kind::ReadOnly => "fault any \"*\" read-only",
            Kind::Lie => "fault sync \"*\" lost",
            Kind::Stall { .. } => "fault any \"*\" stall=\"1s\"",
            Kind::Crash { .. } => "fault any \"*\" crash",
            Kind::PowerLoss { .. } => "fault any \"*\" power-loss",
        }
    }

    #[test]
    fn every_fault_of_the_disk_can_be_aimed_by_a_scenario() {
        let errno = Errno::EIO;
        for wanted in [
            Kind::Error { errno, effect: false },
            Kind::Short { bytes: 1 },
            Kind::Tear { bytes: 1, errno },
            Kind::Full { fits: 0 },
            Kind::SyncFailure { errno },
            Kind::WritebackFailure { errno },
            Kind::Torn { kept: 1 },
            Kind::Lost,
            Kind::Misdirected { path: None, position: 1 },
            Kind::Misdirected { path: Some(format!("{DATA}/a")), position: 1 },
            Kind::BitRot { byte: 0, xor: 2 },
            Kind::BadSector { byte: 1 },
            Kind::ReadOnly,
            Kind::Lie,
            Kind::Stall { delay: Duration::from_secs(1) },
            Kind::Crash { at: Cut::After },
            Kind::PowerLoss { at: Cut::After },
        ] {
            let line = line(&wanted);
            let scenario = parse("t.kdl", &format!("scenario \"t\"\n{line}\n")).expect(line);
            let [Step::Fault(fault)] = &scenario.steps[..] else { panic!("{line}") };
            assert_eq!(aim(fault, Duration::ZERO).kind, wanted, "{line}");
        }
    }
}
