//! What the steps of a run use up, and how much of it there is.

use std::ops::AddAssign;
use std::time::Duration;

use super::super::drawn_step;
use crate::scenario::random::alternatives;
use crate::scenario::{
    Content, DiskSettings, Draw, FaultKind, FilePosition, NetSettings, Produce, Send, Span, Step, Surgery,
};

/// Steps that a run executes.
const STEPS_MAX: u64 = 1_000_000;
/// Records that a run's clients send.
const RECORDS_MAX: u64 = 1_000_000;
/// Bytes that a run's clients and changes of files write: the trace keeps them, and the oracle, and the disk.
const BYTES_MAX: u64 = 1 << 30;
/// Simulated time that the steps of a run let pass: half of what a run may take in all.
pub(super) const TIME_MAX: Duration = Duration::from_secs(3600);
/// Raw connections that a run opens: a host of the simulated network has 16,384 ports for them, and for its client.
const OPENED_MAX: u64 = 10_000;

/// What the steps so far have used up.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    steps: u64,
    records: u64,
    bytes: u64,
    time: Duration,
    opened: u64,
}

impl Spent {
    /// What one step uses up.
    pub(super) fn by(step: &Step) -> Self {
        let of = |records, bytes, time| Self { steps: 1, records, bytes, time, opened: 0 };
        match step {
            Step::Produce(Produce { key, value, count, .. }) => {
                let record = key.as_ref().map_or(0, size).saturating_add(size(value));
                of((*count).into(), record.saturating_mul((*count).into()), Duration::ZERO)
            }
            Step::Consume(read) | Step::Fetch(read) => of(0, 0, read.wait.unwrap_or_default()),
            Step::Open(open) => Self { opened: open.count.into(), ..of(0, 0, Duration::ZERO) },
            Step::Send(send) => of(1, size(&send.bytes), pauses(send)),
            Step::Receive(receive) => of(0, 0, receive.within),
            Step::Surgery { surgery, .. } => of(0, written(surgery), Duration::ZERO),
            Step::Fault(fault) => match fault.kind {
                FaultKind::Stall { lasts } => of(0, 0, lasts),
                _ => of(0, 0, Duration::ZERO),
            },
            Step::Net(net) => of(0, 0, longest_on_net(net)),
            Step::Disk(disk) => of(0, 0, longest_on_disk(disk)),
            Step::Advance(time) => of(0, 0, *time),
            Step::Random(random) => {
                let steps = random.steps.iter().copied().max().unwrap_or(0);
                Self { steps: steps.into(), ..Self::default() }
            }
            _ => of(0, 0, Duration::ZERO),
        }
    }

    pub(super) fn times(self, times: u64) -> Self {
        let factor = u32::try_from(times).unwrap_or(u32::MAX);
        Self {
            steps: self.steps.saturating_mul(times),
            records: self.records.saturating_mul(times),
            bytes: self.bytes.saturating_mul(times),
            time: self.time.checked_mul(factor).unwrap_or(Duration::MAX),
            opened: self.opened.saturating_mul(times),
        }
    }

    /// What there is too much of, and what to do.
    pub(super) fn too_much(&self) -> Option<(String, &'static str)> {
        if self.time > TIME_MAX {
            let limit = "with this line, more than an hour of simulated time can pass";
            return Some((
                limit.to_owned(),
                "wait less: every wait of the broker has a setting that makes it short",
            ));
        }
        if self.records > RECORDS_MAX {
            let limit = format!("with this line, clients send more than {RECORDS_MAX} records");
            return Some((limit, "lower `count=`; to fill segments, lower `segment-bytes=` of the broker"));
        }
        if self.bytes > BYTES_MAX {
            let limit = "with this line, more than 1GiB is written".to_owned();
            return Some((limit, "write less: a run keeps all of it in memory, several times over"));
        }
        if self.opened > OPENED_MAX {
            let limit = format!("with this line, more than {OPENED_MAX} raw connections are opened");
            return Some((limit, "open fewer; to reach the broker's limit, lower its `max-connections=`"));
        }
        (self.steps > STEPS_MAX).then(|| {
            let limit = format!("with this line, a run has more than {STEPS_MAX} steps");
            (limit, "repeat less often")
        })
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.steps = self.steps.saturating_add(other.steps);
        self.records = self.records.saturating_add(other.records);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time = self.time.saturating_add(other.time);
        self.opened = self.opened.saturating_add(other.opened);
    }
}

fn size(content: &Content) -> u64 {
    match content {
        Content::Text(text) => text.len() as u64,
        Content::Hex(bytes) => bytes.len() as u64,
        Content::Size(size) => *size,
    }
}

/// How long one message, or the wait for one, may take.
pub(super) fn longest_on_net(net: &NetSettings) -> Duration {
    let latency = net.latency.map_or(Duration::ZERO, |span| span.max);
    latency.max(net.timeout.unwrap_or_default())
}

/// How long one operation may take.
pub(super) fn longest_on_disk(disk: &DiskSettings) -> Duration {
    let latest = |span: Option<Span>| span.map_or(Duration::ZERO, |span| span.max);
    latest(disk.latency).max(latest(disk.sync_latency))
}

/// How long a send pauses between its pieces.
fn pauses(send: &Send) -> Duration {
    let pieces =
        send.chunk_bytes.map_or(1, |piece| size(&send.bytes).saturating_add(4).div_ceil(piece.into()));
    let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
    send.every.unwrap_or_default().checked_mul(pieces).unwrap_or(Duration::MAX)
}

/// How many bytes a change of a file may write. What lies before them counts: a file that is longer than its data is zeros in
/// between, and these are kept too.
fn written(surgery: &Surgery) -> u64 {
    let from = |at: Option<FilePosition>| match at {
        Some(FilePosition::Byte(at)) => u64::try_from(at).unwrap_or(0),
        _ => 0,
    };
    match surgery {
        Surgery::Corrupt { bytes, .. } => *bytes,
        Surgery::Truncate { to, .. } => from(Some(*to)),
        Surgery::Zeros { at, bytes, .. } => from(*at).saturating_add(*bytes),
        Surgery::Write { at, bytes, .. } => from(*at).saturating_add(size(bytes)),
        Surgery::WriteRecord { at, key, value, .. } => {
            from(*at).saturating_add(key.as_ref().map_or(0, size)).saturating_add(size(value))
        }
        Surgery::WriteEntry { at, .. } => from(*at),
        Surgery::Delete { .. }
        | Surgery::Copy { .. }
        | Surgery::Rename { .. }
        | Surgery::MakeDir { .. }
        | Surgery::Unreadable { .. } => 0,
    }
}

/// The most that a step can use up: of a drawn one, with the values that make each the most.
pub(super) fn most(step: &Step) -> Spent {
    let Step::Draw(draw) = step else { return Spent::by(step) };
    Spent {
        steps: 1,
        records: most_of(draw, |spent| spent.records),
        bytes: most_of(draw, |spent| spent.bytes),
        time: most_of(draw, |spent| spent.time),
        opened: most_of(draw, |spent| spent.opened),
    }
}

/// The most of one thing. No value makes less of it where another makes more, so that each property can be looked at by itself;
/// twice, since all are the same beside a value that makes nothing, as `size=0` does.
fn most_of<T: Ord + Default>(draw: &Draw, measure: impl Fn(Spent) -> T) -> T {
    let choices: Vec<Vec<usize>> = draw.props.iter().map(|(_, values)| outermost(values)).collect();
    let spent =
        |choice: &[usize]| drawn_step(draw, choice).map_or_else(T::default, |step| measure(Spent::by(&step)));
    let mut best = vec![0; choices.len()];
    for at in (0..choices.len()).chain(0..choices.len()) {
        let with = |value: usize| {
            let mut choice = best.clone();
            choice[at] = value;
            spent(&choice)
        };
        if let Some(value) = choices[at].iter().copied().max_by_key(|value| with(*value)) {
            best[at] = value;
        }
    }
    spent(&best)
}

/// The places of values among all alternatives; of a range only those of its ends, between which nothing is more.
fn outermost(values: &[String]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut next = 0;
    for value in values {
        let count = alternatives(std::slice::from_ref(value)).len();
        places.extend([next, next + count.saturating_sub(1)]);
        next += count;
    }
    places.dedup();
    places
}
