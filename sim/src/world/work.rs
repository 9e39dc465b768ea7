//! The work seam in the world: no thread, no pool. A job takes its simulated time and then runs in line, so that a run
//! stays a pure function, and a crash can find a sync that was begun and is not done.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use broker::work::{Job, Work};

/// Runs jobs on the one thread of the simulation, each after `delay`.
#[derive(Clone, Copy, Debug)]
pub struct WorldWork {
    /// How long a sync takes.
    pub delay: Duration,
}

impl Work for WorldWork {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let delay = self.delay;
        if delay.is_zero() {
            job();
            return Box::pin(std::future::ready(()));
        }
        // A task of its own: a job that was begun is finished, whoever stops waiting for it.
        let task = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            job();
        });
        Box::pin(async move {
            if let Err(e) = task.await
                && let Ok(panic) = e.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        })
    }

    fn run_all(&self, jobs: Vec<Job<'_>>, _width: usize) {
        for job in jobs {
            job();
        }
    }
}
