//! `broker serve`.

mod room;
mod sockets;

use std::io::{self, IsTerminal, Write};
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
use broker::work::{Threads, Work};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use self::room::Room;
use self::sockets::Sockets;
use super::log::{Lines, Log};
use super::signals::Signals;
use super::{Stop, quantity, startup};

/// Run a server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
--durability decides what a crash can lose:
  os             acknowledged when written to the page cache. A process crash loses nothing; a power
                 loss loses at most the records since the last sync: at a roll, at a clean stop, or
                 when --max-unsynced-bytes wait for one
  interval=TIME  the same, with a sync every TIME: a power loss loses at most that interval, and the
                 time that its sync takes
  always         acknowledged when synced to disk; producers share syncs. A power loss loses nothing

SIGTERM and SIGINT (Ctrl-C) stop the server cleanly: it finishes what it has received, and syncs.
A second signal, half a second later or more, stops it at once, like a crash. BROKER_LOG=debug
logs more. Nothing waits for the log: where nobody reads standard error, lines are dropped, and
how many is said later.

With --metrics, GET /health answers 503 while a topic or a partition serves nothing or takes no
writes, or nothing can be written, and otherwise 200: for a load balancer, or a probe of readiness.
Either answer names what is wrong, a line each: also a full disk, which may have room for the next
record, and what is damaged, or was taken away while no server ran: the rest is served, and no
restart brings it back. A probe of liveness is to ask for /metrics, which is answered as long as
the server lives: to restart it for one partition would take all others away.

Examples:
  broker serve --data /var/lib/broker
  broker serve --data ./data --durability always --metrics 127.0.0.1:9090
  broker serve --data ./data --retention-bytes 10GiB --segment-bytes 256MiB")]
pub struct Args {
    /// The data directory; created if missing
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The address to serve clients on
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070", value_parser = quantity::address)]
    listen: String,
    /// Serve Prometheus metrics at /metrics and a health check at /health on this address. That says 503 where something
    /// has to be mended and the server restarted; a full disk it tells, and says 200
    #[arg(long, value_name = "HOST:PORT", value_parser = quantity::address)]
    metrics: Option<String>,
    /// When a record is acknowledged: os, interval=TIME or always
    #[arg(long, default_value = "os", value_parser = durability)]
    durability: Durability,
    /// Threads that serve connections [default: one for every two processors]. Syncs and recovery have their own
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
    /// Start a new segment when one reaches this size
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = quantity::size)]
    segment_bytes: u64,
    /// Sync a partition in the background when it has this much unsynced, whatever the durability
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = quantity::size)]
    max_unsynced_bytes: u64,
    /// Add an index entry every N records
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = quantity::number::<u64>)]
    index_interval: u64,
    /// The largest record, key and value together
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = quantity::size_u32)]
    max_record_bytes: u32,
    /// Delete a partition's oldest segments above this size, unless its topic says otherwise [default: keep all]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    retention_bytes: Option<u64>,
    /// Delete records older than this, unless their topic says otherwise [default: keep all]
    #[arg(long, value_name = "TIME", value_parser = quantity::age)]
    retention_age: Option<Duration>,
    /// How often to look for segments to delete
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    retention_check: Duration,
    /// Partitions to recover at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = quantity::number::<usize>)]
    recovery_threads: Option<usize>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits for clients")]
struct LimitArgs {
    /// Concurrent connections; never more than a quarter of the open files that the system lets this process have
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = quantity::number::<usize>)]
    max_connections: usize,
    /// The longest message accepted from a client
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = quantity::memory)]
    max_frame_bytes: usize,
    /// Records in one request
    #[arg(long, value_name = "N", default_value_t = Limits::default().request_records, value_parser = quantity::number::<usize>)]
    max_request_records: usize,
    /// Bytes of requests and answers in flight on a connection; above it, reading from it pauses
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = quantity::memory)]
    max_in_flight_bytes: usize,
    /// Memory for incoming requests over 64 KiB, all connections together. When it is used up, requests arriving too
    /// slowly for --frame-timeout are dropped
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = quantity::memory)]
    max_buffer_bytes: usize,
    /// Bytes of records in one answer; a single larger record is still sent
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = quantity::memory)]
    max_fetch_bytes: usize,
    /// Memory for answers over 64 KiB, all connections together. When little is left, answers are shorter, and what
    /// cannot be shorter waits
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = quantity::memory)]
    max_answer_bytes: usize,
    /// The longest that a consume may wait for records; it ends sooner when its client sends no more, which is noticed
    /// where less than 64 KiB of requests have come behind it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    max_wait: Duration,
    /// How long a connection may be idle
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = quantity::duration)]
    idle_timeout: Duration,
    /// How long a message may take to arrive, from first byte to last
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    frame_timeout: Duration,
    /// How long a client may take to accept an answer, or 128 KiB of a longer one. While others wait for memory of
    /// --max-answer-bytes, a tenth of a long answer has to be taken in each tenth of this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    write_timeout: Duration,
    /// How long a clean stop waits for clients
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    stop_timeout: Duration,
}

fn durability(text: &str) -> Result<Durability, String> {
    match text.split_once('=') {
        None if text == "os" => Ok(Durability::Os),
        None if text == "always" => Ok(Durability::Always),
        Some(("interval", time)) => Ok(Durability::Interval(quantity::duration(time)?)),
        _ => Err("expected os, interval=TIME (such as interval=100ms) or always".into()),
    }
}

impl Args {
    fn settings(&self, max_partitions: usize) -> Settings {
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
            max_partitions,
        }
    }

    /// What is wrong where no argument is wrong by itself.
    fn check(&self) -> Result<(), String> {
        let args = &self.limits;
        // A record is a little longer in a message than by itself.
        let needed = u64::from(self.log.max_record_bytes) + (1 << 10);
        if (args.max_frame_bytes as u64) < needed {
            return Err(format!(
                "--max-frame-bytes {} leaves no room for a record of --max-record-bytes {}: at least {needed} are needed",
                args.max_frame_bytes, self.log.max_record_bytes
            ));
        }
        let nothing = [
            ("--max-connections", args.max_connections == 0),
            ("--max-request-records", args.max_request_records == 0),
            ("--idle-timeout", args.idle_timeout.is_zero()),
            ("--frame-timeout", args.frame_timeout.is_zero()),
            ("--write-timeout", args.write_timeout.is_zero()),
        ];
        match nothing.iter().find(|(_, is_zero)| *is_zero) {
            Some((flag, _)) => {
                Err(format!("{flag} 0 would serve nobody; for hardly any limit, say a large one"))
            }
            None => self.settings(usize::MAX).check(),
        }
    }

    /// `connections`: at most so many.
    fn limits(&self, connections: usize) -> Limits {
        let args = &self.limits;
        Limits {
            connections: args.max_connections.min(connections),
            frame_bytes: args.max_frame_bytes,
            request_records: args.max_request_records,
            in_flight_bytes: args.max_in_flight_bytes,
            buffer_bytes: args.max_buffer_bytes,
            fetch_bytes: args.max_fetch_bytes,
            answer_bytes: args.max_answer_bytes,
            wait: args.max_wait,
            idle: args.idle_timeout,
            frame_time: args.frame_timeout,
            write_time: args.write_timeout,
            stop_time: args.stop_timeout,
        }
    }
}

pub fn run(args: Args) -> Result<(), Stop> {
    args.check().map_err(Stop::Usage)?;
    let log = Log::begin(io::stderr()).map_err(|e| format!("cannot start threads: {e}"))?;
    log.take_panics();
    let (filter, lines) = (EnvFilter::try_from_env("BROKER_LOG"), log.lines());
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new("info")))
        .with_writer(move || lines.clone())
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        // To complain of what cannot be told, on the same standard error, would be to panic, with whatever lock it was told under.
        .log_internal_errors(false)
        .init();
    match run_with(args, &log) {
        // Behind the lines that came before, and no more waited for than they are.
        Err(Stop::Because(why)) => {
            log.lines().put(format!("broker: {why}\n").as_bytes());
            Err(Stop::Told)
        }
        ended => ended,
    }
}

fn run_with(args: Args, log: &Log) -> Result<(), Stop> {
    let max_connections = args.limits.max_connections;
    let room = Room::new(room::raise_open_files(), max_connections);
    let limits = args.limits(room.connections);
    room.tell(max_connections);
    // First of all, so that a start with a wrong address has touched no file.
    let sockets = Sockets::reserve(&args.listen, args.metrics.as_deref())?;
    let threads = args.threads.map_or_else(default_threads, |n| n as usize);
    let runtime = runtime(threads, room.jobs).map_err(|e| format!("cannot start threads: {e}"))?;
    runtime.block_on(async { survive_size_limits() });
    let (broker, report) = open(&args, room.partitions)?;
    let mut metrics = Metrics::new();
    metrics.recovered(&report);
    log.serves();
    runtime.block_on(serve_until_signal(sockets, broker, limits, Arc::new(metrics), log.lines()))
}

/// A thread that syncs and the like, once there, stays, and one is there from the start. Otherwise, in a moment in which the system
/// grants no more threads, there could be none at all.
fn runtime(threads: usize, jobs: usize) -> io::Result<Runtime> {
    ask_for(threads + 1)?;
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads).max_blocking_threads(jobs).thread_keep_alive(Duration::MAX);
    let runtime = builder.enable_all().build()?;
    runtime.block_on(async { Threads.run(Box::new(|| ())).await });
    Ok(runtime)
}

/// Whether the system grants so many threads. The runtime does not say so: it panics where it gets none, and where it gets too few,
/// what is left without one waits for ever.
fn ask_for(threads: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    let wait = || drop(gate.lock());
    std::thread::scope(|scope| {
        // So that they are there at the same time.
        let _closed = gate.lock();
        (0..threads).try_for_each(|_| std::thread::Builder::new().spawn_scoped(scope, wait).map(drop))
    })
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().div_ceil(2))
}

/// Where files may only have a certain size (`ulimit -f`), a write beyond it fails, and does not end the process.
fn survive_size_limits() {
    use tokio::signal::unix::{SignalKind, signal};
    // Who listens is told instead of killed; the listener itself is not needed.
    let listener = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    if let Err(e) = listener {
        tracing::debug!("a limit on the size of files would end this process: {e}");
    }
}

fn open(args: &Args, max_partitions: usize) -> Result<(Broker<OsDisk>, Report), Stop> {
    let world = World { disk: OsDisk, clock: Arc::new(SystemClock), work: Arc::new(Threads) };
    let bar = Mutex::new(None);
    let progress =
        |done: usize, of: usize, partition: &PartitionReport| startup::show(&bar, done, of, partition);
    let opened = Broker::open(world, &args.data, args.settings(max_partitions), &progress);
    if let Some(bar) = bar.into_inner().unwrap_or_default() {
        bar.finish_and_clear();
    }
    let (broker, report) = opened.map_err(|e| e.to_string())?;
    startup::tell(&report, &args.data);
    Ok((broker, report))
}

async fn serve_until_signal(
    sockets: Sockets,
    broker: Broker<OsDisk>,
    limits: Limits,
    metrics: Arc<Metrics>,
    log: Lines,
) -> Result<(), Stop> {
    let (listener, metrics_listener) = match sockets.listen() {
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
    stop_on_signals(stop.clone(), log).map_err(|e| format!("cannot wait for signals: {e}"))?;
    // For programs that start one: the address, when it can be connected to.
    let told = writeln!(std::io::stdout(), "listening on {addr}");
    if let Err(e) = told {
        tracing::debug!("nobody reads standard output: {e}");
    }
    serve(listener, broker, limits, stop, metrics)
        .await
        .map_err(|e| format!("the stop was not clean: {e}"))?;
    tracing::info!("stopped");
    Ok(())
}

/// A signal so soon after the first is the same one again: who ends a group of processes may tell this one by itself and with
/// its group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// The first signal stops; a later one ends the process.
fn stop_on_signals(stop: CancellationToken, log: Lines) -> std::io::Result<()> {
    let mut signals = Signals::listen()?;
    tokio::spawn(async move {
        let mut first = None;
        loop {
            signals.next().await;
            match first {
                None => first = Some(Instant::now()),
                Some(first) if first.elapsed() < SAME_SIGNAL => continue,
                Some(_) => {
                    tracing::warn!("ended at once; the next start checks the logs");
                    log.flush();
                    std::process::exit(130);
                }
            }
            stop.cancel();
            tracing::info!("stopping; finishing what was received");
        }
    });
    Ok(())
}
