//! The lines `broker`, `disk`, `net`, `clock`.

use std::time::Duration;

use super::fields::Fields;
use super::kinds::{
    self, BYTES, BYTES_32, Bad, COUNT, Choice, DURATION, JUMP, Kind, NUMBER, NUMBER_32, Plain, RATE,
    SOME_TIME, SPAN, TIME, Within, YES_NO,
};
use super::time;
use crate::scenario::settings::Capacity;
use crate::scenario::{
    BrokerSettings, ClockChange, ClockSettings, DiskSettings, Durability, NetSettings, Profile,
};
use broker::settings::Settings;

/// What a power loss may leave, by name.
pub const PROFILES: [(&str, Profile); Profile::ALL.len()] = {
    let [a, b, c, d] = Profile::ALL;
    [(a.name(), a), (b.name(), b), (c.name(), c), (d.name(), d)]
};

const PROFILE: Choice<Profile> = Choice(&PROFILES);

const DURABILITY: Plain<Durability> = Plain(
    |v| {
        let text = v.as_string().unwrap_or_default();
        match (text, text.strip_prefix("interval=").and_then(time::read_duration)) {
            ("os", _) => Ok(Durability::Os),
            ("always", _) => Ok(Durability::Always),
            (_, Some(every)) if !every.is_zero() => Ok(Durability::Interval(every)),
            _ => Err(Bad {
                wanted: r#"os, always, or "interval=50ms" in quotes"#.to_owned(),
                options: vec!["os", "always", "interval=50ms"],
            }),
        }
    },
    |durability| match durability {
        Durability::Os => "os".to_owned(),
        Durability::Always => "always".to_owned(),
        Durability::Interval(every) => kinds::quoted(&format!("interval={}", time::write_duration(*every))),
    },
);

/// `capacity=`, which can be taken away again.
const CAPACITY: Plain<Capacity> = Plain(
    |v| match v.as_string() {
        Some("unlimited") => Ok(Capacity::Unlimited),
        _ => BYTES.read(v).map(Capacity::Bytes).map_err(|_| Bad {
            wanted: r#"a number of bytes, like 65536 or "64KiB", or unlimited"#.to_owned(),
            options: vec!["unlimited"],
        }),
    },
    |capacity| match capacity {
        Capacity::Bytes(n) | Capacity::Free(n) => BYTES.write(n),
        Capacity::Unlimited => "unlimited".to_owned(),
    },
);

/// For how long records are kept. Their times are whole milliseconds.
const AGE: Plain<Duration> = Plain(
    |v| match DURATION.read(v)? {
        age if age < Duration::from_millis(1) => Err(Bad {
            wanted: r#"a time of at least "1ms": less would keep nothing"#.to_owned(),
            options: vec![],
        }),
        age => Ok(age),
    },
    |age| DURATION.write(age),
);

/// The broker's bounds: with anything else it does not start, which says nothing about its promises.
const SEGMENT: Within<u64> = Within(BYTES, 1, Settings::SEGMENT_BYTES_MAX);
const UNSYNCED: Within<u64> = Within(BYTES, 1, u64::MAX);
const INTERVAL: Within<u64> = Within(NUMBER, 1, u32::MAX as u64);
const RECORD: Within<u32> = Within(BYTES_32, 1, Settings::RECORD_BYTES_MAX);
const THREADS: Within<u32> = Within(COUNT, 1, 1024);

/// `durability= segment-bytes= …`
pub fn broker(f: &mut impl Fields, broker: &mut BrokerSettings) {
    f.opt("durability", &DURABILITY, &mut broker.durability);
    f.opt("segment-bytes", &SEGMENT, &mut broker.segment_bytes);
    f.opt("max-unsynced-bytes", &UNSYNCED, &mut broker.max_unsynced_bytes);
    f.opt("index-interval", &INTERVAL, &mut broker.index_interval);
    f.opt("max-record-bytes", &RECORD, &mut broker.max_record_bytes);
    f.opt("retention-bytes", &BYTES, &mut broker.retention_bytes);
    f.opt("retention-age", &AGE, &mut broker.retention_age);
    f.opt("retention-check", &SOME_TIME, &mut broker.retention_check);
    f.opt("recovery-threads", &THREADS, &mut broker.recovery_threads);
    f.opt("max-frame-bytes", &BYTES_32, &mut broker.max_frame_bytes);
    f.opt("max-connections", &COUNT, &mut broker.max_connections);
    f.opt("max-in-flight-bytes", &BYTES, &mut broker.max_in_flight_bytes);
    f.opt("max-buffer-bytes", &BYTES, &mut broker.max_buffer_bytes);
    f.opt("idle-timeout", &SOME_TIME, &mut broker.idle_timeout);
    f.opt("frame-timeout", &SOME_TIME, &mut broker.frame_timeout);
    f.opt("write-timeout", &SOME_TIME, &mut broker.write_timeout);
}

/// `profile= capacity= …`
pub fn disk(f: &mut impl Fields, disk: &mut DiskSettings) {
    let (mut capacity, mut free) = match disk.capacity {
        Some(Capacity::Free(bytes)) => (None, Some(bytes)),
        other => (other, None),
    };
    f.opt("profile", &PROFILE, &mut disk.profile);
    f.opt("capacity", &CAPACITY, &mut capacity);
    f.opt("free", &BYTES, &mut free);
    f.count_of(&["capacity", "free"], 0, 1);
    f.opt("latency", &SPAN, &mut disk.latency);
    f.opt("sync-latency", &SPAN, &mut disk.sync_latency);
    f.opt("read-only", &YES_NO, &mut disk.read_only);
    f.opt("max-open-files", &COUNT, &mut disk.max_open_files);
    disk.capacity = capacity.or(free.map(Capacity::Free));
}

/// `disk` as a step: what a disk is made with cannot change any more.
pub fn disk_change(f: &mut impl Fields, change: &mut DiskSettings) {
    disk(f, change);
    ["profile", "max-open-files"].into_iter().for_each(|name| f.only_at_the_start(name));
}

/// `net` as a step: what the network is made with cannot change any more.
pub fn net_change(f: &mut impl Fields, change: &mut NetSettings) {
    net(f, change);
    ["chunk-bytes", "repair-rate"].into_iter().for_each(|name| f.only_at_the_start(name));
}

/// `latency= chunk-bytes= …`
pub fn net(f: &mut impl Fields, net: &mut NetSettings) {
    f.opt("latency", &SPAN, &mut net.latency);
    f.opt("chunk-bytes", &COUNT, &mut net.chunk_bytes);
    f.opt("fail-rate", &RATE, &mut net.fail_rate);
    f.opt("repair-rate", &RATE, &mut net.repair_rate);
    f.opt("timeout", &SOME_TIME, &mut net.timeout);
    f.opt("accept-errors", &NUMBER_32, &mut net.accept_errors);
}

/// What a clock can show: the system's own time has no more bits.
const SHOWN: Within<u64> = Within(TIME, 0, i64::MAX as u64);

/// `clock at= frozen=`, at the head of a file.
pub fn clock(f: &mut impl Fields, clock: &mut ClockSettings) {
    f.opt("at", &SHOWN, &mut clock.at);
    f.opt("frozen", &YES_NO, &mut clock.frozen);
}

/// `clock at= jump= frozen=`, as a step.
pub fn clock_change(f: &mut impl Fields, clock: &mut ClockChange) {
    f.opt("at", &SHOWN, &mut clock.at);
    f.opt("jump", &JUMP, &mut clock.jump);
    f.count_of(&["at", "jump"], 0, 1);
    f.opt("frozen", &YES_NO, &mut clock.frozen);
}
