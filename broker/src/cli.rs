//! The command line.

mod bench;
mod consume;
mod dump;
mod log;
mod offsets;
mod output;
mod produce;
mod quantity;
mod serve;
mod signals;
mod startup;
mod topic;
mod verify;

use std::process::ExitCode;
use std::time::Duration;

use broker::client::{Client, Failure, Options, Outcome};
use broker::error::Code;
use broker::net::TcpConnector;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::process::Signal;

/// A log broker: topics of partitioned, append-only logs, over TCP.
#[derive(Debug, Parser)]
#[command(name = "broker", version, arg_required_else_help = true, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  broker serve --data ./data                     run a server on 127.0.0.1:7070
  broker topic create orders --partitions 3      create a topic
  broker produce orders --key user-1 hello       one record; the key chooses the partition
  broker produce orders < lines.txt              one record a line
  broker consume orders --from earliest          every partition, merged by time, one value a line
  broker consume orders --follow --format json   and whatever arrives later, as JSON lines
  broker offsets orders                          where each partition starts and ends
  broker verify ./data                           check every byte, offline, and change nothing

For one command: broker produce --help";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server
    Serve(Box<serve::Args>),
    /// Create, list, show and delete topics
    #[command(subcommand)]
    Topic(topic::Command),
    /// Append records: one value, or each line of standard input
    Produce(produce::Args),
    /// Print records
    Consume(consume::Args),
    /// Print where each partition starts and ends, or the first offset at or after a time
    Offsets(offsets::Args),
    /// Decode and print a log file, an index file or a partition's directory; needs no server
    Dump(dump::Args),
    /// Check every file of a data directory, changing none; needs no server
    Verify(verify::Args),
    /// Measure a server, or this machine
    #[command(subcommand)]
    Bench(bench::Command),
}

/// Which server, and how long to wait for it.
#[derive(Clone, Debug, Args)]
struct Server {
    /// The server to connect to
    #[arg(long, value_name = "HOST:PORT", env = "BROKER_ADDR", default_value = "127.0.0.1:7070", value_parser = quantity::address)]
    addr: String,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    timeout: Duration,
}

impl Server {
    fn options(&self) -> Options {
        Options { request_timeout: self.timeout, ..Options::default() }
    }

    fn client(&self) -> Client<TcpConnector> {
        Client::new(TcpConnector, &self.addr, self.options())
    }
}

/// Why a command did not do what it was told: what a person reads.
#[derive(Debug)]
enum Stop {
    /// Standard output was closed by who read it: no reason to complain.
    OutputClosed,
    /// Something to be told.
    Because(String),
    /// The arguments ask for what cannot be.
    Usage(String),
    /// Everything has been told already.
    Told,
    /// A signal asked for it.
    Signal(Signal),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Stop::Because(why)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Because(failure.to_string())
    }
}

/// An acknowledged answer, or an error for people. `what` was asked for.
fn acknowledged<T>(what: &str, outcome: Outcome<T>) -> Result<T, Stop> {
    outcome.into_result().map_err(|failure| match failure {
        Failure::Refused(refusal) if refusal.code == Code::Unavailable => Stop::Because(format!(
            "{refusal}\n  is a server running there? `broker serve` starts one, --addr chooses another"
        )),
        Failure::Refused(refusal) => Stop::Because(format!("{what}: {refusal}")),
        Failure::Unknown(reason) => Stop::Because(format!("{what}: {reason}")),
    })
}

/// The same of a request that changes something: an error says whether it is known that it was not done. `done` is what it would have
/// come to, `look` is how to find out.
fn settled<T>(what: &str, done: &str, look: &str, outcome: Outcome<T>) -> Result<T, Stop> {
    match outcome {
        Outcome::Unknown(doubt) => Err(Stop::Because(format!(
            "it is unknown whether {done}: {doubt}\n  it may be done yet; `{look}` shows whether it was"
        ))),
        outcome => acknowledged(what, outcome),
    }
}

/// Whether a refusal is about the moment and not about what was asked for: the server is not there or is stopping, as in a
/// restart, or has ended this connection, or has too many. Nothing was done, and another try later may work.
fn is_away(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::ShuttingDown | Code::Timeout | Code::TooManyConnections)
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let matches = with_negative_numbers(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let result = match cli.command {
        Command::Serve(args) => serve::run(*args),
        Command::Topic(command) => on_one_thread(topic::run(command)),
        Command::Produce(args) => on_one_thread(produce::run(args)),
        Command::Consume(args) => on_one_thread(consume::run(args)),
        Command::Offsets(args) => on_one_thread(offsets::run(args)),
        Command::Dump(args) => dump::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(command) => bench::run(command),
    };
    match result {
        Ok(()) | Err(Stop::OutputClosed) => ExitCode::SUCCESS,
        Err(Stop::Told) => ExitCode::FAILURE,
        // As a shell says it of one that the signal has ended.
        Err(Stop::Signal(signal)) => ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)),
        Err(Stop::Because(why)) => {
            output::say(format_args!("broker: {why}"));
            ExitCode::FAILURE
        }
        // As for an argument that is wrong by itself.
        Err(Stop::Usage(why)) => {
            output::say(format_args!("broker: {why}"));
            ExitCode::from(2)
        }
    }
}

/// A value may look like an option: `-1` is a record like any other, and no offset, which is then said by whoever reads offsets.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let lenient = |arg: clap::Arg| match arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(lenient).mut_subcommands(with_negative_numbers)
}

fn on_one_thread(command: impl Future<Output = Result<(), Stop>>) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| format!("cannot start: {e}"))?.block_on(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        with_negative_numbers(Cli::command()).debug_assert();
    }

    #[test]
    fn a_negative_number_is_a_value_and_no_option() {
        let parse = |args: &[&str]| with_negative_numbers(Cli::command()).try_get_matches_from(args);
        parse(&["broker", "produce", "t", "-5"]).unwrap();
        let why = parse(&["broker", "consume", "t", "--count", "-1"]).unwrap_err().to_string();
        assert!(why.contains("a whole number, 0 or more"), "{why}");
    }
}
