//! `broker verify`.

use std::io;
use std::path::PathBuf;

use broker::disk::OsDisk;
use broker::verify::verify;

use super::output::Output;
use super::{Stop, quantity};

/// Check every file of a data directory and change none; needs no server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads every log and index, checks every checksum, offset and index entry, and names each fault with its file, byte and
offset. The exit code is 1 if there is a fault. Nothing is changed, and no server may be using the directory.

Example:
  broker verify /var/lib/broker")]
pub struct Args {
    /// What `broker serve --data` was given
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<(), Stop> {
    let dir = args.dir.display();
    let verdict = verify(&OsDisk, &args.dir).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => format!("{dir}: a server is using this directory; stop it first"),
        _ => format!("{dir}: {e}"),
    })?;
    let mut output = Output::new();
    for note in &verdict.notes {
        output.line(format_args!("note: {note}"))?;
    }
    for fault in &verdict.faults {
        output.line(format_args!("fault: {fault}"))?;
    }
    output.line(format_args!(
        "{} topics, {} partitions, {} segments, {} records, {}: {}",
        verdict.topics,
        verdict.partitions,
        verdict.segments,
        verdict.records,
        quantity::show_bytes(verdict.bytes),
        match verdict.faults.len() {
            0 => "all is well".to_owned(),
            1 => "1 fault".to_owned(),
            n => format!("{n} faults"),
        }
    ))?;
    output.flush()?;
    match verdict.faults.is_empty() {
        true => Ok(()),
        false => Err(Stop::Told),
    }
}
