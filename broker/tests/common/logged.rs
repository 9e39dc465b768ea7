//! What is logged.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::LONG;

/// What is logged by this thread.
#[derive(Clone, Default)]
pub struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    pub fn begin() -> (Self, tracing::subscriber::DefaultGuard) {
        let logged = Self::default();
        let to = logged.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        (logged, tracing::subscriber::set_default(subscriber))
    }

    pub fn count(&self, what: &str) -> usize {
        let log = self.0.lock().unwrap();
        String::from_utf8_lossy(&log).lines().filter(|line| line.contains(what)).count()
    }

    /// Waits until it has been told so often.
    pub async fn until(&self, what: &str, times: usize) {
        let told = async {
            while self.count(what) < times {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LONG, told).await.unwrap_or_else(|_| panic!("{what}: not {times} times"));
    }
}

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
