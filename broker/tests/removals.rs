//! Removals of segments and of topics, and what others do meanwhile.
#![allow(clippy::disallowed_methods)] // threads of its own

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::disk::OsDisk;
use broker::error::{Code, Error};
use broker::partition::Partition;
use broker::settings::{Settings, TopicSettings};
use broker::units::{Offset, Timestamp};
use broker::work::Threads;
use futures_util::FutureExt;
use tokio::runtime::Handle;

use common::LONG;
use common::failing::{Failing, GoOn};
use common::late::{Late, append, at_next_open, closes, make, open, removal_that_waits, small, until};
use common::logged::Logged;

/// While the removal of a segment waits for the disk, its file is gone already: whoever asks where the log begins is not sent there.
/// Nor is that taken back where the disk refuses the removal, and it is tried again.
#[tokio::test]
async fn the_first_offset_that_is_named_can_be_read_while_retention_waits_for_the_disk() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let settings = Settings { retention_bytes: Some(100), ..small() };
    let broker = open(dir.path(), disk.clone(), settings, Arc::new(Threads));
    let _go_on = GoOn(disk.clone());
    let partition = make(&broker).await;
    for n in 0..12 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    partition.idle().await;
    let first = |nth: u64| dir.path().join(format!("t/0/{:020}.log", 3 * nth));
    let begins_behind = |nth: u64| {
        let start = partition.range().unwrap().start;
        assert_eq!(start, Offset::new(3 * nth + 3));
        assert_eq!(partition.read(start, 1).unwrap().range.start, start);
        assert_eq!(partition.first_at_or_after(Timestamp::ZERO).unwrap().unwrap().0, start);
        assert_eq!(partition.read(Offset::ZERO, 1).unwrap_err().code(), Code::OffsetOutOfRange);
    };
    disk.0.dir_sync_hangs.store(true, Ordering::SeqCst);
    let housekeeping = tokio::spawn(broker.clone().housekeeping());
    until("the file is gone", || !first(0).exists()).await;
    begins_behind(0);
    disk.0.read_only.store(true, Ordering::SeqCst);
    disk.0.dir_sync_hangs.store(false, Ordering::SeqCst);
    until("the next removal has begun", || partition.range().unwrap().start > Offset::new(3)).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        begins_behind(1);
    }
    assert!(first(1).exists());
    disk.0.read_only.store(false, Ordering::SeqCst);
    until("it is removed", || !first(1).exists()).await;
    housekeeping.abort();
}

/// The reader has seen that its offset is there; when it opens the segment, retention has removed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reader_that_retention_overtakes_is_told_where_the_log_begins_now() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let settings = Settings { retention_bytes: Some(100), ..small() };
    let broker = open(dir.path(), disk.clone(), settings, Arc::new(Threads));
    let partition = make(&broker).await;
    for n in 0..12 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    at_next_open(&disk, &partition, {
        let (runtime, broker, partition) = (Handle::current(), broker.clone(), partition.clone());
        move || {
            let housekeeping = runtime.spawn(broker.housekeeping());
            while partition.bytes() > 100 {
                std::thread::sleep(Duration::from_millis(1));
            }
            housekeeping.abort();
        }
    })
    .await;
    match partition.read(Offset::ZERO, 1) {
        Err(Error::OffsetOutOfRange { start, .. }) => assert_eq!(start, partition.range().unwrap().start),
        other => panic!("{other:?}"),
    }
}

/// Nor is it one where retention finds a segment gone that its topic has taken with it.
#[tokio::test]
async fn a_removal_from_what_is_being_deleted_is_no_trouble() {
    let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
    let (logged, _guard) = Logged::begin();
    let (broker, partition) = removal_that_waits(dir.path(), &late).await;
    let deleted = tokio::spawn(async move { broker.delete_topic("t").await });
    until("it was deleted", || partition.range().is_err()).await;
    late.begins.notify_one();
    deleted.await.unwrap().unwrap();
    assert_eq!(logged.count("WARN") + logged.count("ERROR"), 0);
}

/// What a removal takes, it takes by name: were it still to come when the broker is closed, it would take it from the next broker.
#[tokio::test]
async fn neither_a_stop_nor_a_deletion_is_faster_than_the_removal_that_is_under_way() {
    for is_stop in [true, false] {
        let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
        let (broker, _partition) = removal_that_waits(dir.path(), &late).await;
        let ended = tokio::spawn({
            let broker = broker.clone();
            async move { if is_stop { broker.close().await } else { broker.delete_topic("t").await } }
        });
        // All that it can do without the removal.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!ended.is_finished(), "a stop: {is_stop}");
        late.begins.notify_one();
        ended.await.unwrap().unwrap();
    }
}

/// One partition's disk hangs as a segment is removed. The others may lie on another, and are looked at again and again.
#[tokio::test]
async fn a_removal_that_hangs_does_not_hold_up_those_of_other_partitions() {
    let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
    let settings = Settings { retention_bytes: Some(100), ..small() };
    let broker = open(dir.path(), OsDisk, settings, Arc::new(late.clone()));
    broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
    let topic = broker.topic("t").unwrap();
    let [hangs, other] = topic.partitions() else { panic!("two") };
    let grow = async |partition: &Partition<OsDisk>| {
        for n in 0..12 {
            append(partition, &n.to_string()).await.unwrap();
        }
        partition.idle().await;
    };
    grow(hangs).await;
    late.holds.store(true, Ordering::Relaxed);
    tokio::spawn(broker.clone().housekeeping());
    late.waits.notified().await;
    for _ in 0..3 {
        grow(other).await;
        until("the oldest segments are removed", || other.bytes() <= 100).await;
    }
    assert!(hangs.bytes() > 100);
    late.begins.notify_one();
    until("the oldest segments are removed", || hangs.bytes() <= 100).await;
    closes(&broker).await;
}

/// The file of a segment is gone before the log starts behind it: what was damaged in it stands in nobody's way by then.
#[tokio::test]
async fn damage_in_what_retention_is_taking_hides_no_later_time() {
    let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
    let broker = open(dir.path(), OsDisk, small(), Arc::new(Threads));
    let partition = make(&broker).await;
    for n in 0..4 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    broker.close().await.unwrap();
    drop((broker, partition));
    let first = dir.path().join("t/0/00000000000000000000.log");
    let mut log = std::fs::read(&first).unwrap();
    log[30] ^= 1;
    std::fs::write(&first, log).unwrap();
    let settings = Settings { retention_bytes: Some(60), ..small() };
    let broker = open(dir.path(), OsDisk, settings, Arc::new(late.clone()));
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    let since_0 =
        || partition.first_at_or_after(Timestamp::ZERO).map(|found| found.map(|(offset, _)| offset));
    assert_eq!(since_0().unwrap(), Some(Offset::ZERO));
    late.holds_end.store(true, Ordering::Relaxed);
    tokio::spawn(broker.clone().housekeeping());
    late.is_done.notified().await;
    assert!(!first.exists());
    assert_eq!(since_0().unwrap(), Some(Offset::new(3)));
    late.ends.notify_one();
}

/// The files of a large topic take their time to go. It is deleted by then, so that nobody has to wait for that but who has asked for
/// it, and not even they when the broker stops: the rest goes at the next start.
#[tokio::test]
async fn neither_a_stop_nor_another_topic_waits_for_the_files_of_a_deleted_one() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let broker = open(dir.path(), disk.clone(), small(), Arc::new(Threads));
    let _go_on = GoOn(disk.clone());
    let partition = make(&broker).await;
    for n in 0..12 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    drop(partition);
    disk.0.removal_hangs.store(true, Ordering::SeqCst);
    let deleted = tokio::spawn({
        let broker = broker.clone();
        async move { broker.delete_topic("t").await }
    });
    until("it is deleted", || broker.topic("t").is_err()).await;
    let made = tokio::time::timeout(LONG, make(&broker)).await.expect("one of its name can be made");
    append(&made, "new").await.unwrap();
    let mut again = Box::pin(broker.delete_topic("t"));
    assert!(again.as_mut().now_or_never().is_none(), "its files would have the names of those");
    assert!(!deleted.is_finished());
    tokio::time::timeout(LONG, broker.close()).await.expect("the stop ends").unwrap();
    disk.0.removal_hangs.store(false, Ordering::SeqCst);
    deleted.await.unwrap().unwrap();
    assert_eq!(again.await.unwrap_err().code(), Code::ShuttingDown);
    assert!(dir.path().join("t~gone/0").exists(), "what was left by then");
    drop((broker, made));
    let broker = open(dir.path(), disk, small(), Arc::new(Threads));
    assert!(!dir.path().join("t~gone").exists());
    assert_eq!(broker.topic("t").unwrap().partition(0).unwrap().range().unwrap().end, Offset::new(1));
}
