//! The work seam in the world: no thread, no pool. A job takes its simulated time and then runs in line, so that a run
//! stays a pure function, and a crash can find a sync that was begun and is not done.

use std::future::Future;
use std::pin::Pin;

use broker::work::{Job, Work};
use tokio::time::sleep;

use super::stall::Stalls;

/// Runs jobs on the one thread of the simulation, each after the time that the disk takes for a sync.
#[derive(Clone, Debug)]
pub struct WorldWork {
    stalls: Stalls,
}

impl WorldWork {
    /// On a disk that is this slow.
    pub fn new(stalls: Stalls) -> Self {
        Self { stalls }
    }
}

impl Work for WorldWork {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let before = self.stalls.draw_sync();
        if before.is_zero() {
            job();
            let after = self.stalls.of_sync();
            if after.is_zero() {
                return Box::pin(std::future::ready(()));
            }
            return Box::pin(sleep(after));
        }
        // A task of its own: a job that was begun is finished, whoever stops waiting for it.
        let stalls = self.stalls.clone();
        let task = tokio::spawn(async move {
            sleep(before).await;
            job();
            sleep(stalls.of_sync()).await;
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
