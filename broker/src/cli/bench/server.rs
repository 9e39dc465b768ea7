//! The server that is measured: one that runs already, or one of our own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::cli::signals::Signals;
use crate::cli::{Server, Stop};

/// Where the server comes from.
#[derive(Debug, clap::Args)]
pub struct Own {
    /// Start a server for this measurement with this durability (os, interval=TIME, always), and remove its data afterwards
    #[arg(long, value_name = "MODE")]
    pub durability: Option<String>,
    /// Where that server keeps its data
    #[arg(long, value_name = "DIR", requires = "durability")]
    pub data: Option<PathBuf>,
}

/// A server process that ends, with its data, when this is dropped.
pub struct Running {
    child: Child,
    data: PathBuf,
    /// They would end this process and leave the other.
    signals: Signals,
}

impl Own {
    /// Starts a server if that was asked for, and points `server` at it.
    pub fn start(&self, server: &mut Server) -> Result<Option<Running>, Stop> {
        let Some(durability) = &self.durability else { return Ok(None) };
        let parent = self.data.clone().unwrap_or_else(std::env::temp_dir);
        let data = parent.join(format!("broker-bench-{}", std::process::id()));
        let signals = Signals::listen().map_err(|e| format!("cannot wait for signals: {e}"))?;
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut child = Command::new(program)
            .args(["serve", "--listen", "127.0.0.1:0", "--durability", durability, "--data"])
            .arg(&data)
            .env("BROKER_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start a server: {e}"))?;
        let stdout = child.stdout.take();
        let running = Running { child, data, signals };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).map_err(|e| e.to_string())?;
        }
        match line.trim().strip_prefix("listening on ") {
            Some(addr) => server.addr = addr.to_owned(),
            None => return Err(Stop::Because("the server did not start; it has said why".into())),
        }
        Ok(Some(running))
    }
}

/// Measures, but no longer than until a signal asks for the end of a server of our own.
pub async fn until_signal<T>(
    running: Option<&mut Running>,
    measure: impl Future<Output = Result<T, Stop>>,
) -> Result<T, Stop> {
    let Some(running) = running else { return measure.await };
    tokio::select! {
        biased;
        signal = running.signals.next() => Err(Stop::Signal(signal)),
        measured = measure => measured,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Best effort: what is left is in a directory with a telling name.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
