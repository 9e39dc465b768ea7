//! `broker produce`.

mod input;
mod lines;
mod pipeline;
mod resume;
mod tally;

use std::io;
use std::time::Duration;

use broker::client::{Connection, Outcome};
use broker::net::{Connector, TcpConnector};
use broker::record::NewRecord;
use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::lines::LineSet;
use super::output::Output;
use super::quantity;
use super::{Server, Stop, acknowledged};

/// Append records: one value, or each line of standard input
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With VALUE, one record is appended, and its partition and offset are printed. Without it, every line of \
standard input is a record (without its line feed, otherwise byte for byte).

The key decides the partition: a key's records always go to the same one. Records without a key go to the \
partitions in turn.

If a line is refused, or is none (no --key-separator in it, or longer than any server stores), nothing \
behind it is sent any more. What is under way is waited for, and the last message says of each line whether it \
was stored, and with which --skip the rest of the same input is sent: then no line is missing, and none is there \
twice. The refused line can be mended in its place or left out. Sent later, it comes behind lines that were \
under way then and came after it.

If the connection is lost, or the server restarts, the lines that were not yet acknowledged are looked up in \
the log before the rest is sent, so that none is missing or duplicated. After a restart this is exact as long \
as nobody else appends the same lines at the same time. Where the server did not end, but only the \
connection, as a proxy may do, the server may still be storing what it received: so the lines are looked for \
until --timeout has passed without another of them in the log, and then those that are missing are sent again. \
If storing them takes longer than that (--durability always, and a disk that hangs), they can be there twice. A \
server that is silent may be storing them as well; so after --timeout it is waited for, and nothing is sent again.

When --retry runs out without another line acknowledged, the exit code is 1, and the last message says what is \
known of each line. It does so as well where Ctrl-C or SIGTERM ends it: what is under way is waited for, unless the \
signal comes twice. Of lines that may be stored or not, `broker consume` shows which are; with --skip N,A-B only \
those are passed over.

Examples:
  broker produce orders hello
  broker produce orders --key user-1 hello
  broker produce orders < lines.txt
  broker produce orders --key-separator : < lines.txt    # user-1:hello
  tail -f app.log | broker produce logs")]
pub struct Args {
    /// The topic
    pub topic: String,
    /// The record's value; without it, each line of standard input is a record
    value: Option<String>,
    /// The key of the record, or of all lines; it may be empty
    #[arg(long, conflicts_with = "key_separator")]
    key: Option<String>,
    /// Split each line at this text into key and value
    #[arg(long, value_name = "TEXT", conflicts_with = "value", value_parser = separator)]
    key_separator: Option<String>,
    /// Append to this partition, whatever the key
    #[arg(long, value_parser = quantity::number::<u32>)]
    pub partition: Option<u32>,
    /// At most this many lines in a request
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// At most this many requests in flight
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    in_flight: u32,
    /// Pass over the first N lines, or over these: N,A,B-C is the first N, line A, and lines B to C. @FILE is a file that
    /// holds this
    #[arg(long, value_name = "LINES", default_value = "0", conflicts_with = "value", value_parser = LineSet::parse_skip)]
    skip: LineSet,
    /// How long to try to go on after losing the connection, or to wait on after --timeout
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::duration)]
    pub retry: Duration,
    #[command(flatten)]
    pub server: Server,
}

/// An empty one would be found before the first byte of every line: each would be a value with an empty key.
fn separator(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("an empty text separates nothing; with --key '' all lines have an empty key".into()),
        false => Ok(text.to_owned()),
    }
}

pub async fn run(args: Args) -> Result<(), Stop> {
    let Some(value) = &args.value else { return pipeline::run(&args).await };
    let key = args.key.as_ref().map(|key| Bytes::from(key.clone()));
    let record = NewRecord { key, value: Bytes::from(value.clone()) };
    let outcome = args.server.client().produce(&args.topic, args.partition, record).await;
    let placed = match outcome {
        Outcome::Unknown(reason) => {
            return Err(Stop::Because(format!("it is unknown whether the record was stored: {reason}")));
        }
        outcome => acknowledged("the record was not stored", outcome)?,
    };
    Output::new().done(&format!("{}/{} offset {}", args.topic, placed.partition, placed.offset))
}

/// Connects for a pipeline.
pub async fn connect(server: &Server) -> Result<Connection<TcpStream>, Stop> {
    let connected = try_connect(server).await;
    connected.map_err(|e| Stop::Because(format!("cannot connect to {}: {e}", server.addr)))
}

async fn try_connect(server: &Server) -> io::Result<Connection<TcpStream>> {
    let options = server.options();
    let silent = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
    let stream = timeout(options.connect_timeout, TcpConnector.connect(&server.addr)).await;
    Ok(Connection::new(stream.map_err(|_| silent())??, options.frame_bytes))
}
