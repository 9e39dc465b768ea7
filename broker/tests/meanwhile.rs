//! What happens while something else is half done: another thread is faster, or a job has not begun yet.
#![allow(clippy::disallowed_methods)] // threads of its own

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::Broker;
use broker::broker::World;
use broker::client::{At, Client, Options};
use broker::disk::{Disk, OsDisk};
use broker::error::{Code, Error};
use broker::net::TcpConnector;
use broker::partition::Appended;
use broker::server::{Limits, serve};
use broker::settings::{Durability, Settings, TopicSettings};
use broker::units::{Offset, Timestamp};
use broker::work::Threads;
use futures_util::FutureExt;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use common::bench::HandClock;
use common::failing::{Failing, GoOn};
use common::late::{Late, append, at_next_open, closes, make, open, small, until};
use common::logged::Logged;
use common::{LONG, ok};

fn files(dir: &Path) -> Vec<String> {
    OsDisk.list(&dir.join("t/0")).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// The reader has seen that its offset is there; when it opens the segment, its topic was deleted, and the file of that name is
/// one of another topic, or is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reader_that_a_deletion_overtakes_never_reads_what_came_after_it() {
    for is_made_anew in [false, true] {
        for looks_for_time in [false, true] {
            let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
            let broker = open(dir.path(), disk.clone(), small(), Arc::new(Threads));
            let partition = make(&broker).await;
            for n in 0..12 {
                append(&partition, &n.to_string()).await.unwrap();
            }
            at_next_open(&disk, &partition, {
                let (runtime, broker) = (Handle::current(), broker.clone());
                let other = async move {
                    broker.delete_topic("t").await.unwrap();
                    if is_made_anew {
                        let anew = make(&broker).await;
                        for _ in 0..12 {
                            append(&anew, "anew").await.unwrap();
                        }
                    }
                };
                move || std::thread::spawn(move || runtime.block_on(other)).join().unwrap()
            })
            .await;
            let outcome = match looks_for_time {
                false => partition.read(Offset::ZERO, 1).map(|read| format!("{read:?}")),
                true => partition.first_at_or_after(Timestamp::ZERO).map(|found| format!("{found:?}")),
            };
            assert!(matches!(outcome, Err(Error::Deleted { .. })), "{outcome:?}");
        }
    }
}

/// The lookup has found no record as late as it is asked for, and then one comes: what reads on from the answer gets it. The
/// lookup is held up where it opens a segment that goes at that moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_record_that_comes_during_a_lookup_by_time_is_not_behind_the_answer() {
    let (dir, disk, clock) =
        (tempfile::tempdir().unwrap(), Failing::default(), Arc::new(HandClock::default()));
    let world = World { disk: disk.clone(), clock: clock.clone(), work: Arc::new(Threads) };
    let settings = Settings { retention_bytes: Some(40), ..small() };
    let broker = Broker::open(world, dir.path(), settings, &|_, _, _| {}).unwrap().0;
    let partition = make(&broker).await;
    for (ms, value) in [(2000, "a"), (2000, "b"), (2000, "c"), (100, "d")] {
        clock.set(ms);
        append(&partition, value).await.unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(TcpConnector, listener.local_addr().unwrap().to_string(), Options::default());
    let stop = CancellationToken::new();
    let served =
        tokio::spawn(serve(listener, broker.clone(), Limits::default(), stop.clone(), Arc::default()));
    at_next_open(&disk, &partition, {
        let (runtime, broker, partition) = (Handle::current(), broker.clone(), partition.clone());
        let first = dir.path().join("t/0/00000000000000000000.log");
        let meanwhile = async move {
            let housekeeping = tokio::spawn(broker.housekeeping());
            // The log begins behind the segment as soon as the removal has begun: the file may still be there.
            until("the first segment is gone", || !first.exists()).await;
            housekeeping.abort();
            clock.set(3000);
            append(&partition, "e").await.unwrap();
        };
        move || std::thread::spawn(move || runtime.block_on(meanwhile)).join().unwrap()
    })
    .await;
    let found = ok(client.list_offsets("t", 0, At::Timestamp(Timestamp::from_millis(1500))).await);
    assert_eq!((found.offset, found.timestamp), (Offset::new(4), None));
    stop.cancel();
    served.await.unwrap().unwrap();
}

/// A broker with a full segment, and an append whose roll is under way, and waits.
async fn roll_that_waits(dir: &Path, late: &Late) -> (Broker<OsDisk>, JoinHandle<Result<Appended, Error>>) {
    let broker = open(dir, OsDisk, small(), Arc::new(late.clone()));
    let partition = make(&broker).await;
    for n in 0..3 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    late.holds.store(true, Ordering::Relaxed);
    let appended = tokio::spawn(async move { append(&partition, "3").await });
    late.waits.notified().await;
    (broker, appended)
}

/// What a roll makes, it makes by name: were it still to come when the topic is gone, it would make it in the next topic of
/// that name.
#[tokio::test]
async fn a_deletion_waits_for_the_roll_that_is_under_way() {
    let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
    let (broker, appended) = roll_that_waits(dir.path(), &late).await;
    let deleted = tokio::spawn({
        let broker = broker.clone();
        async move { broker.delete_topic("t").await }
    });
    // All that it can do without the roll.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(broker.topic("t").is_err() && !deleted.is_finished());
    late.begins.notify_one();
    deleted.await.unwrap().unwrap();
    assert_eq!(appended.await.unwrap().unwrap_err().code(), Code::UnknownTopic);
    make(&broker).await;
    assert_eq!(files(dir.path()).len(), 3);
}

/// A roll syncs what it seals. Where retention cannot sync the directory meanwhile, the partition takes no more writes, and what is
/// synced is acknowledged and read all the same; also where the roll itself comes to nothing for that.
#[tokio::test]
async fn what_a_roll_has_synced_is_shown_though_something_else_has_failed_meanwhile() {
    for goes_on_failing in [false, true] {
        let (dir, late, disk) = (tempfile::tempdir().unwrap(), Late::default(), Failing::default());
        let settings = Settings { durability: Durability::Always, retention_bytes: Some(100), ..small() };
        let broker = open(dir.path(), disk.clone(), settings, Arc::new(late.clone()));
        let partition = make(&broker).await;
        for n in 0..8 {
            let end = append(&partition, &n.to_string()).await.unwrap().end;
            partition.committed(end).await.unwrap();
        }
        late.holds.store(true, Ordering::Relaxed);
        let end = append(&partition, "8").await.unwrap().end;
        let mut next = Box::pin(append(&partition, "9"));
        assert!(next.as_mut().now_or_never().is_none(), "it waits for a roll, which syncs what is before it");
        late.waits.notified().await;
        disk.0.dir_sync_fails.store(true, Ordering::SeqCst);
        let housekeeping = tokio::spawn(broker.clone().housekeeping());
        until("it is fenced", || partition.fenced().is_some()).await;
        disk.0.dir_sync_fails.store(goes_on_failing, Ordering::SeqCst);
        late.begins.notify_one();
        assert_eq!(next.await.unwrap_err().code(), Code::Fenced);
        partition.idle().await;
        partition.committed(end).await.unwrap();
        assert_eq!(partition.latest().unwrap(), end);
        housekeeping.abort();
    }
}

/// Its topic is as good as deleted when a roll finds its directory gone: that is no trouble with the disk.
#[tokio::test]
async fn a_roll_of_what_is_being_deleted_is_told_as_that() {
    let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
    let (broker, appended) = roll_that_waits(dir.path(), &late).await;
    late.holds_end.store(true, Ordering::Relaxed);
    let deleted = tokio::spawn(async move { broker.delete_topic("t").await });
    late.is_done.notified().await;
    late.begins.notify_one();
    assert!(matches!(appended.await.unwrap(), Err(Error::Deleted { .. })));
    late.ends.notify_one();
    deleted.await.unwrap().unwrap();
}

/// The same, where the topic is deleted already when the roll comes to its end: whoever waits for it may hear of that first.
#[tokio::test]
async fn a_roll_of_what_was_deleted_is_told_as_that() {
    let (dir, late) = (tempfile::tempdir().unwrap(), Late::default());
    let (logged, _guard) = Logged::begin();
    let (broker, appended) = roll_that_waits(dir.path(), &late).await;
    appended.abort();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    let mut append = Box::pin(append(&partition, "4"));
    assert!(append.as_mut().now_or_never().is_none(), "it waits for the roll that is under way");
    let deleted = tokio::spawn(async move { broker.delete_topic("t").await });
    until("it was deleted", || partition.range().is_err()).await;
    late.begins.notify_one();
    deleted.await.unwrap().unwrap();
    assert_eq!(append.await.unwrap_err().code(), Code::UnknownTopic);
    assert_eq!(logged.count("WARN") + logged.count("ERROR"), 0);
}

/// A write that a limit on the size of files has cut short is cut off again, and the roll that is to sync that is under way when the
/// broker stops. Whoever asked for it does not wait, and is not told that nothing was done: a power loss may bring it back.
#[tokio::test]
async fn a_stop_leaves_open_what_a_roll_is_to_cut_off() {
    let (dir, late, disk) = (tempfile::tempdir().unwrap(), Late::default(), Failing::default());
    let broker = open(dir.path(), disk.clone(), Settings::default(), Arc::new(late.clone()));
    let partition = make(&broker).await;
    let [fits, does_not] = ["x".repeat(300), "y".repeat(200)];
    append(&partition, &fits).await.unwrap();
    disk.0.file_bytes_max.store(400, Ordering::SeqCst);
    late.holds.store(true, Ordering::Relaxed);
    let mut cut = Box::pin(append(&partition, &does_not));
    assert!(cut.as_mut().now_or_never().is_none(), "it waits for the roll");
    late.waits.notified().await;
    let closed = tokio::spawn({
        let broker = broker.clone();
        async move { broker.close().await }
    });
    assert_eq!(cut.await.unwrap_err().code(), Code::OutcomeUnknown);
    assert_eq!(append(&partition, "z").await.unwrap_err().code(), Code::ShuttingDown);
    late.begins.notify_one();
    closed.await.unwrap().unwrap();
}

/// Who waits for a sync when the topic goes: a restart shows no more of it, and is not asked for. Only where nobody knows whether
/// the topic is gone, nobody knows that of the record.
#[tokio::test]
async fn who_waits_for_a_sync_of_what_was_deleted_is_told_that() {
    for (is_durable, expected) in [(true, Code::UnknownTopic), (false, Code::OutcomeUnknown)] {
        let (dir, late, disk) = (tempfile::tempdir().unwrap(), Late::default(), Failing::default());
        let settings = Settings { durability: Durability::Always, ..Settings::default() };
        let broker = open(dir.path(), disk.clone(), settings, Arc::new(late.clone()));
        let partition = make(&broker).await;
        late.holds.store(true, Ordering::Relaxed);
        let end = append(&partition, "0").await.unwrap().end;
        late.waits.notified().await;
        disk.0.dir_sync_fails.store(!is_durable, Ordering::SeqCst);
        let deleted = tokio::spawn({
            let broker = broker.clone();
            async move { broker.delete_topic("t").await }
        });
        assert_eq!(partition.committed(end).await.unwrap_err().code(), expected);
        late.begins.notify_one();
        assert_eq!(deleted.await.unwrap().is_ok(), is_durable);
    }
}

/// A sync is under way when its topic is deleted, and finds no directory to note itself in. Of all others the run may say what it said.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deletion_during_a_sync_does_not_take_back_what_the_run_has_said() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let _go_on = GoOn(disk.clone());
    let interval = Durability::Interval(Duration::from_millis(1));
    let settings = Settings { durability: interval, ..Settings::default() };
    let broker = open(dir.path(), disk.clone(), settings, Arc::new(Threads));
    let partition = make(&broker).await;
    let running = dir.path().join("running");
    assert!(running.exists());
    disk.0.sync_hangs.store(true, Ordering::SeqCst);
    append(&partition, "x").await.unwrap();
    until("a sync is under way", || disk.0.hanging.load(Ordering::SeqCst) > 0).await;
    let deletion = tokio::spawn({
        let broker = broker.clone();
        async move { broker.delete_topic("t").await }
    });
    until("the topic has lost its name", || !dir.path().join("t").exists()).await;
    disk.0.sync_hangs.store(false, Ordering::SeqCst);
    deletion.await.unwrap().unwrap();
    assert!(running.exists());
    closes(&broker).await;
}

/// A topic of many partitions takes as many syncs, for which a stop has no time.
#[tokio::test]
async fn a_stop_does_not_wait_until_all_of_a_large_topic_is_made() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let broker = open(dir.path(), disk.clone(), Settings::default(), Arc::new(Threads));
    let _go_on = GoOn(disk.clone());
    disk.0.dir_sync_hangs.store(true, Ordering::SeqCst);
    let made = tokio::spawn({
        let broker = broker.clone();
        async move { broker.create_topic("large", TopicSettings::with_partitions(100)).await }
    });
    until("it has begun, and several at once", || dir.path().join("large~new/5").exists()).await;
    let mut closed = Box::pin(broker.close());
    assert!(closed.as_mut().now_or_never().is_none(), "it waits for what is under way");
    disk.0.dir_sync_hangs.store(false, Ordering::SeqCst);
    assert_eq!(made.await.unwrap().unwrap_err().code(), Code::ShuttingDown);
    tokio::time::timeout(LONG, closed).await.expect("it ends").unwrap();
    assert!(!dir.path().join("large~new").exists(), "nothing is left of it");
    drop(broker);
    let broker = open(dir.path(), disk, Settings::default(), Arc::new(Threads));
    assert_eq!(broker.topic("large").unwrap_err().code(), Code::UnknownTopic);
}
