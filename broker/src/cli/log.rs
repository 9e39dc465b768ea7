//! The server's log, on standard error: whoever tells something never waits for whoever reads it.
//!
//! A write to a terminal that is stopped, or to a pipe that nobody empties, takes for ever, and the lines are told by the threads
//! that serve. So they go through a buffer, and a thread of its own writes them. Where the buffer is full, lines are dropped, and
//! as soon as there is room again, it says how many. Until the server serves, a full buffer is waited for instead: a start may have
//! more to tell than there is room for.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of lines that wait to be written.
const BUFFER_BYTES: usize = 1 << 20;

/// How long standard error is left alone when it has no room and does not wait for any.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// How long an end waits for the last lines to be written.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// The log. What it has taken is written before it is dropped, if that is possible at all.
pub struct Log(Arc<Shared>);

/// Takes lines.
#[derive(Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    buffer: Mutex<Buffer>,
    /// Told when there is something to write, and when something was written.
    changed: Condvar,
}

#[derive(Default)]
struct Buffer {
    lines: Vec<u8>,
    /// How many came behind these and were dropped.
    dropped: u64,
    /// Whether some are being written.
    writing: bool,
    /// Whether a line is dropped rather than waited with.
    serves: bool,
}

impl Buffer {
    fn has_room(&self, line: &[u8]) -> bool {
        self.lines.is_empty() || self.lines.len() + line.len() <= BUFFER_BYTES
    }

    fn is_written(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.writing
    }
}

impl Log {
    /// A log that goes there.
    pub fn begin(out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let writer = shared.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || writer.write_all(out))?;
        Ok(Self(shared))
    }

    /// What takes its lines.
    pub fn lines(&self) -> Lines {
        Lines(self.0.clone())
    }

    /// From now on, nobody waits.
    pub fn serves(&self) {
        self.0.lock().serves = true;
        self.0.changed.notify_all();
    }

    /// A panic is told here, too: otherwise its thread would write to standard error by itself.
    pub fn take_panics(&self) {
        let lines = self.lines();
        std::panic::set_hook(Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("without a name");
            let backtrace = Backtrace::capture();
            let backtrace = match backtrace.status() {
                BacktraceStatus::Captured => format!("{backtrace}\n"),
                _ => String::new(),
            };
            lines.put(format!("thread {name:?} {panic}\n{backtrace}").as_bytes());
        }));
    }
}

impl Lines {
    /// Adds a line, or several.
    pub fn put(&self, line: &[u8]) {
        let mut buffer = self.0.lock();
        while !buffer.serves && !buffer.has_room(line) {
            buffer = self.0.wait(buffer);
        }
        // Once one was dropped, so are those behind it: then it is known where they are missing.
        if buffer.dropped > 0 || !buffer.has_room(line) {
            buffer.dropped += 1;
        } else {
            buffer.lines.extend_from_slice(line);
        }
        self.0.changed.notify_all();
    }

    /// Waits until everything is written, for some time.
    pub fn flush(&self) {
        let buffer = self.0.lock();
        let written = self.0.changed.wait_timeout_while(buffer, FLUSH_TIME, |buffer| !buffer.is_written());
        drop(written.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Each line comes in one piece.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.lines().flush();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, buffer: MutexGuard<'a, Buffer>) -> MutexGuard<'a, Buffer> {
        self.changed.wait(buffer).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes, to the end of the process. A line that cannot be written, on a full disk for one, counts as dropped.
    fn write_all(&self, mut out: impl Write) {
        let (mut lines, mut lost) = (Vec::new(), 0);
        loop {
            let mut buffer = self.lock();
            buffer.writing = false;
            self.changed.notify_all();
            while buffer.is_written() {
                buffer = self.wait(buffer);
            }
            lines.clear();
            std::mem::swap(&mut lines, &mut buffer.lines);
            let dropped = std::mem::take(&mut buffer.dropped) + lost;
            buffer.writing = true;
            drop(buffer);
            if dropped > 0 {
                let missing =
                    format!("{dropped} lines are missing here: standard error took them too slowly\n");
                lines.extend_from_slice(missing.as_bytes());
            }
            lost = match written(&mut out, &lines) {
                all if all == lines.len() => 0,
                part => newlines(&lines[part..]) + dropped.saturating_sub(1),
            };
            let _ = out.flush();
        }
    }
}

fn newlines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Writes these bytes, and gives how many it could.
#[allow(clippy::disallowed_methods)] // the log's own thread
fn written(out: &mut impl Write, bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() {
        match out.write(&bytes[at..]) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Whoever has opened standard error does not want to wait for it. This thread may.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(BUSY_PAUSE),
            Err(_) => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Says that it was given something, and takes it when it is told to.
    struct Slow {
        given: Sender<Vec<u8>>,
        takes: Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.given.send(bytes.to_vec()).map_err(io::Error::other)?;
            self.takes.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Log, Receiver<Vec<u8>>, Sender<()>) {
        let ((given, is_given), (take, takes)) = (channel(), channel());
        (Log::begin(Slow { given, takes }).unwrap(), is_given, take)
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted_where_they_are_missing() {
        let (log, given, take) = slow();
        log.serves();
        let lines = log.lines();
        lines.put(b"first\n");
        assert_eq!(given.recv().unwrap(), b"first\n");
        let line = [b'x'; 100];
        let fit = BUFFER_BYTES / line.len();
        for _ in 0..fit + 7 {
            lines.put(&line);
        }
        lines.put(b"short, and behind others that are missing\n");
        take.send(()).unwrap();
        let rest = given.recv().unwrap();
        let missing = b"8 lines are missing here: standard error took them too slowly\n";
        assert!(rest.starts_with(&line) && rest.ends_with(missing));
        assert_eq!(rest.len(), fit * line.len() + missing.len());
        lines.put(b"later\n");
        take.send(()).unwrap();
        assert_eq!(given.recv().unwrap(), b"later\n");
        take.send(()).unwrap();
        drop(log);
    }

    #[test]
    fn what_was_taken_is_written_at_an_end() {
        let (log, given, take) = slow();
        log.lines().put(b"last\n");
        take.send(()).unwrap();
        drop(log);
        assert_eq!(given.try_recv().unwrap(), b"last\n");
    }

    /// A pipe that does not wait, and a disk that is full for a moment.
    #[test]
    fn lines_that_fail_are_written_later_or_counted() {
        struct Fails(Vec<io::ErrorKind>, Sender<Vec<u8>>);
        impl Write for Fails {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                match self.0.pop() {
                    Some(kind) => Err(kind.into()),
                    None => self.1.send(bytes.to_vec()).map(|()| bytes.len()).map_err(io::Error::other),
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (written, given) = channel();
        let log =
            Log::begin(Fails(vec![io::ErrorKind::StorageFull, io::ErrorKind::WouldBlock], written)).unwrap();
        let lines = log.lines();
        lines.put(b"one\ntwo\n");
        lines.flush();
        lines.put(b"three\n");
        drop(log);
        let missing = "three\n2 lines are missing here: standard error took them too slowly\n";
        assert_eq!(String::from_utf8(given.recv().unwrap()).unwrap(), missing);
    }

    #[test]
    fn an_end_does_not_wait_for_ever() {
        let (log, given, _take) = slow();
        log.lines().put(b"last\n");
        given.recv().unwrap();
        drop(log);
    }

    /// A start may tell more than there is room for.
    #[test]
    #[allow(clippy::disallowed_methods)] // a test's own thread
    fn until_it_serves_nothing_is_dropped() {
        let (log, given, take) = slow();
        let lines = log.lines();
        const LINES: usize = 3 * BUFFER_BYTES / 100;
        let told = std::thread::spawn(move || (0..LINES).for_each(|_| lines.put(&[b'x'; 100])));
        let mut bytes = 0;
        while bytes < 100 * LINES {
            bytes += given.recv().unwrap().len();
            take.send(()).unwrap();
        }
        assert_eq!(bytes, 100 * LINES);
        told.join().unwrap();
    }
}
