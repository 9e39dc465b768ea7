//! `broker serve`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::Broker;
use broker::broker::World;
use broker::clock::SystemClock;
use broker::disk::OsDisk;
use broker::metrics::Metrics;
use broker::report::{PartitionReport, Report};
use broker::server::{Limits, serve};
use broker::settings::{Durability, Settings};
use broker::work::Threads;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::{Stop, quantity, startup};

/// Run a server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What a crash can take away is a choice (--durability):
  os             acknowledged when written to the page cache. The death of the process takes nothing;
                 power loss may take what came since the last segment was finished
  interval=TIME  the same, with a sync every TIME: power loss may take what came since
  always         acknowledged when synced to the disk; producers share syncs. Power loss takes nothing

SIGTERM and SIGINT stop the server: it finishes what it has received, syncs and marks the stop as clean.
A second one stops it at once, as a crash would.

Examples:
  broker serve --data /var/lib/broker
  broker serve --data ./data --durability always --metrics 127.0.0.1:9090
  broker serve --data ./data --retention-bytes 10GiB --segment-bytes 256MiB")]
pub struct Args {
    /// Where the topics are kept; made if it is missing
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where clients connect to
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    listen: String,
    /// Serve Prometheus metrics at /metrics and an answer for health checks at /health here
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// os, interval=TIME or always
    #[arg(long, default_value = "os", value_parser = durability)]
    durability: Durability,
    /// Threads that serve connections; without it, one for every two processors. Syncs and recovery have their own, and
    /// the kernel's part of sending, receiving and writing takes as much again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
struct LogArgs {
    /// Begin a new segment when one has this many bytes
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = quantity::size)]
    segment_bytes: u64,
    /// Sync a partition in the background when this much of it waits for that, whatever the durability
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = quantity::size)]
    max_unsynced_bytes: u64,
    /// Index every how many records
    #[arg(long, value_name = "N", default_value_t = 64)]
    index_interval: u64,
    /// The largest record, key and value together
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = quantity::size_u32)]
    max_record_bytes: u32,
    /// What a partition keeps before its oldest segments go, where its topic does not say; without it, everything
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    retention_bytes: Option<u64>,
    /// How long records are kept, where their topic does not say; without it, for ever
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    retention_age: Option<Duration>,
    /// How often to look for what is no longer kept
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    retention_check: Duration,
    /// Partitions to recover at the same time; without it, as many as there are processors
    #[arg(long, value_name = "N")]
    recovery_threads: Option<usize>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits for clients")]
struct LimitArgs {
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// The longest message of a client
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = quantity::memory)]
    max_frame_bytes: usize,
    /// Records in one request
    #[arg(long, value_name = "N", default_value_t = Limits::default().request_records)]
    max_request_records: usize,
    /// Bytes of requests and answers under way on one connection before it is read from no more
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = quantity::memory)]
    max_in_flight_bytes: usize,
    /// Bytes of requests over 64 KiB that have come in, of all connections together. Where they are all taken, those go
    /// that come too slowly for --frame-timeout
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = quantity::memory)]
    max_buffer_bytes: usize,
    /// Bytes of records in one answer; one record may be larger
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = quantity::memory)]
    max_fetch_bytes: usize,
    /// How long a consume waits for records at most
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    max_wait: Duration,
    /// How long a connection may be silent
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::duration)]
    idle_timeout: Duration,
    /// How long a message may take from its first byte to its last
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    frame_timeout: Duration,
    /// How long a client may take to accept an answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    write_timeout: Duration,
    /// How long a stop waits for clients
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    stop_timeout: Duration,
}

fn durability(text: &str) -> Result<Durability, String> {
    match text.split_once('=') {
        None if text == "os" => Ok(Durability::Os),
        None if text == "always" => Ok(Durability::Always),
        Some(("interval", time)) => Ok(Durability::Interval(quantity::duration(time)?)),
        _ => Err("os, interval=TIME (such as interval=100ms) and always are possible".into()),
    }
}

impl Args {
    fn settings(&self) -> Settings {
        let defaults = Settings::default();
        Settings {
            durability: self.durability,
            segment_bytes: self.log.segment_bytes,
            max_unsynced_bytes: self.log.max_unsynced_bytes,
            index_interval: self.log.index_interval,
            max_record_bytes: self.log.max_record_bytes,
            retention_bytes: self.log.retention_bytes,
            retention_age: self.log.retention_age,
            retention_check: self.log.retention_check,
            recovery_threads: self.log.recovery_threads.unwrap_or(defaults.recovery_threads),
        }
    }

    fn limits(&self) -> Result<Limits, Stop> {
        let args = &self.limits;
        // A record is a little longer in a message than by itself.
        let needed = u64::from(self.log.max_record_bytes) + (1 << 10);
        if (args.max_frame_bytes as u64) < needed {
            return Err(Stop::Because(format!(
                "--max-frame-bytes {} leaves no room for a record of --max-record-bytes {}: at least {needed} are needed",
                args.max_frame_bytes, self.log.max_record_bytes
            )));
        }
        Ok(Limits {
            connections: args.max_connections,
            frame_bytes: args.max_frame_bytes,
            request_records: args.max_request_records,
            in_flight_bytes: args.max_in_flight_bytes,
            buffer_bytes: args.max_buffer_bytes,
            fetch_bytes: args.max_fetch_bytes,
            wait: args.max_wait,
            idle: args.idle_timeout,
            frame_time: args.frame_timeout,
            write_time: args.write_timeout,
            stop_time: args.stop_timeout,
        })
    }
}

pub fn run(args: Args) -> Result<(), Stop> {
    let filter = EnvFilter::try_from_env("BROKER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .init();
    let limits = args.limits()?;
    raise_open_files();
    let (broker, report) = open(&args)?;
    let mut metrics = Metrics::new();
    metrics.recovered(&report);
    let threads = args.threads.map_or_else(default_threads, |n| n as usize);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot start threads: {e}"))?;
    runtime.block_on(serve_until_signal(args, broker, limits, Arc::new(metrics)))
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().div_ceil(2))
}

/// Connections and segments are open files, and the usual limit of 1024 is meant for programs that know no better.
fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(e) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!("the limit of open files stays as it is: {e}");
    }
}

fn open(args: &Args) -> Result<(Broker<OsDisk>, Report), Stop> {
    let world = World { disk: OsDisk, clock: Arc::new(SystemClock), work: Arc::new(Threads) };
    let bar = Mutex::new(None);
    let progress =
        |done: usize, of: usize, partition: &PartitionReport| startup::show(&bar, done, of, partition);
    let opened = Broker::open(world, &args.data, args.settings(), &progress);
    if let Some(bar) = bar.into_inner().unwrap_or_default() {
        bar.finish_and_clear();
    }
    let (broker, report) = opened.map_err(|e| e.to_string())?;
    startup::tell(&report, &args.data);
    Ok((broker, report))
}

async fn serve_until_signal(
    args: Args,
    broker: Broker<OsDisk>,
    limits: Limits,
    metrics: Arc<Metrics>,
) -> Result<(), Stop> {
    let (listener, metrics_listener) = match listen(&args).await {
        Ok(listeners) => listeners,
        Err(why) => {
            // So that the next start need not read the logs.
            let _ = broker.close().await;
            return Err(why.into());
        }
    };
    let addr = listener.local_addr().map_err(|e| e.to_string())?;
    let stop = CancellationToken::new();
    if let Some(listener) = metrics_listener {
        let addr = listener.local_addr().map_err(|e| e.to_string())?;
        tracing::info!("metrics at http://{addr}/metrics, health at http://{addr}/health");
        tokio::spawn(broker::metrics::http::serve(listener, broker.clone(), metrics.clone()));
    }
    stop_on_signals(stop.clone()).map_err(|e| format!("cannot wait for signals: {e}"))?;
    // For programs that start one: the address, when it can be connected to.
    let told = writeln!(std::io::stdout(), "listening on {addr}");
    if let Err(e) = told {
        tracing::debug!("nobody reads standard output: {e}");
    }
    serve(listener, broker, limits, stop, metrics)
        .await
        .map_err(|e| format!("the stop is not clean: {e}"))?;
    tracing::info!("stopped");
    Ok(())
}

/// Where clients connect to, and where metrics are asked for.
async fn listen(args: &Args) -> Result<(TcpListener, Option<TcpListener>), String> {
    let bind = async |addr: &str, flag: &str| {
        let bound = TcpListener::bind(addr).await;
        bound.map_err(|e| format!("cannot listen on {addr}: {e}\n  {flag} chooses another address"))
    };
    let listener = bind(&args.listen, "--listen").await?;
    let metrics = match &args.metrics {
        Some(addr) => Some(bind(addr, "--metrics").await?),
        None => None,
    };
    Ok((listener, metrics))
}

/// The first signal stops; the second ends the process.
fn stop_on_signals(stop: CancellationToken) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                biased;
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.is_cancelled() {
                tracing::warn!("ended at once; the next start checks the logs");
                std::process::exit(130);
            }
            tracing::info!("stopping: what was received is finished first");
            stop.cancel();
        }
    });
    Ok(())
}
