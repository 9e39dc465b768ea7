//! A data directory on the real disk, and the log in it, without a server.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use broker::Broker;
use broker::batch::Batch;
use broker::broker::World;
use broker::clock::Clock;
use broker::disk::{Disk, OsDisk};
use broker::error::Error;
use broker::index;
use broker::partition::Partition;
use broker::record;
use broker::report::Report;
use broker::scan::{Known, Scan};
use broker::settings::{Settings, TopicSettings};
use broker::units::{Offset, Timestamp};
use broker::work::{Job, Threads, Work};
use tokio::sync::Notify;

/// A clock that shows what it is told.
#[derive(Debug, Default)]
pub struct HandClock(AtomicU64);

impl HandClock {
    pub fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Does its work at once; whoever waits for it learns of that only when told to go on.
#[derive(Clone, Debug, Default)]
pub struct Held {
    pub holds: Arc<AtomicBool>,
    pub go_on: Arc<Notify>,
    /// How many there have been.
    pub jobs: Arc<AtomicUsize>,
}

impl Work for Held {
    fn run(&self, job: Job<'static>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        job();
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let held = self.clone();
        Box::pin(async move {
            if held.holds.load(Ordering::Relaxed) {
                held.go_on.notified().await;
            }
        })
    }

    fn run_all(&self, jobs: Vec<Job<'_>>, width: usize) {
        Threads.run_all(jobs, width);
    }
}

/// A data directory, and how to open it.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub clock: Arc<HandClock>,
    pub settings: Settings,
}

impl Bench {
    pub fn new(settings: Settings) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), clock: Arc::default(), settings }
    }

    pub fn small() -> Self {
        Self::new(Settings { segment_bytes: 200, index_interval: 3, ..Settings::default() })
    }

    pub fn open(&self) -> (Broker<OsDisk>, Report) {
        self.open_with(Arc::new(Threads))
    }

    pub fn open_with(&self, work: Arc<dyn Work>) -> (Broker<OsDisk>, Report) {
        let world = World { disk: OsDisk, clock: self.clock.clone(), work };
        Broker::open(world, self.dir.path(), self.settings.clone(), &|_, _, _| {}).unwrap()
    }

    /// Opens it with one topic, `t`, of one partition.
    pub async fn one_partition(&self) -> (Broker<OsDisk>, Partition<OsDisk>) {
        let (broker, _) = self.open();
        match broker.create_topic("t", TopicSettings::with_partitions(1)).await {
            Ok(()) | Err(Error::TopicExists { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
        (broker, partition)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("t/0").join(name)
    }

    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.dir.path().join("t/0")).unwrap().map(|e| e.unwrap());
        entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
    }
}

pub const LOG_0: &str = "00000000000000000000.log";
pub const INDEX_0: &str = "00000000000000000000.index";
pub const TIME_INDEX_0: &str = "00000000000000000000.timeindex";

pub async fn append<D: Disk>(partition: &Partition<D>, values: &[&str]) -> Offset {
    let mut batch = Batch::new();
    for value in values {
        batch.push(Some(b"k"), value.as_bytes());
    }
    let appended = partition.append(&mut batch).await.unwrap();
    partition.committed(appended.end).await.unwrap();
    appended.base
}

/// Everything from `from` on, in small reads.
pub fn read_from(partition: &Partition<OsDisk>, from: Offset) -> Result<Vec<String>, Error> {
    let (mut at, mut values) = (from, Vec::new());
    while at < partition.range().unwrap().end {
        let fetched = partition.read(at, 100)?;
        let mut rest = &fetched.bytes[..];
        while !rest.is_empty() {
            let found = record::decode(rest, u32::MAX).unwrap();
            assert_eq!(found.offset, at.plus(0));
            values.push(String::from_utf8(found.value.to_vec()).unwrap());
            at = at.next();
            rest = &rest[found.len()..];
        }
        assert_eq!(at, fetched.next);
    }
    Ok(values)
}

pub fn read_all(partition: &Partition<OsDisk>) -> Vec<String> {
    read_from(partition, partition.range().unwrap().start).unwrap()
}

/// What appending would have written into the indexes of every segment is what is there.
pub fn assert_indexes_are_derived(bench: &Bench, interval: u64) {
    for (name, bytes) in bench.files() {
        let Some(base) = name.strip_suffix(".log") else { continue };
        let file = fs::File::open(bench.path(&name)).unwrap();
        let base_offset = Offset::new(base.parse().unwrap());
        let scan = Scan::run(&file, bytes.len() as u64, base_offset, interval, Known::end(None));
        let is = |suffix: &str| fs::read(bench.path(&format!("{base}{suffix}"))).unwrap();
        assert_eq!(is(".index"), index::encode_all(&scan.index), "{base}.index");
        assert_eq!(is(".timeindex"), index::encode_all(&scan.time_index), "{base}.timeindex");
    }
}
