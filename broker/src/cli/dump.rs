//! `broker dump`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use broker::disk::{Disk, DiskFile, Open, OsDisk};
use broker::files::{self, Kind, Name};
use broker::index::{ENTRY_BYTES, Entry};
use broker::scan::{Known, Window};
use broker::units::Offset;

use super::output::Output;
use super::{Stop, quantity};

/// Bytes of a key or value that are shown without --full.
const SHOWN_BYTES: usize = 64;

/// Decode and print a log file, an index file or a partition's directory; needs no server
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything is shown, whatever is wrong with it; where bytes are no records or entries, the exit code is 1.

Examples:
  broker dump data/orders/1                                  all files of a partition
  broker dump data/orders/1/00000000000000000000.log         record by record
  broker dump data/orders/1/00000000000000000000.index       entry by entry")]
pub struct Args {
    /// A .log, .index or .timeindex file, or a partition's directory
    path: PathBuf,
    /// Show keys and values in full
    #[arg(long)]
    full: bool,
}

pub fn run(args: &Args) -> Result<(), Stop> {
    let mut output = Output::new();
    let cannot = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    // That there is nothing comes before what is wrong with its name.
    if !fs::metadata(&args.path).map_err(|e| cannot(&args.path, e))?.is_dir() {
        let bad = dump(&args.path, args, &mut output)?;
        return end(output, bad, &args.path);
    }
    let entries = fs::read_dir(&args.path).map_err(|e| cannot(&args.path, e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| cannot(&args.path, e))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    names.retain(|name| matches!(files::parse(name), Name::Segment(..)));
    if names.is_empty() {
        let path = args.path.display();
        return Err(Stop::Because(format!(
            "{path} has no segments; give a partition's directory: DATA/TOPIC/NUMBER"
        )));
    }
    // A segment's log comes before its indexes.
    names.sort_by_key(|name| match files::parse(name) {
        Name::Segment(base, kind) => (base, kind as u8),
        _ => (Offset::ZERO, 0),
    });
    let mut bad = 0;
    for name in names {
        bad += dump(&args.path.join(name), args, &mut output)?;
    }
    end(output, bad, &args.path)
}

/// What is wrong is an error, though all of it was shown.
fn end(mut output: Output, bad: u64, path: &Path) -> Result<(), Stop> {
    output.flush()?;
    match bad {
        0 => Ok(()),
        _ => Err(Stop::Because(format!("{}: {bad} bytes are no records or index entries", path.display()))),
    }
}

/// Shows a file. Gives how many of its bytes are not what they should be.
fn dump(path: &Path, args: &Args, output: &mut Output) -> Result<u64, Stop> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parsed = files::parse(name);
    let base = if let Name::Segment(base, _) = parsed { base } else { Offset::ZERO };
    let kind = match parsed {
        Name::Segment(_, kind) => kind,
        // A copy under another name.
        _ if name.ends_with(".timeindex") => Kind::TimeIndex,
        _ if name.ends_with(".index") => Kind::Index,
        _ if name.ends_with(".log") || name.contains(".log.aside-") => Kind::Log,
        _ => {
            let path = path.display();
            return Err(Stop::Because(format!("{path} is not a .log, .index or .timeindex file")));
        }
    };
    let opened = OsDisk.open(path, Open::Read).and_then(|file| Ok((DiskFile::len(&file)?, file)));
    let (len, file) = opened.map_err(|e| format!("{}: {e}", path.display()))?;
    output.line(format_args!("{}  {}", path.display(), quantity::show_bytes(len)))?;
    match kind {
        Kind::Log => log(&file, base, len, args.full, output),
        Kind::Index => index(&file, len, "offset", "byte", output),
        Kind::TimeIndex => index(&file, len, "time", "offset", output),
    }
    .map_err(|stop| match stop {
        Stop::Because(why) => Stop::Because(format!("{}: {why}", path.display())),
        stop => stop,
    })
}

fn log(
    file: &File,
    base: Offset,
    len: u64,
    full: bool,
    output: &mut Output<impl Write>,
) -> Result<u64, Stop> {
    let mut window = Window::new(file, len);
    let (mut at, mut expected, mut bad) = (0, base, 0);
    while at < len {
        let invalid = match window.record(at).map_err(|e| e.to_string())? {
            Ok(found) => {
                let key = found.key.map_or_else(|| "no key".into(), |key| format!("key {}", show(key, full)));
                let value = show(found.value, full);
                output.line(format_args!(
                    "  offset {}  byte {at}  {} B  time {}  {key}  value {value}",
                    found.offset,
                    found.len(),
                    found.timestamp
                ))?;
                at += found.len() as u64;
                expected = found.offset.next();
                continue;
            }
            Err(invalid) => invalid,
        };
        let ahead = window.look_forward(at, expected, Known::nothing()).map_err(|e| e.to_string())?;
        let next =
            [ahead.misplaced, ahead.follows].into_iter().flatten().next().map_or(len, |(next, _)| next);
        let behind = if next == len { "no valid record after them" } else { "a valid record after them" };
        let why = match window.unreadable_in(at, next) {
            Some(bad) => format!("byte {} cannot be read: {}", bad.position, bad.why),
            None => invalid.to_string(),
        };
        output.line(format_args!("  byte {at}: {} bytes are not a record, {behind}: {why}", next - at))?;
        bad += next - at;
        at = next;
    }
    Ok(bad)
}

fn index(
    file: &File,
    len: u64,
    key: &str,
    value: &str,
    output: &mut Output<impl Write>,
) -> Result<u64, Stop> {
    let mut window = Window::new(file, len);
    let (mut at, mut bad) = (0, 0);
    while at < len {
        let bytes = window.bytes(at, ENTRY_BYTES).map_err(|e| e.to_string())?;
        let bytes = &bytes[..bytes.len().min(ENTRY_BYTES)];
        if bytes.is_empty() {
            output.line(format_args!("  byte {at}: the file has become shorter meanwhile"))?;
            return Ok(bad);
        }
        match Entry::decode(bytes) {
            Some(entry) => output.line(format_args!("  {key} {} → {value} {}", entry.key, entry.value))?,
            None => {
                output.line(format_args!("  byte {at}: not an entry: {}", super::consume::hex(bytes)))?;
                bad += bytes.len() as u64;
            }
        }
        at += bytes.len() as u64;
    }
    Ok(bad)
}

/// Text in quotes, with what is not text escaped.
fn show(bytes: &[u8], full: bool) -> String {
    let shown = if full { bytes } else { &bytes[..bytes.len().min(SHOWN_BYTES)] };
    let rest = match bytes.len() - shown.len() {
        0 => String::new(),
        n => format!("… and {n} more bytes"),
    };
    format!("\"{}\"{rest}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of these bytes, where a look at the file has told this length.
    fn shown(bytes: &[u8], len: u64, kind: Kind) -> String {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut output = Output::to(Vec::new());
        let done = match kind {
            Kind::Log => log(&file, Offset::ZERO, len, false, &mut output),
            _ => index(&file, len, "offset", "byte", &mut output),
        };
        done.unwrap();
        String::from_utf8(output.into_inner()).unwrap()
    }

    /// Such as an index that a server makes anew while it is looked at.
    #[test]
    fn a_file_that_has_become_shorter_comes_to_an_end() {
        let entry = Entry { key: 2, value: 78 }.encode();
        assert_eq!(
            shown(&entry, 60, Kind::Index),
            "  offset 2 → byte 78\n  byte 20: the file has become shorter meanwhile\n"
        );
        let log = shown(&entry, 400, Kind::Log);
        assert!(
            log.starts_with("  byte 0: 400 bytes are not a record, no valid record after them: "),
            "{log}"
        );
    }
}
