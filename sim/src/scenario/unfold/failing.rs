//! Moves that make the disk fail: errors, no room, no writing at all, and lies. Each ends with a disk that works.

use std::time::Duration;

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::moves::{Mover, fault, start};
use crate::scenario::{
    Aim, Branch, Capacity, DiskSettings, Errno, Fault, FaultKind, Keep, Op, Phase, Start, StartExpect, Step,
    When,
};

impl Mover<'_> {
    pub(super) fn write_error(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let bytes = rng.random_range(0..48);
        let kind = match rng.random_range(0..5u32) {
            0 => FaultKind::Tear { bytes },
            1 => FaultKind::Short { bytes: bytes + 1 },
            2 => FaultKind::Full { bytes },
            3 => error(Errno::EIO, When::After),
            _ => error(Errno::EIO, When::Before),
        };
        let aim = Aim { nth: rng.random_range(1..4), ..Aim::default() };
        // Where the cut that undoes a failed write fails too, the partition is fenced.
        let cut_fails = rng.random_range(0..4u32) == 0;
        out.push(fault(Op::Write, "*.log", aim, kind));
        if cut_fails {
            out.push(fault(Op::Truncate, "*.log", Aim::default(), error(Errno::EIO, When::Before)));
        }
        self.work(out);
        self.after(kind, out);
        if cut_fails {
            out.push(start());
        }
    }

    /// A file cannot be made, renamed or removed, for want of a descriptor or for worse: rolls fail, and what they undo.
    pub(super) fn file_error(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let op =
            *[Op::Create, Op::Create, Op::Create, Op::Rename, Op::Remove].choose(rng).unwrap_or(&Op::Create);
        let pattern = *["*.log", "*.index", "**"].choose(rng).unwrap_or(&"**");
        let errno = *[Errno::EIO, Errno::EMFILE, Errno::ENOSPC].choose(rng).unwrap_or(&Errno::EIO);
        let when = *[When::Before, When::Before, When::After].choose(rng).unwrap_or(&When::Before);
        let aim = Aim { nth: rng.random_range(1..3), times: Some(rng.random_range(1..4)), ..Aim::default() };
        out.push(fault(op, pattern, aim, error(errno, when)));
        self.work(out);
        self.work(out);
        out.push(Step::Calm);
        self.work(out);
    }

    pub(super) fn sync_error(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let kind = *[FaultKind::Drop, error(Errno::EIO, When::Before), error(Errno::EIO, When::After)]
            .choose(rng)
            .unwrap_or(&FaultKind::Drop);
        let op = *[Op::Sync, Op::Sync, Op::SyncDir].choose(rng).unwrap_or(&Op::Sync);
        let kind = if op == Op::SyncDir { error(Errno::EIO, When::Before) } else { kind };
        let aim = Aim { nth: rng.random_range(1..4), ..Aim::default() };
        let lights = rng.random_range(0..2u32) == 0;
        out.push(fault(op, "**", aim, kind));
        self.work(out);
        out.push(Step::Calm);
        self.work(out);
        if lights {
            out.push(Step::PowerLoss { keep: self.keep() });
        }
        out.push(start());
    }

    /// Records come while a sync is under way, which does not cover them, and nothing keeps them: the next sync fails, or is as
    /// slow, and power is lost.
    pub(super) fn slow_sync(&mut self, out: &mut Vec<Step>) {
        let partition = self.a_topic();
        let rng = &mut self.streams.faults;
        let (stall, next_fails) = (rng.random_range(2..9u64), rng.random_range(0..2u32) == 0);
        let ms = Duration::from_millis;
        let (between, until_dark) = (ms(rng.random_range(1..=stall)), ms(rng.random_range(1..=3 * stall)));
        let number = rng.random_range(0..partition.partitions);
        let aim = |nth, times| Aim { nth, times: Some(times), ..Aim::default() };
        let times = if next_fails { 1 } else { 3 };
        out.push(fault(Op::Sync, "*.log", aim(1, times), FaultKind::Stall { lasts: ms(stall) }));
        if next_fails {
            out.push(fault(Op::Sync, "*.log", aim(2, 1), FaultKind::Drop));
        }
        let mut branches: Vec<Branch> = Vec::new();
        for (client, wait) in [("a", Duration::ZERO), ("b", between)] {
            let mut produce = self.produce();
            if let Step::Produce(produce) = &mut produce {
                (produce.topic, produce.partition) = (partition.name.clone(), Some(number));
            }
            let wait = (!wait.is_zero()).then_some(Step::Advance(wait));
            branches.push(Branch {
                client: client.to_owned(),
                steps: wait.into_iter().chain([produce]).collect(),
            });
        }
        let dark = Step::PowerLoss { keep: Keep::Nothing };
        if !next_fails {
            branches.push(Branch {
                client: "c".to_owned(),
                steps: vec![Step::Advance(until_dark), dark.clone()],
            });
        }
        out.push(Step::Parallel(branches));
        out.extend([Step::Calm, dark, start()]);
    }

    /// What was to be written back is dropped, at a sync or in the background, and leaves the page cache before or after the next
    /// start, which copies the log.
    pub(super) fn writeback_error(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let aim = Aim { nth: rng.random_range(1..4), ..Aim::default() };
        let at_sync = rng.random_range(0..2u32) == 0;
        let (evicted, death) = (rng.random_range(0..4u32), rng.random_range(0..4u32));
        let (op, kind) =
            if at_sync { (Op::Sync, FaultKind::Drop) } else { (Op::Write, FaultKind::WritebackError) };
        let pattern = *["*.log", "*.log", "*.log", "*index", "**"].choose(rng).unwrap_or(&"*.log");
        out.push(fault(op, pattern, aim, kind));
        self.work(out);
        out.push(Step::Calm);
        if evicted > 0 {
            out.extend([Step::DropCaches, self.fetch()]);
        }
        match death {
            0 => out.push(Step::PowerLoss { keep: self.keep() }),
            1 => out.push(Step::Crash),
            _ => {}
        }
        out.push(start());
        if evicted == 0 {
            out.extend([Step::DropCaches, self.consume()]);
        }
    }

    pub(super) fn read_error(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let kind = match rng.random_range(0..2u32) {
            0 => error(Errno::EIO, When::Before),
            _ => FaultKind::Short { bytes: rng.random_range(1..40) },
        };
        let aim = Aim { nth: rng.random_range(1..3), ..Aim::default() };
        out.push(fault(Op::Read, "**", aim, kind));
        out.extend([self.consume(), self.fetch(), Step::Calm]);
    }

    pub(super) fn interrupt(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let op = *[Op::Write, Op::Sync, Op::Read, Op::Any].choose(rng).unwrap_or(&Op::Any);
        let aim = Aim { nth: rng.random_range(1..4), times: Some(rng.random_range(1..3)), ..Aim::default() };
        out.push(fault(op, "**", aim, error(Errno::EINTR, When::Before)));
        self.work(out);
        out.extend([self.fetch(), Step::Calm]);
    }

    pub(super) fn index_error(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let pattern = *["*.index", "*.timeindex"].choose(rng).unwrap_or(&"*.index");
        let bytes = rng.random_range(0..24);
        let kind = *[FaultKind::Full { bytes }, FaultKind::Tear { bytes }, error(Errno::EIO, When::Before)]
            .choose(rng)
            .unwrap_or(&FaultKind::Full { bytes });
        out.push(fault(Op::Write, pattern, Aim { nth: rng.random_range(1..3), ..Aim::default() }, kind));
        self.work(out);
        self.after(kind, out);
        self.work(out);
    }

    /// Nothing is armed any more, and a disk that a fault filled has room.
    fn after(&mut self, kind: FaultKind, out: &mut Vec<Step>) {
        out.push(Step::Calm);
        if matches!(kind, FaultKind::Full { .. }) {
            out.push(disk(Capacity::Unlimited));
        }
    }

    /// The disk fills up; reads go on; perhaps the broker starts anew on it; and then there is room again.
    pub(super) fn disk_full(&mut self, out: &mut Vec<Step>) {
        let free = *[0, 100, 4096, 8192, 20_000].choose(&mut self.streams.faults).unwrap_or(&0);
        out.push(disk(Capacity::Free(free)));
        self.work(out);
        self.work(out);
        out.push(self.fetch());
        if self.streams.faults.random_range(0..3u32) == 0 {
            let kill = *[None, Some(false), Some(true)].choose(&mut self.streams.faults).unwrap_or(&None);
            match kill {
                Some(true) => out.push(Step::PowerLoss { keep: self.keep() }),
                Some(false) => out.push(Step::Crash),
                None => {}
            }
            out.push(attempt());
        }
        // Where the full disk kept the broker from starting, it starts now.
        out.extend([disk(Capacity::Unlimited), start()]);
        self.work(out);
    }

    /// The file system turns read-only, as one does that has found itself damaged; reads go on; perhaps the broker starts
    /// anew on it; and then it can be written to again.
    pub(super) fn read_only(&mut self, out: &mut Vec<Step>) {
        let set = |yes| Step::Disk(DiskSettings { read_only: Some(yes), ..DiskSettings::default() });
        let rng = &mut self.streams.faults;
        if rng.random_range(0..2u32) == 0 {
            out.push(set(true));
        } else {
            let op = *[Op::Any, Op::Write, Op::Sync, Op::SyncDir, Op::Create].choose(rng).unwrap_or(&Op::Any);
            let nth = if op == Op::Any { rng.random_range(1..12) } else { rng.random_range(1..4) };
            out.push(fault(op, "**", Aim { nth, ..Aim::default() }, FaultKind::ReadOnly));
        }
        self.work(out);
        out.push(self.fetch());
        if self.streams.faults.random_range(0..2u32) == 0 {
            out.extend([self.down(), attempt(), self.consume()]);
            self.work(out);
        }
        out.extend([Step::Calm, set(false), start()]);
        self.work(out);
    }

    /// A start meets an error that may keep the broker from starting: the lock, a listing, a file that does not open.
    pub(super) fn start_error(&mut self, out: &mut Vec<Step>) {
        out.push(self.down());
        let rng = &mut self.streams.faults;
        let op = *[Op::Lock, Op::List, Op::Create, Op::Rename, Op::MakeDir].choose(rng).unwrap_or(&Op::Lock);
        let errno = *[Errno::EIO, Errno::EMFILE, Errno::ENOSPC].choose(rng).unwrap_or(&Errno::EIO);
        // The first listing is that of the data directory.
        let nth = if matches!(op, Op::Lock | Op::List) { 1 } else { rng.random_range(1..4) };
        let aim = Aim { nth, during: Some(Phase::Recovery), ..Aim::default() };
        out.push(fault(op, "**", aim, error(errno, When::Before)));
        out.extend([attempt(), Step::Calm, start()]);
        self.work(out);
    }

    /// The disk says yes and has done nothing, or has done it elsewhere; a restart or a power loss shows it.
    pub(super) fn lie(&mut self, out: &mut Vec<Step>) {
        let rng = &mut self.streams.faults;
        let pattern = *["*.log", "*.log", "*.index", "*.timeindex"].choose(rng).unwrap_or(&"*.log");
        let (op, kind) = match rng.random_range(0..6u32) {
            0 => (Op::Write, FaultKind::Lost),
            1 => (Op::Write, FaultKind::Torn { bytes: rng.random_range(0..48) }),
            2 | 3 => (Op::Write, FaultKind::Misdirect { at: rng.random_range(0..400) }),
            _ => (Op::Sync, FaultKind::Lost),
        };
        let aim = Aim { nth: rng.random_range(1..4), ..Aim::default() };
        let strays = matches!(kind, FaultKind::Misdirect { .. }) && rng.random_range(0..2u32) == 0;
        let into = strays.then(|| self.a_file("log"));
        out.push(Step::Fault(Fault { op, pattern: pattern.to_owned(), aim, kind, into, may_miss: true }));
        self.work(out);
        out.push(Step::Calm);
        if self.streams.faults.random_range(0..2u32) == 0 {
            out.push(Step::PowerLoss { keep: self.keep() });
        }
        out.extend([start(), self.consume()]);
    }
}

/// A start of which nothing is expected.
fn attempt() -> Step {
    Step::Restart(Start { expect: StartExpect::Any, ..Start::default() })
}

fn disk(capacity: Capacity) -> Step {
    Step::Disk(DiskSettings { capacity: Some(capacity), ..DiskSettings::default() })
}

fn error(errno: Errno, when: When) -> FaultKind {
    FaultKind::Error { errno, when }
}
