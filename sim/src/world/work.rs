//! The work seam in the world: no thread, no pool. A job takes its simulated time and then runs in line, so that a run
//! stays a pure function, and a crash can find a sync that was begun and is not done. A sync covers what was written when its job
//! was handed over, and it keeps nothing before it has ended.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use broker::work::{Job, Work};
use faults::Unfinished;
use tokio::time::sleep;

use super::stall::Stalls;
use crate::trace::Recorder;

/// Runs jobs on the one thread of the simulation, each after the time that the disk takes for a sync.
#[derive(Clone, Debug)]
pub struct WorldWork {
    stalls: Stalls,
    recorder: Recorder,
}

impl WorldWork {
    /// On a disk that is this slow.
    pub fn new(stalls: Stalls, recorder: Recorder) -> Self {
        Self { stalls, recorder }
    }

    /// Runs a job that was handed over then; says how long it takes because of a fault, and which sync ends only after that.
    fn carry_out(&self, job: Job<'static>, handed_over: faults::Moment) -> (Duration, Option<Unfinished>) {
        let disk = self.stalls.disk();
        let at_work = disk.begin_job(handed_over);
        job();
        let unfinished = at_work.end();
        (self.stalls.of_sync(), unfinished)
    }

    /// The rest of a job, which is waiting.
    async fn wait(self, time: Duration, sync: Option<Unfinished>) {
        sleep(time).await;
        if let Some(sync) = sync {
            let disk = self.stalls.disk();
            disk.finish(sync);
            self.recorder.recorded(disk.recorded()); // before anybody is told
        }
    }
}

impl Work for WorldWork {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let before = self.stalls.draw_sync();
        let (work, handed_over) = (self.clone(), self.stalls.disk().moment());
        if before.is_zero() {
            let (after, unfinished) = work.carry_out(job, handed_over);
            if after.is_zero() {
                return Box::pin(std::future::ready(()));
            }
            return Box::pin(work.wait(after, unfinished));
        }
        // A task of its own: a job that was begun is finished, whoever stops waiting for it.
        let task = tokio::spawn(async move {
            sleep(before).await;
            let (after, unfinished) = work.carry_out(job, handed_over);
            work.wait(after, unfinished).await;
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
