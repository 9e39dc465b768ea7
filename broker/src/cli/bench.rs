//! `broker bench`: how fast a server is, and how fast this machine lets it be.

mod consume;
mod limits;
mod produce;
mod server;

use std::time::Duration;

use broker::settings::Settings;
use clap::Subcommand;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::Stop;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Append records as fast as the server takes them
    Produce(produce::Args),
    /// Read records as fast as the server gives them
    Consume(consume::Args),
    /// Measure what this machine allows at best: loopback, page cache, disk and checksum
    Limits(limits::Args),
}

pub fn run(command: Command) -> Result<(), Stop> {
    match command {
        Command::Produce(args) => super::on_one_thread(produce::run(args)),
        Command::Consume(args) => super::on_one_thread(consume::run(args)),
        Command::Limits(args) => limits::run(&args),
    }
}

/// One measurement.
#[derive(Debug, Serialize)]
struct Figures {
    what: String,
    seconds: f64,
    records: u64,
    records_per_second: f64,
    /// Of keys and values, not of what goes around them.
    bytes_per_second: f64,
    requests_per_second: f64,
    latency_us_p50: f64,
    latency_us_p99: f64,
    latency_us_p999: f64,
    latency_us_max: f64,
}

impl Figures {
    fn new(what: String, took: Duration, records: u64, bytes: u64, latency: &Histogram<u64>) -> Self {
        let seconds = took.as_secs_f64().max(1e-9);
        let us = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            what,
            seconds,
            records,
            records_per_second: records as f64 / seconds,
            bytes_per_second: bytes as f64 / seconds,
            requests_per_second: latency.len() as f64 / seconds,
            latency_us_p50: us(0.5),
            latency_us_p99: us(0.99),
            latency_us_p999: us(0.999),
            latency_us_max: latency.max() as f64 / 1e3,
        }
    }

    fn print(&self, json: bool) -> Result<(), Stop> {
        let mut output = super::output::Output::new();
        if json {
            let line = serde_json::to_string(self).map_err(|e| e.to_string())?;
            output.line(format_args!("{line}"))?;
            return output.flush();
        }
        output.line(format_args!("{}", self.what))?;
        output.line(format_args!(
            "  {:.0} records/s  {:.1} MB/s  {:.0} requests/s  in {:.2} s",
            self.records_per_second,
            self.bytes_per_second / 1e6,
            self.requests_per_second,
            self.seconds
        ))?;
        output.line(format_args!(
            "  latency of a request: p50 {:.0} µs  p99 {:.0} µs  p99.9 {:.0} µs  max {:.0} µs",
            self.latency_us_p50, self.latency_us_p99, self.latency_us_p999, self.latency_us_max
        ))?;
        output.flush()
    }
}

/// The size of a record: not more than any server stores.
fn record_bytes(text: &str) -> Result<usize, String> {
    let bytes = super::quantity::memory(text)?;
    let most = Settings::RECORD_BYTES_MAX;
    match bytes <= most as usize {
        true => Ok(bytes),
        false => Err(format!("no server stores a record of more than {most} bytes (max-record-bytes)")),
    }
}

/// Latencies in nanoseconds, up to a minute, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Bytes that do not compress to nothing and are the same each time.
fn filler(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'a' + u8::try_from((state >> 24) % 26).unwrap_or(0)
    };
    (0..len).map(|_| byte()).collect()
}
