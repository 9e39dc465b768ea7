//! One step, or the world, with less in it: fewer records, shorter values, defaults.
//!
//! Every candidate is smaller in one way that cannot be gone back on, so that shrinking comes to an end.

use std::time::Duration;

use super::steps::replacing;
use crate::scenario::{
    BrokerSettings, ClockSettings, Consume, Content, CreateTopic, DiskSettings, Fault, FaultKind, Keep,
    NetSettings, Produce, Scenario, Start, Step, Surgery,
};

/// The scenario, with a step made smaller in each way there is; `None` where there is no step of this number.
pub(super) fn smaller_step(scenario: &Scenario, number: usize) -> Option<Vec<Scenario>> {
    replacing(scenario, number, |step| smaller(step).into_iter().map(|step| vec![step]).collect())
}

fn smaller(step: &Step) -> Vec<Step> {
    match step {
        Step::Produce(produce) => produces(produce).into_iter().map(Step::Produce).collect(),
        Step::Topic(topic) => topics(topic).into_iter().map(Step::Topic).collect(),
        Step::Consume(consume) => consumes(consume).into_iter().map(Step::Consume).collect(),
        Step::Fetch(fetch) => consumes(fetch).into_iter().map(Step::Fetch).collect(),
        Step::Fault(fault) => faults(fault).into_iter().map(Step::Fault).collect(),
        Step::PowerLoss { keep: Keep::Drawn } => {
            vec![Step::PowerLoss { keep: Keep::Nothing }, Step::PowerLoss { keep: Keep::Everything }]
        }
        Step::Start(start) => starts(start).into_iter().map(Step::Start).collect(),
        Step::Restart(start) => starts(start).into_iter().map(Step::Restart).collect(),
        Step::Advance(time) => durations(*time).into_iter().map(Step::Advance).collect(),
        Step::Surgery { surgery: Surgery::Corrupt { file, at, xor, bytes }, may_miss } => {
            let fewer = |bytes| Step::Surgery {
                surgery: Surgery::Corrupt { file: file.clone(), at: *at, xor: *xor, bytes },
                may_miss: *may_miss,
            };
            numbers(*bytes, 1).into_iter().map(fewer).collect()
        }
        _ => Vec::new(),
    }
}

/// Numbers between the least and this one, the smallest first.
fn numbers(number: u64, least: u64) -> Vec<u64> {
    let half = least + number.saturating_sub(least) / 2;
    let mut numbers: Vec<u64> =
        [least, half, number.saturating_sub(1)].into_iter().filter(|n| *n >= least && *n < number).collect();
    numbers.dedup();
    numbers
}

fn small(number: u32, least: u32) -> Vec<u32> {
    let numbers = numbers(number.into(), least.into()).into_iter();
    numbers.filter_map(|n| u32::try_from(n).ok()).collect()
}

fn durations(time: Duration) -> Vec<Duration> {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    numbers(millis, 1).into_iter().map(Duration::from_millis).collect()
}

fn contents(content: &Content) -> Vec<Content> {
    match content {
        Content::Size(size) => numbers(*size, 0).into_iter().map(Content::Size).collect(),
        Content::Hex(bytes) => [0, bytes.len() / 2]
            .into_iter()
            .filter(|len| *len < bytes.len())
            .map(|len| Content::Hex(bytes[..len].to_vec()))
            .collect(),
        Content::Text(_) => Vec::new(),
    }
}

fn produces(p: &Produce) -> Vec<Produce> {
    let mut all: Vec<Produce> = Vec::new();
    all.extend(small(p.count, 1).into_iter().map(|count| Produce { count, ..p.clone() }));
    all.extend(small(p.batch, 1).into_iter().map(|batch| Produce { batch, ..p.clone() }));
    all.extend(contents(&p.value).into_iter().map(|value| Produce { value, ..p.clone() }));
    if let Some(key) = &p.key {
        all.push(Produce { key: None, ..p.clone() });
        all.extend(contents(key).into_iter().map(|key| Produce { key: Some(key), ..p.clone() }));
    }
    let partitions = p.partition.map_or_else(Vec::new, |n| small(n, 0));
    all.extend(partitions.into_iter().map(|n| Produce { partition: Some(n), ..p.clone() }));
    all
}

fn topics(t: &CreateTopic) -> Vec<CreateTopic> {
    let mut all: Vec<CreateTopic> = small(t.partitions, 1)
        .into_iter()
        .map(|partitions| CreateTopic { partitions, ..t.clone() })
        .collect();
    if t.retention_bytes.is_some() {
        all.push(CreateTopic { retention_bytes: None, ..t.clone() });
    }
    if t.retention_age.is_some() {
        all.push(CreateTopic { retention_age: None, ..t.clone() });
    }
    all
}

fn consumes(c: &Consume) -> Vec<Consume> {
    let plain =
        Consume { topic: c.topic.clone(), partition: c.partition, expect: c.expect, ..Consume::default() };
    let mut all = Vec::new();
    if *c != plain {
        all.push(plain);
    }
    let froms = c.from.map_or_else(Vec::new, |from| numbers(from, 0));
    all.extend(froms.into_iter().map(|from| Consume { from: Some(from), ..c.clone() }));
    all
}

fn starts(s: &Start) -> Vec<Start> {
    if s.settings == BrokerSettings::default() {
        return Vec::new();
    }
    vec![Start { settings: BrokerSettings::default(), ..s.clone() }]
}

fn faults(f: &Fault) -> Vec<Fault> {
    let mut all = Vec::new();
    let with_aim = |change: &dyn Fn(&mut Fault)| {
        let mut fault = f.clone();
        change(&mut fault);
        fault
    };
    // A fault that certainly strikes says more than one that may miss.
    if f.may_miss {
        all.push(with_aim(&|f| f.may_miss = false));
    }
    if f.aim.rate.is_some() {
        all.push(with_aim(&|f| f.aim.rate = None));
    }
    if f.aim.times != Some(1) {
        all.push(with_aim(&|f| f.aim.times = Some(1)));
    }
    if f.aim.after.is_some() {
        all.push(with_aim(&|f| f.aim.after = None));
    }
    all.extend(small(f.aim.nth, 1).into_iter().map(|nth| with_aim(&|f| f.aim.nth = nth)));
    all.extend(fault_kinds(f.kind).into_iter().map(|kind| Fault { kind, ..f.clone() }));
    all
}

fn fault_kinds(kind: FaultKind) -> Vec<FaultKind> {
    let less = |bytes: u64| numbers(bytes, 0).into_iter();
    match kind {
        FaultKind::Tear { bytes } => less(bytes).map(|bytes| FaultKind::Tear { bytes }).collect(),
        FaultKind::Torn { bytes } => less(bytes).map(|bytes| FaultKind::Torn { bytes }).collect(),
        FaultKind::Short { bytes } => less(bytes).map(|bytes| FaultKind::Short { bytes }).collect(),
        FaultKind::Full { bytes } => less(bytes).map(|bytes| FaultKind::Full { bytes }).collect(),
        FaultKind::Crash { bytes: Some(bytes) } => {
            less(bytes).map(|bytes| FaultKind::Crash { bytes: Some(bytes) }).collect()
        }
        FaultKind::PowerLoss { bytes, keep } => {
            let mut all: Vec<FaultKind> = Vec::new();
            if keep == Keep::Drawn {
                all.push(FaultKind::PowerLoss { bytes, keep: Keep::Nothing });
                all.push(FaultKind::PowerLoss { bytes, keep: Keep::Everything });
            }
            let fewer = bytes.map_or_else(Vec::new, |bytes| numbers(bytes, 0));
            all.extend(fewer.into_iter().map(|bytes| FaultKind::PowerLoss { bytes: Some(bytes), keep }));
            all
        }
        FaultKind::Stall { lasts } => {
            durations(lasts).into_iter().map(|lasts| FaultKind::Stall { lasts }).collect()
        }
        _ => Vec::new(),
    }
}

/// The scenario, with a world that says less in each way there is.
pub(super) fn smaller_worlds(scenario: &Scenario) -> Vec<Scenario> {
    let with = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = scenario.clone();
        change(&mut scenario);
        scenario
    };
    let all = [
        with(&|s| s.broker = BrokerSettings::default()),
        with(&|s| s.disk = DiskSettings::default()),
        with(&|s| s.net = NetSettings::default()),
        with(&|s| s.clock = ClockSettings::default()),
        with(&|s| s.broker.segment_bytes = None),
        with(&|s| s.broker.max_unsynced_bytes = None),
        with(&|s| s.broker.index_interval = None),
        with(&|s| s.broker.max_record_bytes = None),
        with(&|s| s.broker.retention_bytes = None),
        with(&|s| s.broker.retention_age = None),
        with(&|s| s.broker.retention_check = None),
        with(&|s| s.broker.recovery_threads = None),
        with(&|s| s.broker.max_frame_bytes = None),
        with(&|s| s.broker.max_connections = None),
        with(&|s| s.broker.max_in_flight_bytes = None),
        with(&|s| s.broker.max_buffer_bytes = None),
        with(&|s| s.broker.idle_timeout = None),
        with(&|s| s.broker.frame_timeout = None),
        with(&|s| s.broker.write_timeout = None),
        with(&|s| s.disk.latency = None),
        with(&|s| s.disk.sync_latency = None),
        with(&|s| s.disk.capacity = None),
        with(&|s| s.disk.max_open_files = None),
        with(&|s| s.disk.profile = None),
        with(&|s| s.net.latency = None),
        with(&|s| s.net.chunk_bytes = None),
        with(&|s| s.net.timeout = None),
        with(&|s| s.net.fail_rate = None),
        with(&|s| s.net.repair_rate = None),
        with(&|s| s.net.accept_errors = None),
    ];
    all.into_iter().filter(|candidate| candidate != scenario).collect()
}
