//! Standard output, for commands whose output is read by other programs, and standard error, for people.

use std::fmt::Arguments;
use std::future::pending;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat};
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::Stop;

/// Buffered standard output. That the reader has gone (`broker consume t | head`) is an end, not an error.
pub struct Output<W: Write = StdoutLock<'static>>(BufWriter<W>);

impl Output {
    /// Takes standard output.
    pub fn new() -> Self {
        Self::to(io::stdout().lock())
    }
}

impl<W: Write> Output<W> {
    /// Writes to something else.
    pub fn to(out: W) -> Self {
        Self(BufWriter::with_capacity(64 << 10, out))
    }

    /// What it writes to, once everything has been handed on.
    #[cfg(test)]
    pub fn into_inner(self) -> W {
        self.0.into_inner().map_err(|e| e.into_error()).expect("a test's output takes everything")
    }

    /// Writes with `write`.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Stop> {
        write(&mut self.0).map_err(stop)
    }

    /// Writes a line.
    pub fn line(&mut self, line: Arguments<'_>) -> Result<(), Stop> {
        writeln!(self.0, "{line}").map_err(stop)
    }

    /// Writes a line that tells what was done, and hands it on. It was done, and is told on standard error where standard output
    /// does not take it.
    pub fn done(&mut self, line: &str) -> Result<(), Stop> {
        match self.line(format_args!("{line}")).and_then(|()| self.flush()) {
            Err(Stop::Because(why)) => {
                Err(Stop::Because(format!("{why}\n  this was done all the same: {line}")))
            }
            told => told,
        }
    }

    /// Hands everything on.
    pub fn flush(&mut self) -> Result<(), Stop> {
        self.0.flush().map_err(stop)
    }
}

/// Waits until nobody reads standard output any more, where it is a pipe.
pub async fn reader_gone() {
    match stdout_pipe() {
        Ok(Some(pipe)) if pipe.ready(Interest::ERROR).await.is_ok() => {}
        _ => pending().await,
    }
}

/// Only to be waited with: it was not made for writes that do not wait, and has to stay so for those that are told of it.
fn stdout_pipe() -> io::Result<Option<pipe::Sender>> {
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    match FileType::from_raw_mode(fstat(&stdout)?.st_mode) {
        FileType::Fifo => pipe::Sender::from_owned_fd_unchecked(stdout).map(Some),
        _ => Ok(None),
    }
}

/// Says something to a person, on standard error. That nobody can hear it changes nothing of what was done: `eprintln!`
/// would panic.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn stop(error: io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::OutputClosed,
        _ => Stop::Because(format!("cannot write to standard output: {error}")),
    }
}

/// Aligns the columns of a table; the first row is its head.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["topic", "n"]), row(["t", "10"])]), "topic  n\nt      10\n");
    }
}
