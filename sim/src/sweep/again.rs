//! The same seed in another process. A process of its own has other addresses, another random state of its hash maps and
//! another moment in time; whatever of it gets into a run shows in the hash of the trace.
//!
//! The other process is `sim again FILE`. It reads lines, `hash SEED` or `events SEED`, and answers `HASH`, or the number of
//! events and then a line `HASH WORDS` for each.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::outcome::{Outcome, run};
use crate::scenario::Scenario;
use crate::trace::{Entry, Trace, print};

/// The other process.
pub struct Other {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The first event that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number.
    pub event: usize,
    /// What it is here.
    pub here: Option<String>,
    /// What it is there.
    pub there: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |side: &Option<String>| side.clone().unwrap_or_else(|| "(the run has ended)".to_owned());
        writeln!(f, "not deterministic: two processes differ from event {} on", self.event)?;
        writeln!(f, "  here   {}", words(&self.here))?;
        write!(f, "  there  {}", words(&self.there))
    }
}

impl Other {
    /// Starts it.
    pub fn start(program: &Path, file: &Path) -> Result<Self, String> {
        let spawned =
            Command::new(program).arg("again").arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|e| format!("{} does not start: {e}", program.display()))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(ask), Some(answers)) => Ok(Self { child, ask, answers: BufReader::new(answers) }),
            _ => Err("the other process has no pipes".to_owned()),
        }
    }

    /// Has it run the same seed, and compares.
    pub fn compare(&mut self, outcome: &Outcome, hash: u64) -> Result<Option<Difference>, String> {
        let seed = outcome.seed();
        let there = self.hash(seed).map_err(|e| format!("the other process does not answer: {e}"))?;
        if there == format!("{hash:016x}") {
            return Ok(None);
        }
        let there = self.events(seed).map_err(|e| format!("the other process does not answer: {e}"))?;
        let here = lines(&outcome.trace);
        Ok(Some(first_difference(&here, &there).unwrap_or_else(|| Difference {
            event: here.len(),
            here: Some("all events are the same, but not the hash".to_owned()),
            there: None,
        })))
    }

    fn hash(&mut self, seed: u64) -> io::Result<String> {
        writeln!(self.ask, "hash {seed}")?;
        self.ask.flush()?;
        self.line()
    }

    fn events(&mut self, seed: u64) -> io::Result<Vec<String>> {
        writeln!(self.ask, "events {seed}")?;
        self.ask.flush()?;
        let count = self.line()?.parse().map_err(io::Error::other)?;
        (0..count).map(|_| self.line()).collect()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the other process does, until nobody asks any more.
pub fn serve(scenario: &Scenario, asked: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    for line in asked.lines() {
        let line = line?;
        let Some((what, seed)) =
            line.split_once(' ').and_then(|(what, seed)| Some((what, seed.parse().ok()?)))
        else {
            return Err(io::Error::other(format!("not understood: {line}")));
        };
        let trace = run(scenario, seed).trace;
        if what == "hash" {
            writeln!(answers, "{:016x}", trace.hash())?;
        } else {
            let lines = lines(&trace);
            writeln!(answers, "{}", lines.len())?;
            for line in lines {
                writeln!(answers, "{line}")?;
            }
        }
        answers.flush()?;
    }
    Ok(())
}

/// Each event with its hash: its words leave things out.
fn lines(trace: &Trace) -> Vec<String> {
    let line = |entry: &Entry| {
        let hash = Trace { entries: vec![entry.clone()] }.hash();
        let words = print::line(entry).replace('\n', " | ");
        format!("{hash:016x} {}", words.trim())
    };
    trace.entries.iter().map(line).collect()
}

/// The first line that differs.
fn first_difference(here: &[String], there: &[String]) -> Option<Difference> {
    let event = (0..here.len().max(there.len())).find(|i| here.get(*i) != there.get(*i))?;
    Some(Difference { event, here: here.get(event).cloned(), there: there.get(event).cloned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_that_differs_is_named() {
        let lines = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let (here, there) = (lines("abcd"), lines("abxd"));
        assert_eq!(first_difference(&here, &here), None);
        assert_eq!(first_difference(&here, &there).map(|d| d.event), Some(2));
        assert_eq!(first_difference(&here, &here[..3]).map(|d| (d.event, d.there)), Some((3, None)));
    }
}
