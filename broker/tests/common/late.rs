//! A broker whose background work waits until the test lets it go on.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker::Broker;
use broker::batch::Batch;
use broker::broker::World;
use broker::clock::SystemClock;
use broker::disk::{Disk, OsDisk};
use broker::error::Error;
use broker::partition::{Appended, Partition};
use broker::settings::{Settings, TopicSettings};
use broker::work::{Job, Threads, Work};
use tokio::sync::Notify;

use super::LONG;
use super::failing::{Failing, Meanwhile};

/// Segments of three records.
pub fn small() -> Settings {
    Settings { segment_bytes: 60, retention_check: Duration::from_millis(1), ..Settings::default() }
}

pub fn open<D: Disk>(dir: &Path, disk: D, settings: Settings, work: Arc<dyn Work>) -> Broker<D> {
    let world = World { disk, clock: Arc::new(SystemClock), work };
    Broker::open(world, dir, settings, &|_, _, _| {}).unwrap().0
}

pub async fn make<D: Disk>(broker: &Broker<D>) -> Partition<D> {
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    broker.topic("t").unwrap().partition(0).unwrap().clone()
}

pub async fn append<D: Disk>(partition: &Partition<D>, value: &str) -> Result<Appended, Error> {
    let mut batch = Batch::new();
    batch.push(None, value.as_bytes());
    partition.append(&mut batch).await
}

/// Waits until this is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, waits).await.unwrap_or_else(|_| panic!("not so: {what}"));
}

/// Whatever a panic leaves undone, a stop ends.
pub async fn closes<D: Disk>(broker: &Broker<D>) {
    tokio::time::timeout(LONG, broker.close()).await.expect("the stop ends").unwrap();
}

/// Does its work at once, but for one job that waits until it may begin, and one of whose end is told late.
#[derive(Clone, Debug, Default)]
pub struct Late {
    /// Whether the next one waits.
    pub holds: Arc<AtomicBool>,
    pub waits: Arc<Notify>,
    pub begins: Arc<Notify>,
    /// Whether the end of the next one is told late.
    pub holds_end: Arc<AtomicBool>,
    pub is_done: Arc<Notify>,
    pub ends: Arc<Notify>,
}

impl Work for Late {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let waits = self.holds.swap(false, Ordering::Relaxed);
        let ends_late = !waits && self.holds_end.swap(false, Ordering::Relaxed);
        let late = self.clone();
        Box::pin(async move {
            if waits {
                late.waits.notify_one();
                late.begins.notified().await;
            }
            job();
            if ends_late {
                late.is_done.notify_one();
                late.ends.notified().await;
            }
        })
    }

    fn run_all(&self, jobs: Vec<Job<'_>>, width: usize) {
        Threads.run_all(jobs, width);
    }
}

/// The disk calls this once, when it is about to open a log for a reader. What is under way in the background opens logs too
/// (a roll syncs the one it seals), so that is waited for first.
pub async fn at_next_open(
    disk: &Failing,
    partition: &Partition<Failing>,
    it: impl FnOnce() + Send + 'static,
) {
    partition.idle().await;
    *disk.0.meanwhile.lock().unwrap() = Some(Meanwhile(Box::new(it)));
}

/// A broker of which a partition has too much, and a removal that is under way, and waits.
pub async fn removal_that_waits(dir: &Path, late: &Late) -> (Broker<OsDisk>, Partition<OsDisk>) {
    let settings = Settings { retention_bytes: Some(100), ..small() };
    let broker = open(dir, OsDisk, settings, Arc::new(late.clone()));
    let partition = make(&broker).await;
    for n in 0..12 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    partition.idle().await;
    late.holds.store(true, Ordering::Relaxed);
    tokio::spawn(broker.clone().housekeeping());
    late.waits.notified().await;
    (broker, partition)
}
