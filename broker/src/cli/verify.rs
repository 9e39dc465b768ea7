//! `broker verify`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use broker::disk::OsDisk;
use broker::files::{self, Name};
use broker::verify::{Verdict, verify};
use broker::{markers, topic};

use super::Stop;
use super::output::Output;
use super::quantity::{self, count};

/// Check every file of a data directory, changing none; needs no server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads every log and index, checks every checksum, offset and index entry, and whether anything is less than \
at the last clean stop. Reports each fault with its file, byte and offset; the exit code is 1 if there is \
one. Nothing is changed. No server may be using the directory.

Example:
  broker verify /var/lib/broker")]
pub struct Args {
    /// The directory given to `broker serve --data`
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<(), Stop> {
    let dir = args.dir.display();
    if !is_data_directory(&args.dir).map_err(|e| format!("{dir}: {e}"))? {
        return Err(Stop::Because(format!(
            "{dir} is not a data directory: it has no topic and no sign of a server; give what --data was given"
        )));
    }
    let verdict = verify(&OsDisk, &args.dir).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => format!("{dir}: a server is using this directory; stop it first"),
        _ => format!("{dir}: {e}"),
    })?;
    let printed = print(&verdict);
    match verdict.faults.is_empty() {
        true => printed,
        // A reader who has seen enough (`broker verify DIR | head -1`) has not made the directory any better.
        false => Err(match printed {
            Ok(()) | Err(Stop::OutputClosed) => Stop::Told,
            Err(stop) => stop,
        }),
    }
}

fn print(verdict: &Verdict) -> Result<(), Stop> {
    let mut output = Output::new();
    for note in &verdict.notes {
        output.line(format_args!("note: {note}"))?;
    }
    for fault in &verdict.faults {
        output.line(format_args!("fault: {fault}"))?;
    }
    output.line(format_args!(
        "{}, {}, {}, {}, {}: {}",
        count(verdict.topics as u64, "topic"),
        count(verdict.partitions as u64, "partition"),
        count(verdict.segments as u64, "segment"),
        count(verdict.records, "record"),
        quantity::show_bytes(verdict.bytes),
        match verdict.faults.len() {
            0 => "all is well".to_owned(),
            n => count(n as u64, "fault"),
        }
    ))?;
    output.flush()
}

/// Whether a server has ever served from here: there are its markers, or a topic's file, or a segment. Of a directory of
/// something else, each part would be called a broken topic.
fn is_data_directory(dir: &Path) -> io::Result<bool> {
    let top = names(dir)?;
    if top.iter().any(|name| markers::MARKERS.contains(&name.as_str())) {
        return Ok(true);
    }
    Ok(top.iter().map(|name| dir.join(name)).any(|topic| {
        // What cannot be looked into shows nothing.
        let inside = names(&topic).unwrap_or_default();
        let is_segment = |name: &String| matches!(files::parse(name), Name::Segment(..));
        inside.iter().any(|name| {
            name == topic::SETTINGS_FILE
                || names(&topic.join(name)).unwrap_or_default().iter().any(is_segment)
        })
    }))
}

/// The names in a directory, as far as they are text.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?;
    entries.filter_map(|entry| entry.map(|e| e.file_name().into_string().ok()).transpose()).collect()
}
