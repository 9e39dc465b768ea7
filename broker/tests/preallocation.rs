//! Blocks of the disk that a log is given before it needs them.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::batch::Batch;
use broker::disk::{Disk, DiskFile};
use broker::error::Error;
use broker::partition::Partition;
use broker::settings::{Durability, Settings, TopicSettings};
use broker::work::Threads;

use common::bench::*;
use common::failing::{Failing, GoOn, server};
use common::late;

const KIB: u64 = 1 << 10;
/// What a file system takes for a file besides its bytes, at most, and what of them it may round up to.
const SLACK: u64 = 64 * KIB;

/// What a file takes on the disk besides its bytes.
fn spare(path: &Path) -> u64 {
    let found = fs::metadata(path).unwrap();
    (found.blocks() * 512).saturating_sub(found.len())
}

/// Whether the file system does it.
fn can_reserve(dir: &Path) -> bool {
    let path = dir.join("probe");
    let probe = File::create_new(&path).unwrap();
    let can = probe.reserve(0..1024 * KIB).is_ok();
    assert_eq!((can, probe.metadata().unwrap().len()), (spare(&path) >= 1024 * KIB, 0));
    probe.give_back().unwrap();
    assert!(spare(&path) <= SLACK);
    fs::remove_file(path).unwrap();
    can
}

/// Appends so many KiB, in batches.
async fn grow<D: Disk>(partition: &Partition<D>, kib: u64) {
    for _ in 0..kib / 16 {
        grow_a_little(partition).await.unwrap();
    }
}

/// Appends a batch of 16 KiB.
async fn grow_a_little<D: Disk>(partition: &Partition<D>) -> Result<(), Error> {
    let mut batch = Batch::new();
    (0..16).for_each(|_| batch.push(None, &[7; 1000]));
    partition.committed(partition.append(&mut batch).await?.end).await
}

#[tokio::test]
async fn a_log_that_grows_has_blocks_ahead_until_it_is_sealed_or_the_broker_stops() {
    for durability in [Durability::Os, Durability::Always] {
        let bench = Bench::new(Settings { durability, segment_bytes: 1600 * KIB, ..Settings::default() });
        if !can_reserve(bench.dir.path()) {
            return;
        }
        let (broker, partition) = bench.one_partition().await;
        grow(&partition, 128).await;
        let (first, length) = (bench.path(LOG_0), |path| fs::metadata(path).unwrap().len());
        assert!(spare(&first) <= SLACK, "a short one gets none: {}", spare(&first));
        grow(&partition, 1024).await;
        assert!(spare(&first) > 2 * SLACK, "{}", spare(&first));
        grow(&partition, 448).await;
        assert!(spare(&first) > 2 * SLACK, "{}", spare(&first));
        let len = length(&first);

        // The first one is full.
        grow(&partition, 1024).await;
        assert!(spare(&first) <= SLACK, "{}", spare(&first));
        assert_eq!(length(&first), len);
        let second = bench.path(&format!("{:020}.log", len / 1028));
        assert!(spare(&second) > 2 * SLACK, "{}", spare(&second));
        let (bytes, end) = (fs::read(&second).unwrap(), partition.range().unwrap().end);
        broker.close().await.unwrap();
        assert!(spare(&second) <= SLACK, "{}", spare(&second));
        assert_eq!(fs::read(&second).unwrap(), bytes);
        drop((partition, broker));
        let (_broker, partition) = bench.one_partition().await;
        assert_eq!(partition.range().unwrap().end, end);
    }
}

/// A file system lets whoever asks it for blocks wait for the end of a sync of the file, and an append holds the partition's lock.
#[tokio::test]
async fn an_append_asks_for_no_blocks_while_its_log_is_synced() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let settings = Settings { max_unsynced_bytes: 512 * KIB, ..Settings::default() };
    let broker = late::open(dir.path(), disk.clone(), settings, Arc::new(Threads));
    let _go_on = GoOn(disk.clone());
    let partition = late::make(&broker).await;
    let log = fs::metadata(dir.path().join("t/0").join(LOG_0)).unwrap().ino();
    let ahead = || disk.0.bytes.lock().unwrap()[&log] - partition.bytes();
    disk.0.sync_hangs.store(true, Ordering::SeqCst);
    grow(&partition, 512).await;
    assert!(ahead() > 0);
    late::until("a sync is under way", || disk.0.hanging.load(Ordering::SeqCst) > 0).await;
    grow(&partition, 1024).await;
    assert_eq!(ahead(), 0);
    disk.0.sync_hangs.store(false, Ordering::SeqCst);
    partition.idle().await;
    grow(&partition, 16).await;
    assert!(ahead() > 500 * KIB, "{}", ahead());
}

/// A broker that goes without closing anything is like one that was killed.
#[tokio::test]
async fn what_a_killed_broker_has_left_ahead_of_a_log_is_given_back_though_nothing_more_is_written() {
    let bench = Bench::new(Settings::default());
    if !can_reserve(bench.dir.path()) {
        return;
    }
    let killed = bench.one_partition().await;
    grow(&killed.1, 1024).await;
    drop(killed);
    let log = bench.path(LOG_0);
    let bytes = fs::read(&log).unwrap();
    assert!(spare(&log) > 2 * SLACK, "{}", spare(&log));
    let (broker, partition) = bench.one_partition().await;
    assert!(spare(&log) <= SLACK, "{}", spare(&log));
    assert_eq!(fs::read(&log).unwrap(), bytes);

    // It asks for more as before.
    grow(&partition, 16).await;
    assert!(spare(&log) > 2 * SLACK, "{}", spare(&log));
    broker.close().await.unwrap();
    assert!(spare(&log) <= SLACK, "{}", spare(&log));
}

/// What no log has written to is there for others: for records, for the next segment of another log, and for a new topic.
#[tokio::test]
async fn on_a_full_disk_logs_give_back_what_they_have_ahead_for_those_that_need_it() {
    for durability in [Durability::Os, Durability::Always, Durability::Interval(Duration::from_secs(60))] {
        let server = server(durability).await;
        let partitions = server.broker.topic("t").unwrap().partitions().to_vec();
        let taken = || server.disk.0.bytes.lock().unwrap().values().sum::<u64>();
        let ends = || -> u64 { partitions.iter().map(Partition::bytes).sum() };
        let ahead = || taken().saturating_sub(ends()) / KIB;
        let fill = || server.disk.0.bytes_max.store(taken(), Ordering::SeqCst);

        grow(&partitions[0], 1024).await;
        assert!(ahead() > 200, "{}", ahead());
        fill();
        // Half a batch is taken, and cut off again.
        server.disk.0.bytes_max.fetch_add(8 * KIB, Ordering::SeqCst);
        grow(&partitions[1], 128).await;
        assert!(ahead() < 100, "{}", ahead());
        assert_eq!(partitions[1].refusing(), None);
        assert_eq!(server.broker.stats().appends_failed.get(), 0, "it was tried once more, and stored");
        assert_eq!(partitions[1].range().unwrap().end.get(), 128);

        // And in the end it is full.
        let why = loop {
            if let Err(why) = grow_a_little(&partitions[1]).await {
                break why;
            }
        };
        assert!(matches!(why, Error::Storage { .. }), "{why}");
        assert!(partitions[1].refusing().is_some());
        assert!(ahead() < 16, "{}", ahead());
        for partition in &partitions {
            assert_eq!(partition.bytes(), 1028 * partition.range().unwrap().end.get());
        }

        server.disk.0.bytes_max.store(0, Ordering::SeqCst);
        grow(&partitions[2], 1024).await;
        fill();
        server.disk.0.file_bytes_max.store(partitions[1].bytes(), Ordering::SeqCst);
        grow(&partitions[1], 16).await;
        assert_eq!(partitions[1].segments(), 2);
        assert!(ahead() < 100, "{}", ahead());

        server.disk.0.bytes_max.store(0, Ordering::SeqCst);
        server.disk.0.file_bytes_max.store(0, Ordering::SeqCst);
        grow(&partitions[1], 1024).await;
        fill();
        server.broker.create_topic("another", TopicSettings::with_partitions(1)).await.unwrap();
        assert!(ahead() < 100, "{}", ahead());
    }
}

/// There it is no faster, and takes memory that nobody may ever need.
#[test]
fn a_file_in_memory_gets_no_blocks_ahead() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let is_in_memory = mounts.lines().any(|mount| mount.split(' ').skip(1).take(2).eq(["/dev/shm", "tmpfs"]));
    let Some(file) = tempfile::tempfile_in("/dev/shm").ok().filter(|_| is_in_memory) else { return };
    assert!(file.reserve(0..1024 * KIB).is_err());
    let found = file.metadata().unwrap();
    assert_eq!((found.len(), found.blocks()), (0, 0));
}
