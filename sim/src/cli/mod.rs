//! The commands, one a file.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use out::complain;
use sim::patience::{self, Watch};
use sim::scenario::Scenario;
use sim::source_line::SourceLine;
use sim::suite;

pub mod again;
mod bar;
pub mod barriers;
pub mod check;
pub mod explore;
mod figures;
mod find;
mod interrupt;
mod keep;
pub mod list;
pub mod merge;
pub mod new;
mod out;
pub mod replay;
pub mod run;
pub mod shrink;
pub mod sweep;

/// A whole number, 0 or more, of an option.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().and_then(|number: u64| T::try_from(number).ok());
    number.ok_or_else(|| "expected a whole number, 0 or more".to_owned())
}

/// So many threads are more than any machine has cores for.
const THREADS_MAX: usize = 1024;

/// A number of threads; 0: one per core.
fn threads(text: &str) -> Result<usize, String> {
    let threads = number(text)?;
    if threads <= THREADS_MAX { Ok(threads) } else { Err(format!("at most {THREADS_MAX} at the same time")) }
}

/// So many images of each crash point: with none, nothing would be explored, and all would hold.
fn images(text: &str) -> Result<u64, String> {
    match number(text)? {
        0 => Err("expected 1 or more: of no image there is nothing to say".to_owned()),
        some => Ok(some),
    }
}

/// A scenario from a file; where it cannot be read, what is wrong with it has been said.
fn load(path: &Path) -> Result<Scenario, ExitCode> {
    suite::load(path).map_err(|e| {
        match e {
            suite::LoadError::Mistakes(mistakes) => complain!("{}", mistakes.shown().trim_end()),
            other => complain!("{other}"),
        }
        ExitCode::from(2)
    })
}

/// A time in whole seconds, minutes or hours, of an option.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let number = number.parse::<u64>().ok().filter(|_| seconds > 0);
    let time = number.and_then(|n| n.checked_mul(seconds)).map(Duration::from_secs);
    time.ok_or_else(|| "expected a time: 90s, 10m, 2h".to_owned())
}

/// Ends the program where a run does not come to its end in time: a thread that hangs cannot be stopped.
fn hurry(patience: Duration, path: &Path, seed: u64) -> Watch {
    let path = path.display().to_string();
    patience::watch(patience, move || {
        let seconds = patience.as_secs();
        complain!(
            "FAILED  seed {seed} of {path} has not come to its end after {seconds} s; `--patience` waits longer"
        );
        std::process::exit(4);
    })
}

/// Whether the broker syncs where a person wants it not to; where it does not, that has been said.
fn syncs(off: Option<&SourceLine>) -> Result<(), ExitCode> {
    let known = off.map_or(Ok(()), sim::barriers::source::known);
    known.map_err(|why| {
        complain!("{why}");
        ExitCode::from(2)
    })
}
