//! The work seam: what may leave the thread. A sync waits for a device, recovery reads whole files; both would stop
//! every other connection if they ran on an async worker thread.
//!
//! The real broker gives such work to threads; a simulation runs it in line, after a simulated delay.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread::Builder;

/// A piece of work. What it finds out it leaves where its maker can see it.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs work that blocks.
pub trait Work: Debug + Send + Sync + 'static {
    /// Runs one job off the async thread; the future is ready when the job is done. A job that was started is
    /// finished even if the future is dropped.
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Runs all jobs, at most `width` at a time where that is possible, and returns when they are done. Blocks.
    fn run_all(&self, jobs: Vec<Job<'_>>, width: usize);
}

/// Runs a job off the async thread and gives its result.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: &dyn Work,
    job: impl FnOnce() -> T + Send + 'static,
) -> T {
    let slot = Arc::new(Mutex::new(None));
    let result = slot.clone();
    work.run(Box::new(move || *slot.lock().unwrap_or_else(|e| e.into_inner()) = Some(job()))).await;
    let value = result.lock().unwrap_or_else(|e| e.into_inner()).take();
    value.expect("the work seam runs every job to its end")
}

/// Worker threads: tokio's blocking pool, and scoped threads for [`Work::run_all`].
///
/// The pool panics where it has no thread and the system grants none. A runtime with a long `thread_keep_alive`, which has run one
/// job, always has one.
#[derive(Debug, Default)]
pub struct Threads;

impl Work for Threads {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let handle = tokio::task::spawn_blocking(job);
        Box::pin(async move {
            if let Err(e) = handle.await
                && let Ok(panic) = e.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        })
    }

    fn run_all(&self, jobs: Vec<Job<'_>>, width: usize) {
        share(jobs, width, Builder::new);
    }
}

/// Runs jobs on this thread and, as far as the system grants them, on others of this kind.
fn share(jobs: Vec<Job<'_>>, width: usize, thread: impl Fn() -> Builder) {
    let width = width.min(jobs.len());
    let queue = Mutex::new(jobs.into_iter());
    let next = || queue.lock().unwrap_or_else(|e| e.into_inner()).next();
    let work = || {
        while let Some(job) = next() {
            job();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..width {
            if let Err(e) = thread().spawn_scoped(scope, work) {
                tracing::debug!("the system grants no more threads: {e}");
                break;
            }
        }
        work();
    });
}

/// Everything in line, at once: for offline commands, tests and simulations that need no delay.
#[derive(Debug, Default)]
pub struct InLine;

impl Work for InLine {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        job();
        Box::pin(std::future::ready(()))
    }

    fn run_all(&self, jobs: Vec<Job<'_>>, _width: usize) {
        for job in jobs {
            job();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn where_the_system_grants_no_thread_this_one_does_all() {
        // No memory holds a stack of that size.
        let refused = || Builder::new().stack_size(1 << 60);
        assert!(refused().spawn(|| ()).is_err());
        for (width, thread) in [(0, Builder::new as fn() -> Builder), (4, Builder::new), (4, refused)] {
            let done = AtomicUsize::new(0);
            let job = || -> Job<'_> { Box::new(|| _ = done.fetch_add(1, Ordering::Relaxed)) };
            share((0..10).map(|_| job()).collect(), width, thread);
            assert_eq!(done.into_inner(), 10);
        }
        share(Vec::new(), 4, Builder::new);
    }
}
