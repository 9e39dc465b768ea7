//! What an exploration came to: figures, and the first violation.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use faults::{Keep, Site};

use crate::oracle::Broken;

/// One way to go down. Where a crash point has more images than the bound, these are taken of it, in this order: nothing,
/// everything, the names without the data, the data without the names, and then draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// The process dies alone, and what was pending stays pending.
    Process,
    /// The lights go out, and so much is left.
    Power(Keep),
}

/// A crash point, and what was left there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// After so many steps of the disk's history.
    pub steps: usize,
    /// And so many bytes of the next, a write; none where the crash is between two steps.
    pub bytes: Option<u64>,
    /// What was left.
    pub choice: Choice,
}

/// A crash of the run, and what was left; with the crash inside the recovery after it, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crash {
    /// The crash of the run.
    pub point: Point,
    /// Where in what the recovery did it was crashed, and what was left.
    pub nested: Option<Point>,
}

/// A panic, in the broker or in the explorer.
#[derive(Clone, Debug)]
pub struct Panicked {
    /// The crash whose image was looked at; none before the first.
    pub crash: Option<Crash>,
    /// What it said, and where.
    pub words: String,
}

/// A broken promise, and where.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The crash.
    pub point: Point,
    /// The crash inside the recovery after it: where in what that did, and what was left.
    pub nested: Option<Point>,
    /// What was broken.
    pub broken: Broken,
}

/// What an exploration came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Steps in the disk's history.
    pub operations: usize,
    /// Crash points between steps.
    pub points: u64,
    /// Crash points inside writes.
    pub cuts: u64,
    /// Images built.
    pub images: u64,
    /// Recoveries of distinct images that a crash of the run leaves.
    pub recoveries: u64,
    /// Recoveries of distinct images that a crash inside one of these recoveries leaves.
    pub nested: u64,
    /// Of all these, those whose disk had no room for something, or took no changes.
    pub refused: u64,
    /// Different things that these recoveries came to: behind each, the broker took records and recovered once more.
    pub gone_on: u64,
    /// How often the oracle was asked: an image that was recovered is judged again when clients know more.
    pub judged: u64,
    /// How often the files that two recoveries left were compared.
    pub compared: u64,
    /// Crash points with more images than the bound: of those, some were drawn.
    pub sampled: u64,
    /// Bytes inside of writes behind which no crash was tried: of a longer write, not each is a crash point.
    pub uncut: u64,
    /// Whether somebody has put an end to it before all was visited.
    pub is_interrupted: bool,
    /// Images that broke a promise.
    pub violations: u64,
    /// The first of them.
    pub first: Option<Violation>,
    /// The first panic: what lies behind it was not visited.
    pub panicked: Option<Panicked>,
    /// The places in the broker that synced, in the run or in a recovery.
    pub sites: BTreeSet<Site>,
    /// How long it took.
    pub took: Duration,
    /// On so many threads.
    pub threads: usize,
}

impl Report {
    /// Whether all was visited, and all promises held.
    pub fn holds(&self) -> bool {
        self.violations == 0 && self.panicked.is_none()
    }

    /// Recoveries, each of them judged, per second and thread.
    pub fn rate(&self) -> f64 {
        let done = self.recoveries + self.nested;
        done as f64 / self.took.as_secs_f64().max(1e-9) / self.threads.max(1) as f64
    }

    /// Adds what another thread has done.
    pub(crate) fn add(&mut self, other: Report) {
        self.points += other.points;
        self.cuts += other.cuts;
        self.images += other.images;
        self.recoveries += other.recoveries;
        self.nested += other.nested;
        self.judged += other.judged;
        self.compared += other.compared;
        self.sampled += other.sampled;
        self.uncut += other.uncut;
        self.is_interrupted |= other.is_interrupted;
        self.violations += other.violations;
        self.sites.extend(other.sites);
        let earlier = |a: &Violation, b: &Violation| a.point.cmp(&b.point).then(a.nested.cmp(&b.nested));
        self.first = match (self.first.take(), other.first) {
            (Some(a), Some(b)) => Some(if earlier(&a, &b).is_le() { a } else { b }),
            (a, b) => a.or(b),
        };
        self.panicked = match (self.panicked.take(), other.panicked) {
            (Some(a), Some(b)) => Some(if a.crash <= b.crash { a } else { b }),
            (a, b) => a.or(b),
        };
    }

    /// Notes a violation.
    pub(crate) fn violated(&mut self, point: Point, nested: Option<Point>, broken: &Broken) {
        self.violations += 1;
        if self.first.is_none() {
            self.first = Some(Violation { point, nested, broken: broken.clone() });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operations       {:>10}", self.operations)?;
        writeln!(f, "crash points     {:>10}", self.points)?;
        writeln!(f, "cuts in writes   {:>10}", self.cuts)?;
        writeln!(f, "images           {:>10}", self.images)?;
        writeln!(f, "distinct         {:>10}", self.recoveries + self.nested)?;
        writeln!(f, "recoveries       {:>10}  of what a crash of the run left", self.recoveries)?;
        writeln!(f, "nested           {:>10}  of what a crash inside a recovery left", self.nested)?;
        if self.refused > 0 {
            writeln!(
                f,
                "refused          {:>10}  of both, on a disk that was full or read-only",
                self.refused
            )?;
        }
        writeln!(
            f,
            "gone on          {:>10}  different results of these: a record is appended, and recovered again",
            self.gone_on
        )?;
        writeln!(f, "judged           {:>10}  by all promises, each recovery at least once", self.judged)?;
        writeln!(
            f,
            "compared         {:>10}  byte by byte with the recovery that was not disturbed",
            self.compared
        )?;
        let threads = self.threads;
        let took = self.took.as_secs_f64();
        let on = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        writeln!(f, "states/s         {:>10.0}  per thread ({on}, {took:.2} s)", self.rate())?;
        if self.is_interrupted {
            let all = self.operations + 1;
            writeln!(f, "interrupted after {} of at most {all} crash points", self.points)?;
        }
        match (self.sampled, self.uncut) {
            _ if self.is_interrupted => {}
            (0, 0) => writeln!(f, "exhaustive: every legal image of every crash point")?,
            (0, n) => writeln!(
                f,
                "every legal image of every crash point; inside of longer writes, {n} bytes are none"
            )?,
            (n, _) => writeln!(
                f,
                "sampled: {n} places have more images than --limit (those inside of writes and recoveries\n\
                 counted too): of these, the extremes and some that were drawn"
            )?,
        }
        write!(f, "violations       {:>10}", self.violations)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Process => f.write_str("the process died alone"),
            Choice::Power(Keep::Nothing) => f.write_str("nothing was kept"),
            Choice::Power(Keep::Everything) => f.write_str("everything was kept"),
            Choice::Power(Keep::Names) => f.write_str("names were kept, and no data"),
            Choice::Power(Keep::Data) => f.write_str("data was kept, and no names"),
            Choice::Power(Keep::Image(n)) => write!(f, "image {n}"),
            Choice::Power(Keep::Draw(seed)) => write!(f, "the image drawn from {seed}"),
            Choice::Power(Keep::Drawn) => f.write_str("an image that the seed draws"),
        }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after disk operation {}", self.point.steps)?;
        if let Some(bytes) = self.point.bytes {
            write!(f, " and {bytes} bytes of the next")?;
        }
        write!(f, ": {}", self.point.choice)?;
        if let Some(Point { steps, bytes, choice }) = self.nested {
            write!(f, "; then after operation {steps} of recovery")?;
            bytes.map_or(Ok(()), |bytes| write!(f, " and {bytes} bytes of the next"))?;
            write!(f, ": {choice}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.crash {
            None => f.write_str("a panic before the first crash point")?,
            Some(crash) => write!(f, "a panic {crash}")?,
        }
        write!(f, "\n{}", self.words)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crash = Crash { point: self.point, nested: self.nested };
        write!(f, "{crash}\n{}", self.broken)
    }
}
