//! `broker bench limits`: what this machine allows at best, to hold the other figures against.

mod bare;
mod loopback;

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use self::bare::Bare;
use super::filler;
use crate::cli::output::Output;
use crate::cli::{Stop, quantity};

/// Measure what this machine allows at best: loopback, page cache, disk and checksum
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The lines that begin with `bare` are of a program that moves and checks as many bytes as a broker has to, and does nothing else.

Example:
  broker bench limits --data /var/lib/broker --json")]
pub struct Args {
    /// Where to write files, which are removed afterwards [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How long to measure each
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::duration)]
    time: Duration,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Limits {
    /// Round trips of 128 bytes between two threads, one at a time.
    ping_pong_per_second: f64,
    /// Bytes from one thread to another over loopback.
    loopback_bytes_per_second: f64,
    /// Bytes into the page cache, in writes of 64 KiB.
    write_64k_bytes_per_second: f64,
    /// The same into a file that grows: what the page cache takes in of pages that it did not have.
    append_64k_bytes_per_second: f64,
    /// Writes of 4 KiB behind each other, each followed by fdatasync.
    append_sync_4k_per_second: f64,
    /// Bytes out of the page cache, in reads of 256 KiB.
    read_bytes_per_second: f64,
    /// CRC-32 of pieces of 128 bytes.
    crc_128_bytes_per_second: f64,
    /// CRC-32 of pieces of 1 KiB.
    crc_1k_bytes_per_second: f64,
    #[serde(flatten)]
    bare: Bare,
}

pub fn run(args: &Args) -> Result<(), Stop> {
    let dir = args.data.clone().unwrap_or_else(std::env::temp_dir);
    let limits = measure(args.time, &dir).map_err(|e| format!("cannot measure in {}: {e}", dir.display()))?;
    let mut output = Output::new();
    if args.json {
        let line = serde_json::to_string(&limits).map_err(|e| e.to_string())?;
        output.line(format_args!("{line}"))?;
    } else {
        for (what, per_second) in [
            ("loopback, one way", limits.loopback_bytes_per_second),
            ("write of 64 KiB", limits.write_64k_bytes_per_second),
            ("append of 64 KiB to a new file", limits.append_64k_bytes_per_second),
            ("read of 256 KiB from the page cache", limits.read_bytes_per_second),
            ("CRC-32 of 128 bytes", limits.crc_128_bytes_per_second),
            ("CRC-32 of 1 KiB", limits.crc_1k_bytes_per_second),
            ("bare: loopback into a file", limits.bare.into_file_bytes_per_second),
            ("bare: a file of 128 B over loopback", limits.bare.out_of_file_128_bytes_per_second),
            ("bare: a file of 1 KiB over loopback", limits.bare.out_of_file_1k_bytes_per_second),
        ] {
            output.line(format_args!("{what:38} {:10.1} MB/s", per_second / 1e6))?;
        }
        for (what, per_second) in [
            ("loopback, there and back", limits.ping_pong_per_second),
            ("append of 4 KiB and fdatasync", limits.append_sync_4k_per_second),
            ("bare: there, into a file, and back", limits.bare.appending_ping_pong_per_second),
            ("bare: 64 connections, group commit", limits.bare.group_commit_per_second),
        ] {
            output.line(format_args!("{what:38} {per_second:10.0} /s"))?;
        }
    }
    output.flush()
}

fn measure(time: Duration, dir: &Path) -> io::Result<Limits> {
    let file = nameless(dir)?;
    let page = filler(64 << 10);
    Ok(Limits {
        ping_pong_per_second: loopback::ping_pong(time, |_| Ok(()))?,
        loopback_bytes_per_second: loopback::one_way(time, loopback::page)?,
        write_64k_bytes_per_second: rate(time, |i| {
            // Over and over the same 256 MiB, so that the disk's speed does not come into it.
            file.write_all_at(&page, (i % 4096) * page.len() as u64)?;
            Ok(page.len() as u64)
        })?,
        append_64k_bytes_per_second: append(time, dir, &page)?,
        read_bytes_per_second: {
            let mut buf = vec![0; 256 << 10];
            let len = file.metadata()?.len().max(buf.len() as u64);
            file.set_len(len)?;
            rate(time, |i| {
                let at = (i * buf.len() as u64) % (len - buf.len() as u64 + 1);
                file.read_at(&mut buf, at).map(|n| n as u64)
            })?
        },
        append_sync_4k_per_second: {
            file.set_len(0)?;
            file.sync_all()?;
            rate(time, |i| {
                file.write_all_at(&page[..4096], i * 4096)?;
                file.sync_data()?;
                Ok(1)
            })?
        },
        crc_128_bytes_per_second: rate(time, |_| Ok(checksum(&page, 128)))?,
        crc_1k_bytes_per_second: rate(time, |_| Ok(checksum(&page, 1024)))?,
        bare: Bare::measure(time, dir)?,
    })
}

/// Fills a file, up to 1 GiB of it: more would be the disk's speed.
fn append(time: Duration, dir: &Path, page: &[u8]) -> io::Result<f64> {
    let file = nameless(dir)?;
    let begun = Instant::now();
    let mut end = 0;
    while end < 1 << 30 && begun.elapsed() <= time {
        file.write_all_at(page, end)?;
        end += page.len() as u64;
    }
    Ok(end as f64 / begun.elapsed().as_secs_f64())
}

/// A new file, which has lost its name already: it goes when the process ends, however that comes about.
pub fn nameless(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!("broker-bench-limits-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Does `step` again and again; the sum of what it gives, a second.
fn rate(time: Duration, mut step: impl FnMut(u64) -> io::Result<u64>) -> io::Result<f64> {
    let begun = Instant::now();
    let (mut sum, mut steps) = (0, 0);
    while begun.elapsed() < time {
        sum += step(steps)?;
        steps += 1;
    }
    Ok(sum as f64 / begun.elapsed().as_secs_f64())
}

fn checksum(bytes: &[u8], piece: usize) -> u64 {
    for piece in bytes.chunks(piece) {
        black_box(crc32fast::hash(piece));
    }
    bytes.len() as u64
}
