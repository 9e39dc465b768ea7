//! What a broker counts. Each broker has its own registry, so that several in one process do not mix.

pub mod health;
pub mod http;

use std::fmt::{self, Write};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::error::Code;
use crate::report::Report;
use crate::stats::{SYNC_BUCKETS_US, Stats};

/// The counters of one broker.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Requests, by kind: each looked up once, and there from the start.
    requests: [Counter; Kind::ALL.len()],
    /// Errors that clients were told, by code.
    pub errors: Family<ErrorLabel, Counter>,
    /// Appends to a partition; pipelined produce requests share one.
    pub appends: Counter,
    /// Bytes of records that consumers were sent, as they lie on disk.
    pub bytes_consumed: Counter,
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that were accepted.
    pub connections_accepted: Counter,
    /// Connections that were turned away because there were too many.
    pub connections_refused: Counter,
    /// Attempts to accept a connection that failed.
    pub accept_errors: Counter,
}

/// How many partitions there are of what is not as it should be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// They take no writes.
    pub fenced: u64,
    /// The disk has refused their last records.
    pub refusing: u64,
}

/// The kind of a request.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabel {
    kind: Kind,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
#[allow(missing_docs, non_camel_case_types)]
pub enum Kind {
    produce,
    consume,
    create_topic,
    delete_topic,
    list_topics,
    list_partitions,
    list_offsets,
    unknown,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::produce,
        Self::consume,
        Self::create_topic,
        Self::delete_topic,
        Self::list_topics,
        Self::list_partitions,
        Self::list_offsets,
        Self::unknown,
    ];
}

/// The code of an error.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ErrorLabel {
    /// Its name in the protocol.
    pub code: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("broker");
        let requests = Family::<RequestLabel, Counter>::default();
        let metrics = Self {
            requests: Kind::ALL.map(|kind| requests.get_or_create(&RequestLabel { kind }).clone()),
            errors: Family::default(),
            appends: Counter::default(),
            bytes_consumed: Counter::default(),
            connections: Gauge::default(),
            connections_accepted: Counter::default(),
            connections_refused: Counter::default(),
            accept_errors: Counter::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests, by kind", requests);
        registry.register("errors", "Errors that clients were told, by code", metrics.errors.clone());
        registry.register("appends", "Appends to partitions", metrics.appends.clone());
        let consumed = metrics.bytes_consumed.clone();
        registry.register_with_unit("consumed", "Sent to consumers", Unit::Bytes, consumed);
        registry.register("connections", "Open connections", metrics.connections.clone());
        let accepted = metrics.connections_accepted.clone();
        registry.register("connections_accepted", "Connections accepted", accepted);
        let refused = metrics.connections_refused.clone();
        registry.register("connections_refused", "Connections turned away at the limit", refused);
        registry.register("accept_errors", "Failed attempts to accept", metrics.accept_errors.clone());
        Self { registry, ..metrics }
    }

    /// Adds what a start found and did. Call it once, before the metrics are shared.
    pub fn recovered(&mut self, report: &Report) {
        let recovery = self.registry.sub_registry_with_prefix("recovery");
        let mut gauge = |name: &str, help: &str, value: u64| {
            let gauge = Gauge::<i64>::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            recovery.register(name, help, gauge);
        };
        let sum = |of: fn(&crate::report::PartitionReport) -> u64| report.partitions.iter().map(of).sum();
        gauge("partitions", "Partitions at the last start", report.partitions.len() as u64);
        gauge("records", "Records at the last start", report.records());
        gauge("scanned_records", "Records that the last start checked", sum(|p| p.scanned));
        gauge("cut_bytes", "Bytes of torn tails that the last start cut off", sum(|p| p.cut));
        gauge("set_aside_bytes", "Bytes that the last start set aside", sum(|p| p.set_aside));
        gauge("rebuilt_indexes", "Indexes that the last start rebuilt", sum(|p| p.rebuilt.len() as u64));
        gauge("damage", "Damaged stretches that the last start found", sum(|p| p.damage.len() as u64));
        gauge(
            "damaged_partitions",
            "Partitions in which the last start found damage",
            sum(|p| (!p.damage.is_empty()).into()),
        );
        gauge("unopened", "Partitions that could not be opened at all", sum(|p| p.unopened.into()));
        gauge(
            "fenced",
            "Partitions that could not be opened for writing",
            sum(|p| p.fenced.is_some().into()),
        );
        gauge("unserved_topics", "Topics that could not be looked into", report.unserved.len() as u64);
        gauge(
            "gone_topics",
            "Topics that the last clean stop had left and that are gone",
            report.missed.gone.len() as u64,
        );
        gauge(
            "gone_partitions",
            "Partitions that the last clean stop had left and that their topics do not have any more",
            report.missed.uncounted.len() as u64,
        );
        let took = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        took.set(report.took.as_secs_f64());
        recovery.register_with_unit("took", "How long the last start took", Unit::Seconds, took);
    }

    /// Counts an error that a client is told.
    pub fn error(&self, code: Code) {
        let code = crate::wire::proto::ErrorCode::from(code).as_str_name();
        let code = code.strip_prefix("ERROR_CODE_").unwrap_or(code);
        self.errors.get_or_create(&ErrorLabel { code }).inc();
    }

    /// Counts requests.
    pub fn requests(&self, kind: Kind, count: u64) {
        self.requests[kind as usize].inc_by(count);
    }

    /// All of them and those of the log, as Prometheus reads them.
    pub fn text(&self, log: &Stats) -> String {
        self.text_with(log, Now::default())
    }

    /// The same, with what the partitions are like.
    pub fn text_with(&self, log: &Stats, now: Now) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("a String takes everything");
        // The log counts for itself, and its counters join in before the mark of the end.
        const END: &str = "# EOF\n";
        text.truncate(text.len() - if text.ends_with(END) { END.len() } else { 0 });
        write_log(&mut text, log)
            .and_then(|()| write_now(&mut text, now))
            .expect("a String takes everything");
        text + END
    }
}

fn write_log(text: &mut String, log: &Stats) -> fmt::Result {
    for (name, help, counter) in [
        ("log_appended_records", "Records appended", &log.records_appended),
        ("log_appended_bytes", "Bytes appended, headers included", &log.bytes_appended),
        ("log_failed_appends", "Appends that failed and were undone", &log.appends_failed),
        ("log_read_bytes", "Bytes read for consumers", &log.bytes_read),
        ("log_rolls", "Segments closed and followed by another", &log.rolls),
        ("log_deleted_segments", "Segments deleted by retention", &log.segments_deleted),
        ("log_failed_syncs", "Syncs that failed, each of which fences a partition", &log.syncs_failed),
        ("log_damaged_reads", "Reads that met damage", &log.damage_read),
    ] {
        writeln!(text, "# HELP broker_{name} {help}.")?;
        writeln!(text, "# TYPE broker_{name} counter")?;
        writeln!(text, "broker_{name}_total {}", counter.get())?;
    }
    writeln!(text, "# HELP broker_log_sync_seconds How long syncs of a log took.")?;
    writeln!(text, "# TYPE broker_log_sync_seconds histogram")?;
    let mut below = 0;
    let bounds = SYNC_BUCKETS_US.iter().map(|&us| Some(us)).chain([None]);
    for (bound, count) in bounds.zip(log.sync_latency()) {
        below += count;
        match bound {
            Some(us) => writeln!(text, "broker_log_sync_seconds_bucket{{le=\"{}\"}} {below}", seconds(us))?,
            None => writeln!(text, "broker_log_sync_seconds_bucket{{le=\"+Inf\"}} {below}")?,
        }
    }
    writeln!(text, "broker_log_sync_seconds_sum {}", seconds(log.sync_us.get()))?;
    writeln!(text, "broker_log_sync_seconds_count {below}")
}

fn write_now(text: &mut String, now: Now) -> fmt::Result {
    for (name, help, partitions) in [
        ("log_fenced_partitions", "Partitions that take no writes", now.fenced),
        ("log_refusing_partitions", "Partitions whose last records the disk has refused", now.refusing),
    ] {
        writeln!(text, "# HELP broker_{name} {help}.")?;
        writeln!(text, "# TYPE broker_{name} gauge")?;
        writeln!(text, "broker_{name} {partitions}")?;
    }
    Ok(())
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Missed, PartitionReport};

    #[test]
    fn counters_are_shown_by_their_names() {
        let mut metrics = Metrics::new();
        let found = PartitionReport { cut: 5, set_aside: 60, unopened: true, ..PartitionReport::default() };
        let partitions = vec![found, PartitionReport::default(), PartitionReport::default()];
        let uncounted = [("t/1".to_owned(), 5), ("t/2".to_owned(), 0)].into();
        let missed = Missed { uncounted, ..Missed::default() };
        metrics.recovered(&Report { partitions, missed, ..Report::default() });
        metrics.requests(Kind::produce, 5);
        metrics.error(Code::StorageFull);
        let log = Stats::default();
        log.bytes_appended.add(39);
        log.synced(Duration::from_micros(300));
        log.synced(Duration::from_micros(500));
        log.synced(Duration::from_secs(2));
        let text = metrics.text(&log);
        for line in [
            "broker_requests_total{kind=\"produce\"} 5",
            "broker_errors_total{code=\"STORAGE_FULL\"} 1",
            "broker_log_appended_bytes_total 39",
            "broker_log_sync_seconds_bucket{le=\"0.0002\"} 0",
            "broker_log_sync_seconds_bucket{le=\"0.0005\"} 2",
            "broker_log_sync_seconds_bucket{le=\"1\"} 2",
            "broker_log_sync_seconds_bucket{le=\"+Inf\"} 3",
            "broker_log_sync_seconds_sum 2.0008",
            "broker_log_sync_seconds_count 3",
            "broker_recovery_partitions 3",
            "broker_recovery_cut_bytes 5",
            "broker_recovery_set_aside_bytes 60",
            "broker_recovery_unopened 1",
            "broker_recovery_gone_topics 0",
            "broker_recovery_gone_partitions 2",
            "broker_connections 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line:?} is missing in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    }

    #[test]
    fn two_brokers_count_apart() {
        let (one, other) = (Metrics::new(), Metrics::new());
        one.appends.inc();
        assert!(one.text(&Stats::default()).contains("broker_appends_total 1"));
        assert!(other.text(&Stats::default()).contains("broker_appends_total 0"));
    }
}
