//! `broker topic`.

use std::time::Duration;

use broker::settings::TopicSettings;
use clap::Subcommand;

use super::output::{Output, table};
use super::quantity::{self, count};
use super::{Server, Stop, acknowledged, settled};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a topic
    #[command(after_help = "\
Examples:
  broker topic create orders --partitions 3
  broker topic create logs --retention-bytes 10GiB --retention-age 7d")]
    Create {
        /// 1 to 249 characters of A-Z a-z 0-9 . _ -, but no name of a file of the data directory, such as clean or running
        name: String,
        /// How many partitions. It cannot be changed later: a key's records must stay in one partition
        #[arg(long, default_value_t = 1, value_parser = quantity::partitions)]
        partitions: u32,
        /// Delete a partition's oldest segments above this size [default: the server's setting]
        #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
        retention_bytes: Option<u64>,
        /// Delete records older than this [default: the server's setting]
        #[arg(long, value_name = "TIME", value_parser = quantity::age)]
        retention_age: Option<Duration>,
        #[command(flatten)]
        server: Server,
    },
    /// List all topics
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Show a topic's settings and partitions
    Show {
        /// The topic
        name: String,
        #[command(flatten)]
        server: Server,
    },
    /// Delete a topic and all its records
    Delete {
        /// The topic
        name: String,
        #[command(flatten)]
        server: Server,
    },
}

pub async fn run(command: Command) -> Result<(), Stop> {
    let mut output = Output::new();
    match command {
        Command::Create { name, partitions, retention_bytes, retention_age, server } => {
            let settings = TopicSettings { partitions, retention_bytes, retention_age };
            let created = server.client().create_topic(&name, &settings).await;
            let (what, done) =
                (format!("cannot create topic {name:?}"), format!("topic {name:?} was created"));
            settled(&what, &done, &format!("broker topic show {name}"), created)?;
            output.done(&format!("created {name} with {}", count(partitions, "partition")))?;
        }
        Command::List { server } => {
            for topic in acknowledged("cannot list topics", server.client().topics().await)? {
                output.line(format_args!(
                    "{}  {}",
                    topic.name,
                    count(topic.settings.partitions, "partition")
                ))?;
            }
        }
        Command::Show { name, server } => show(&name, &server, &mut output).await?,
        Command::Delete { name, server } => {
            let deleted = server.client().delete_topic(&name).await;
            let (what, done) =
                (format!("cannot delete topic {name:?}"), format!("topic {name:?} was deleted"));
            settled(&what, &done, "broker topic list", deleted)?;
            output.done(&format!("deleted {name}"))?;
        }
    }
    output.flush()
}

async fn show(name: &str, server: &Server, output: &mut Output) -> Result<(), Stop> {
    let client = server.client();
    let topics = acknowledged("cannot list topics", client.topics().await)?;
    let partitions = acknowledged(&format!("cannot show topic {name:?}"), client.partitions(name).await)?;
    if let Some(topic) = topics.into_iter().find(|topic| topic.name == name) {
        let TopicSettings { retention_bytes, retention_age, .. } = topic.settings;
        let bytes = retention_bytes.map(|b| format!(", keeps {} per partition", quantity::show_bytes(b)));
        let age = retention_age.map(|age| format!(", keeps records for {}", quantity::show_duration(age)));
        let (bytes, age) = (bytes.unwrap_or_default(), age.unwrap_or_default());
        output.line(format_args!("{name}: {}{bytes}{age}", count(topic.settings.partitions, "partition")))?;
    }
    let mut rows =
        vec![["partition", "first", "next", "records", "bytes", "state"].map(str::to_owned).to_vec()];
    for p in partitions {
        let serves = if p.unopened { "is not served" } else { "takes no writes" };
        let state = match (p.fenced, p.refusing) {
            (Some(reason), _) => format!("{serves}: {reason}"),
            (None, Some(reason)) => format!("has refused the last records: {reason}"),
            (None, None) => "ok".into(),
        };
        let offset = |n: String| if p.unopened { "?".into() } else { n };
        rows.push(vec![
            p.number.to_string(),
            offset(p.log_start.to_string()),
            offset(p.log_end.to_string()),
            offset(p.log_end.since(p.log_start).to_string()),
            quantity::show_bytes(p.bytes),
            state,
        ]);
    }
    output.write(|out| out.write_all(table(&rows).as_bytes()))
}
