//! The signals that ask a program to end.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From when it is made, SIGTERM and SIGINT no longer end the process: whoever has this does.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one.
    pub async fn next(&mut self) -> Number {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Number::TERM,
            _ = self.interrupt.recv() => Number::INT,
        }
    }
}
