//! `sim merge FILES…`: what the shards of a sweep add up to, and the verdict that no shard can give alone.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::out::complain;
use sim::outcome::worst;
use sim::sweep::record::Line;
use sim::sweep::sums::Sums;

/// Adds up what the shards of a sweep wrote with `--out`.
#[derive(Debug, Args)]
pub struct Merge {
    /// The files of the shards.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// States that were promised and never reached are no error: for sweeps too short to reach them.
    #[arg(long)]
    allow_unreached: bool,
}

impl Merge {
    /// Exit codes as those of `sim sweep`; 4 too where runs are missing: a shard has died, or is not among the files. 2 where a file
    /// is not what a sweep wrote, unless the others tell of worse.
    pub fn run(&self) -> ExitCode {
        let mut sums = Sums::default();
        let mut wrong = false;
        for file in &self.files {
            if let Err(why) = add(file, &mut sums) {
                complain!("{}: {why}", file.display());
                wrong = true;
            }
        }
        if sums.runs() == 0 {
            if wrong {
                return ExitCode::from(2);
            }
            let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
            complain!("no runs in {}", files.join(", "));
            return ExitCode::from(4);
        }
        let missing = sums.missing();
        let code = super::sweep::verdict(&sums, self.allow_unreached || wrong || missing > 0);
        if missing > 0 {
            complain!("\n{missing} runs that were asked for are in none of the files");
        }
        // What is missing may be in the file that is wrong.
        ExitCode::from(worst([code, if wrong { 2 } else { 0 }, if missing > 0 && !wrong { 4 } else { 0 }]))
    }
}

fn add(file: &Path, sums: &mut Sums) -> Result<(), String> {
    let mut lines = BufReader::new(File::open(file).map_err(|e| e.to_string())?);
    let mut line = Vec::new();
    let mut asked = false;
    for number in 1.. {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(|e| e.to_string())? == 0 {
            break;
        }
        match serde_json::from_slice(&line) {
            Ok(Line::Sweep(head)) if head.end < head.start => {
                return Err(format!("line {number}: seeds {} to {} are no range", head.start, head.end));
            }
            Ok(Line::Sweep(head)) => {
                asked = true;
                sums.asked(head);
            }
            // Nobody could say which runs are missing, and what they promised to reach.
            Ok(Line::Run(_)) if !asked => return Err(format!("line {number}: {HEADLESS}")),
            Ok(Line::Run(record)) => sums.add(&record),
            // A shard that was killed may leave half a line; its run is one of the missing ones.
            Err(_) if !line.ends_with(b"\n") => {
                complain!("{}: line {number} is cut off, and left out", file.display());
            }
            Err(e) => return Err(format!("line {number}: {e}")),
        }
    }
    if asked { Ok(()) } else { Err(HEADLESS.to_owned()) }
}

/// Of a file that does not begin as `--out` begins it.
const HEADLESS: &str =
    "no line before the runs says what the sweep was asked for; give the whole file that `--out` wrote";
