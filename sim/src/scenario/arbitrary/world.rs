//! The world at the start, and how it changes.

use std::time::Duration;

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::{bytes, duration, name, rate, shown_moment, some_bytes, some_time, span};
use crate::scenario::settings::Capacity;
use crate::scenario::syntax::sense;
use crate::scenario::{
    BrokerSettings, ClockChange, ClockSettings, DiskSettings, Durability, Link, NetSettings, Profile, Step,
};

pub(super) fn broker() -> impl Strategy<Value = BrokerSettings> {
    let durability = prop_oneof![
        Just(Durability::Os),
        Just(Durability::Always),
        some_time().prop_map(Durability::Interval)
    ];
    let (interval, record) = (1..=u64::from(u32::MAX), 1..=1u32 << 26);
    let age = duration().prop_map(|time| time.max(Duration::from_millis(1)));
    let log = (of(durability), of(some_bytes()), of(interval), of(record), of(bytes()), of(age));
    let times = (of(some_time()), of(some_time()), of(some_time()), of(some_time()));
    let connections = of(1..=u32::MAX);
    let limits = (of(1..99u32), of(any::<u32>()), connections, of(bytes()), of(some_bytes()), of(bytes()));
    (log, times, limits).prop_map(|(log, times, limits)| BrokerSettings {
        durability: log.0,
        segment_bytes: log.1,
        max_unsynced_bytes: limits.4,
        index_interval: log.2,
        max_record_bytes: log.3,
        retention_bytes: log.4,
        retention_age: log.5,
        retention_check: times.0,
        recovery_threads: limits.0,
        max_frame_bytes: limits.1,
        max_connections: limits.2,
        max_in_flight_bytes: limits.3,
        max_buffer_bytes: limits.5,
        idle_timeout: times.1,
        frame_timeout: times.2,
        write_timeout: times.3,
    })
}

pub(super) fn disk() -> impl Strategy<Value = DiskSettings> {
    let profile = select(Profile::ALL.to_vec());
    let capacity = prop_oneof![
        bytes().prop_map(Capacity::Bytes),
        bytes().prop_map(Capacity::Free),
        Just(Capacity::Unlimited)
    ];
    (of(profile), of(capacity), of(span()), of(span()), of(any::<bool>()), of(1..=u32::MAX)).prop_map(
        |(profile, capacity, latency, sync_latency, read_only, max_open_files)| DiskSettings {
            profile,
            capacity,
            latency,
            sync_latency,
            read_only,
            max_open_files,
        },
    )
}

pub(super) fn net() -> impl Strategy<Value = NetSettings> {
    (of(span()), of(1..999u32), of(rate()), of(rate()), of(some_time()), of(any::<u32>())).prop_map(
        |(latency, chunk_bytes, fail_rate, repair_rate, timeout, accept_errors)| NetSettings {
            latency,
            chunk_bytes,
            fail_rate,
            repair_rate,
            timeout,
            accept_errors,
        },
    )
}

pub(super) fn clock() -> impl Strategy<Value = ClockSettings> {
    (of(shown_moment()), of(any::<bool>())).prop_map(|(at, frozen)| ClockSettings { at, frozen })
}

pub(super) fn world_change() -> impl Strategy<Value = Step> {
    let jump = any::<i32>().prop_map(i64::from);
    let change = (of(shown_moment()), of(jump), of(any::<bool>()))
        .prop_map(|(at, jump, frozen)| ClockChange { at, jump: jump.filter(|_| at.is_none()), frozen });
    let link = (name(), any::<(bool, bool)>(), of(duration()))
        .prop_filter("hosts are not flags, and one is the client's", |(client, ..)| {
            client != "one-way" && client != "broker"
        })
        .prop_map(|(client, (from, one_way), lasts)| {
            let broker = "broker".to_owned();
            let (a, b) = if from { (client, broker) } else { (broker, client) };
            Link { a, b, one_way, lasts }
        })
        .boxed();
    prop_oneof![
        disk().prop_map(|disk| Step::Disk(DiskSettings { profile: None, max_open_files: None, ..disk })),
        net().prop_map(|net| Step::Net(NetSettings { chunk_bytes: None, repair_rate: None, ..net })),
        change.prop_map(Step::Clock),
        link.clone().prop_map(Step::Partition),
        link.prop_map(|link| Step::Hold(Link { one_way: false, ..link })),
        Just(Step::Heal),
        duration().prop_map(Step::Advance),
    ]
    .prop_filter("it changes something", |step| sense::idle(step).is_none())
}
