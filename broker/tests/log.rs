//! The log on a real disk, in a directory of its own: what is appended is read back, whatever happens to the files
//! between two runs.

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::batch::Batch;
use broker::clock::Clock;
use broker::error::{Code, Error};
use broker::index;
use broker::settings::{Durability, Settings, TopicSettings};
use broker::units::{Offset, Timestamp};
use proptest::prelude::*;

use common::bench::*;

#[tokio::test]
async fn the_example_of_the_format_is_laid_out_byte_for_byte() {
    let bench = Bench::new(Settings { index_interval: 3, ..Settings::default() });
    let (_broker, partition) = bench.one_partition().await;
    for (key, value, size) in [("user-1", "hello", 39), ("user-2", "world", 78), ("user-3", "!", 113)] {
        let mut batch = Batch::new();
        batch.push(Some(key.as_bytes()), value.as_bytes());
        partition.append(&mut batch).await.unwrap();
        assert_eq!(fs::metadata(bench.path(LOG_0)).unwrap().len(), size);
    }
    let entries = index::decode_all(&fs::read(bench.path(INDEX_0)).unwrap(), true).unwrap();
    assert_eq!(entries, [index::Entry { key: 2, value: 78 }]);
    assert_eq!(
        read_from(&partition, Offset::new(1)).unwrap(),
        ["world", "!"],
        "found by scanning from the start"
    );
}

#[tokio::test]
async fn segments_end_when_they_are_full_and_never_before() {
    // Records of 30 bytes.
    for (limit, per_segment) in [(59, 2), (60, 2), (61, 3), (1, 1)] {
        let bench = Bench::new(Settings { segment_bytes: limit, ..Settings::default() });
        let (broker, partition) = bench.one_partition().await;
        for i in 0..6_u64 {
            append(&partition, &[&i.to_string()]).await;
            let logs = bench.files().keys().filter(|n| n.ends_with(".log")).count() as u64;
            assert_eq!(logs, i / per_segment + 1, "limit {limit}, after record {i}");
            assert_eq!(partition.range().unwrap().end.get(), i + 1);
        }
        drop((broker, partition));
        let (_broker, partition) = bench.one_partition().await;
        assert_eq!(read_all(&partition).len(), 6);
    }
}

/// Somebody cuts a log that is being served. What is left is read, what is gone is an error that says so.
#[tokio::test]
async fn a_log_that_is_cut_under_a_reader_is_an_error_and_not_a_panic() {
    // Records of 30 bytes, two a segment.
    let bench = Bench::new(Settings { segment_bytes: 60, index_interval: 1, ..Settings::default() });
    let (_broker, partition) = bench.one_partition().await;
    for value in ["a", "b", "c"] {
        append(&partition, &[value]).await;
    }
    let last = "00000000000000000002.log";
    for (log, first, records) in [(LOG_0, 0, 2), (last, 2, 1)] {
        for left in (0..30 * records).rev() {
            fs::File::options().write(true).open(bench.path(log)).unwrap().set_len(left).unwrap();
            for n in 0..records {
                let offset = Offset::new(first + n);
                match partition.read(offset, 1) {
                    Ok(fetched) => assert!((n + 1) * 30 <= left && fetched.next == offset.next()),
                    Err(e) => assert!((n + 1) * 30 > left && e.code() == Code::Corrupt, "{left}: {e}"),
                }
            }
            let found = partition.first_at_or_after(Timestamp::from_millis(0));
            assert_eq!(found.is_ok(), first == 0 && left >= 30, "{left}: {found:?}");
        }
    }
}

/// Of six records of 30 bytes, retention takes half at its next look.
/// Retention did not take it, so a later record is not the first.
#[tokio::test]
async fn a_lookup_by_time_does_not_pass_over_a_log_that_is_gone() {
    let bench = Bench::small();
    let (_broker, partition) = bench.one_partition().await;
    for value in ["a", "b", "c"] {
        append(&partition, &[value, &"x".repeat(200)]).await;
    }
    fs::remove_file(bench.path(LOG_0)).unwrap();
    let error = partition.first_at_or_after(Timestamp::ZERO).unwrap_err();
    assert_eq!(error.code(), Code::StorageFailed, "{error}");
    assert_eq!(partition.read(Offset::ZERO, 100).unwrap_err().code(), Code::StorageFailed);
}

fn kept_shortly() -> Settings {
    Settings {
        segment_bytes: 60,
        retention_bytes: Some(100),
        retention_check: Duration::from_millis(5),
        ..Settings::default()
    }
}

#[tokio::test]
async fn what_retention_is_removing_is_out_of_range_and_no_failure() {
    let bench = Bench::new(kept_shortly());
    let held = Held::default();
    let (broker, _) = bench.open_with(Arc::new(held.clone()));
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    for value in ["a", "b", "c", "d", "e", "f"] {
        append(&partition, &[value]).await;
    }
    held.holds.store(true, Ordering::Relaxed);
    let housekeeping = tokio::spawn(broker.clone().housekeeping());
    while bench.path(LOG_0).exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(broker.stats().segments_deleted.get(), 0, "it is not done");
    assert_eq!(partition.range().unwrap().start, Offset::new(2));
    match partition.read(Offset::ZERO, 100) {
        Err(Error::OffsetOutOfRange { start, .. }) => assert_eq!(start, Offset::new(2)),
        other => panic!("{other:?}"),
    }
    held.holds.store(false, Ordering::Relaxed);
    held.go_on.notify_one();
    while broker.stats().segments_deleted.get() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    housekeeping.abort();
}

#[tokio::test]
async fn a_topic_is_made_and_deleted_whole_though_nobody_waits_for_it() {
    let bench = Bench::small();
    let held = Held::default();
    let (broker, _) = bench.open_with(Arc::new(held.clone()));
    held.holds.store(true, Ordering::Relaxed);
    let dir = bench.dir.path().join("t");
    // Given up when it is on the disk, and not in memory yet.
    let given_up = |done: bool| {
        let dir = dir.clone();
        async move {
            while dir.exists() != done {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    tokio::select! {
        _ = broker.create_topic("t", TopicSettings::with_partitions(1)) => panic!("it is held"),
        () = given_up(true) => {}
    }
    held.go_on.notify_one();
    let partition = loop {
        match broker.topic("t") {
            Ok(topic) => break topic.partition(0).unwrap().clone(),
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    tokio::select! {
        _ = broker.delete_topic("t") => panic!("it is held"),
        () = given_up(false) => {}
    }
    held.holds.store(false, Ordering::Relaxed);
    held.go_on.notify_one();
    while broker.topic("t").is_ok() || partition.fenced().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
}

#[tokio::test]
async fn a_short_answer_does_not_keep_the_memory_of_a_long_one() {
    let bench = Bench::new(Settings::default());
    let (_broker, partition) = bench.one_partition().await;
    append(&partition, &["short"]).await;
    append(&partition, &[&"long".repeat(1 << 18)]).await;
    let fetched = partition.read(Offset::ZERO, 1 << 19).unwrap();
    assert_eq!(fetched.next, Offset::new(1));
    let memory = fetched.bytes.try_into_mut().expect("nobody else has it").capacity();
    assert!(memory < 1000, "{memory} bytes");
}

#[tokio::test]
async fn retention_deletes_from_the_front_and_offsets_go_on() {
    let settings = Settings {
        segment_bytes: 60,
        retention_age: Some(Duration::from_millis(1000)),
        retention_check: Duration::from_millis(5),
        ..Settings::default()
    };
    let bench = Bench::new(settings);
    let (broker, partition) = bench.one_partition().await;
    let housekeeping = tokio::spawn(broker.clone().housekeeping());
    for i in 0..10 {
        bench.clock.set(5000);
        append(&partition, &[&i.to_string()]).await;
    }
    assert_eq!(partition.range().unwrap().start, Offset::ZERO);
    bench.clock.set(6500);
    // The log start offset has risen before that: where a removal begins.
    while broker.stats().segments_deleted.get() < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(partition.range().unwrap().start, Offset::new(10));
    assert_eq!(
        append(&partition, &["next"]).await,
        Offset::new(10),
        "all data is gone; offsets are not reused"
    );
    let too_early = partition.read(Offset::new(3), 100).unwrap_err();
    assert_eq!(too_early.code(), Code::OffsetOutOfRange);
    housekeeping.abort();
    assert!(housekeeping.await.unwrap_err().is_cancelled());
    drop((broker, partition));
    let (_broker, partition) = bench.one_partition().await;
    assert_eq!(partition.range().unwrap().end, Offset::new(11));
    assert_eq!(read_all(&partition), ["next"]);
}

#[tokio::test]
async fn a_deleted_topic_is_gone_and_a_new_one_of_its_name_is_empty() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    broker.delete_topic("t").await.unwrap();
    assert_eq!(broker.topic("t").unwrap_err().code(), Code::UnknownTopic);
    assert_eq!(
        fs::read_dir(bench.dir.path()).unwrap().filter(|e| e.as_ref().unwrap().path().is_dir()).count(),
        0
    );
    let mut batch = Batch::new();
    batch.push(None, b"late");
    let late = partition.append(&mut batch).await.unwrap_err();
    assert_eq!(late.code(), Code::UnknownTopic, "not that the partition is broken: {late}");
    let (partition, again) = {
        broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
        let topic = broker.topic("t").unwrap();
        (topic.partition(1).unwrap().clone(), topic.partition(0).unwrap().clone())
    };
    assert_eq!(append(&partition, &["b"]).await, Offset::ZERO);
    assert_eq!(again.range().unwrap().end, Offset::ZERO);
}

/// A disk that is mounted elsewhere, and linked to, holds more than one topic.
#[tokio::test]
async fn a_deletion_does_not_follow_links_out_of_the_topic() {
    let (bench, elsewhere) = (Bench::small(), tempfile::tempdir().unwrap());
    let away = elsewhere.path();
    fs::create_dir(away.join("photos")).unwrap();
    fs::write(away.join("photos/1.jpg"), b"a").unwrap();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    let topic = bench.dir.path().join("t");
    for (link, to) in [("x", "photos"), ("0/y", "photos"), ("0/z", "photos/1.jpg"), ("w", "nowhere")] {
        std::os::unix::fs::symlink(away.join(to), topic.join(link)).unwrap();
    }
    broker.delete_topic("t").await.unwrap();
    assert_eq!(fs::read(away.join("photos/1.jpg")).unwrap(), b"a");
    let left = || fs::read_dir(bench.dir.path()).unwrap().map(|e| e.unwrap().file_name());
    assert!(!left().any(|name| name.to_string_lossy().starts_with("t")), "{:?}", left().collect::<Vec<_>>());
    drop((broker, partition));

    // The topic itself lies there, and its partition elsewhere again.
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["b"]).await;
    drop((broker, partition));
    fs::rename(&topic, away.join("t")).unwrap();
    fs::rename(away.join("t/0"), away.join("t-0")).unwrap();
    std::os::unix::fs::symlink(away.join("t"), &topic).unwrap();
    std::os::unix::fs::symlink(away.join("t-0"), away.join("t/0")).unwrap();
    let (broker, partition) = bench.one_partition().await;
    assert_eq!(read_all(&partition), ["b"]);
    broker.delete_topic("t").await.unwrap();
    assert!(!left().any(|name| name.to_string_lossy().starts_with("t")), "{:?}", left().collect::<Vec<_>>());
    assert!(away.join("t/topic").exists() && away.join("t-0").join(LOG_0).exists());
    drop((broker, partition));
    let (_broker, partition) = bench.one_partition().await;
    assert_eq!(append(&partition, &["c"]).await, Offset::ZERO);
}

/// A reader that still holds a partition reads nothing of the topic that has its name now.
#[tokio::test]
async fn what_was_deleted_reads_as_deleted_and_never_as_what_came_after_it() {
    let bench = Bench::small();
    let held = Held::default();
    let (broker, _) = bench.open_with(Arc::new(held.clone()));
    let make = || broker.create_topic("t", TopicSettings::with_partitions(1));
    make().await.unwrap();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    for n in 0..20 {
        append(&partition, &[&n.to_string()]).await;
    }
    let is_gone = || {
        let read = partition.read(Offset::ZERO, 100).map(|_| ());
        let looked = partition.first_at_or_after(Timestamp::from_millis(0)).map(|_| ());
        [read, looked].iter().all(|outcome| matches!(outcome, Err(Error::Deleted { .. })))
    };
    // Its directory has lost its name; whether that is durable, nobody knows yet.
    held.holds.store(true, Ordering::Relaxed);
    let deleting = tokio::spawn({
        let broker = broker.clone();
        async move { broker.delete_topic("t").await }
    });
    while bench.path(LOG_0).exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(is_gone(), "while it is deleted");
    held.holds.store(false, Ordering::Relaxed);
    held.go_on.notify_one();
    deleting.await.unwrap().unwrap();
    make().await.unwrap();
    let anew = broker.topic("t").unwrap().partition(0).unwrap().clone();
    for _ in 0..20 {
        append(&anew, &["anew"]).await;
    }
    assert!(is_gone(), "once there is another of its name");
    assert!(matches!(partition.range(), Err(Error::Deleted { .. })));
}

/// Topics that come and go would use up all files that a process may have, where each were kept until its next sync.
#[tokio::test]
async fn a_topic_that_is_deleted_keeps_no_file_open_however_long_the_interval() {
    let hour = Durability::Interval(Duration::from_secs(3600));
    let bench = Bench::new(Settings { durability: hour, ..Settings::default() });
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    broker.delete_topic("t").await.unwrap();
    drop(partition);
    let open = || {
        let links =
            fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        links.filter(|path| path.starts_with(bench.dir.path()) && path != bench.dir.path()).count()
    };
    let closed = async {
        while open() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("its files are closed");
}

/// A clean stop has synced everything and let go of the directory: what comes later is another broker's.
#[tokio::test]
async fn nothing_is_written_behind_a_clean_stop() {
    let interval = Durability::Interval(Duration::from_millis(20));
    let bench = Bench::new(Settings { durability: interval, ..Settings::default() });
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    let _ = broker.close().await;
    let _ = fs::remove_file(bench.path("synced"));
    let before = bench.files();
    tokio::time::sleep(Duration::from_millis(100)).await;
    partition.idle().await;
    assert_eq!(bench.files(), before);
}

#[tokio::test]
async fn what_meets_damage_says_where_it_ends() {
    let bench = Bench::new(Settings::default());
    let (_broker, partition) = bench.one_partition().await;
    for n in 0..6 {
        bench.clock.set(n);
        append(&partition, &["v"]).await;
    }
    // Records of 30 bytes: those at 2 and 3 are no longer what they were.
    let mut log = fs::read(bench.path(LOG_0)).unwrap();
    log[75..110].fill(0xff);
    fs::write(bench.path(LOG_0), log).unwrap();
    match partition.first_at_or_after(Timestamp::from_millis(5)) {
        Err(Error::Corrupt { position, offset, next, .. }) => {
            assert_eq!((position.get(), offset.get(), next.get()), (60, 2, 4));
        }
        other => panic!("{other:?}"),
    }
    // Nor can a read go on at the offset behind the one where the damage begins.
    match partition.read(Offset::new(3), 100) {
        Err(Error::Corrupt { position, offset, next, .. }) => {
            assert_eq!((position.get(), offset.get(), next.get()), (60, 3, 4));
        }
        other => panic!("{other:?}"),
    }
}

/// Whoever waits for a record that will not come need not wait out its time.
#[tokio::test]
async fn who_waits_at_the_end_is_told_when_the_topic_or_the_broker_goes() {
    for deleted in [true, false] {
        let bench = Bench::small();
        let (broker, partition) = bench.one_partition().await;
        append(&partition, &["a"]).await;
        let waiting = partition.clone();
        let waits = tokio::spawn(async move { waiting.readable(Offset::new(1)).await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        if deleted {
            broker.delete_topic("t").await.unwrap();
        } else {
            broker.close().await.unwrap();
        }
        tokio::time::timeout(common::LONG, waits).await.expect("it is woken").unwrap();
    }
}

#[tokio::test]
async fn a_broker_that_was_closed_stores_nothing_more() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    broker.close().await.unwrap();
    let files = bench.files();
    let mut batch = Batch::new();
    batch.push(None, b"late");
    assert_eq!(partition.append(&mut batch).await.unwrap_err().code(), Code::ShuttingDown);
    for refused in
        [broker.create_topic("u", TopicSettings::with_partitions(1)).await, broker.delete_topic("t").await]
    {
        assert_eq!(refused.unwrap_err().code(), Code::ShuttingDown);
    }
    assert_eq!(bench.files(), files);
}

#[tokio::test]
async fn under_os_bytes_do_not_wait_for_a_roll_to_be_synced() {
    for (limit, expected) in [(300, [0, 0, 1, 1]), (258, [0, 1, 1, 2])] {
        let bench = Bench::new(Settings { max_unsynced_bytes: limit, ..Settings::default() });
        let (broker, partition) = bench.one_partition().await;
        let mut syncs = Vec::new();
        for _ in 0..4 {
            append(&partition, &[&"x".repeat(100)]).await;
            partition.idle().await;
            syncs.push(broker.stats().syncs.get());
        }
        assert_eq!(syncs, expected, "129 bytes a record, and a limit of {limit}");
    }
}

#[tokio::test]
async fn what_a_log_has_done_is_counted() {
    let bench = Bench::new(kept_shortly());
    let (broker, partition) = bench.one_partition().await;
    for value in ["a", "b", "c", "d", "e", "f"] {
        append(&partition, &[value]).await;
    }
    let stats = broker.stats();
    assert_eq!((stats.records_appended.get(), stats.bytes_appended.get()), (6, 180));
    assert_eq!(stats.rolls.get(), 2, "two records fill a segment");
    partition.read(Offset::ZERO, 60).unwrap();
    assert_eq!(stats.bytes_read.get(), 60);
    let mut bytes = fs::read(bench.path(LOG_0)).unwrap();
    bytes[29] ^= 1;
    fs::write(bench.path(LOG_0), bytes).unwrap();
    assert_eq!(partition.read(Offset::ZERO, 60).unwrap_err().code(), Code::Corrupt);
    assert_eq!((stats.damage_read.get(), stats.bytes_read.get()), (1, 60));
    let housekeeping = tokio::spawn(broker.clone().housekeeping());
    while stats.segments_deleted.get() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    housekeeping.abort();
    assert!(housekeeping.await.unwrap_err().is_cancelled());
    assert_eq!(partition.range().unwrap().start, Offset::new(4));
}

#[tokio::test]
async fn under_always_many_appends_share_a_sync_and_nothing_is_read_before_it() {
    let bench = Bench::new(Settings { durability: Durability::Always, ..Settings::default() });
    let (broker, partition) = bench.one_partition().await;
    let mut tasks = Vec::new();
    for i in 0..200 {
        let partition = partition.clone();
        tasks.push(tokio::spawn(async move { append(&partition, &[&i.to_string()]).await }));
    }
    for task in tasks {
        let offset = task.await.unwrap();
        assert!(partition.range().unwrap().end > offset);
    }
    assert_eq!(partition.range().unwrap().end, Offset::new(200));
    let syncs = broker.stats().syncs.get();
    assert!(syncs < 100, "{syncs} syncs for 200 appends");
}

/// What a client may do to one partition.
#[derive(Clone, Debug)]
enum Step {
    Append(Vec<usize>),
    Clock(u64),
    Reopen { clean: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec(0..80_usize, 1..6).prop_map(Step::Append),
        3 => (0..1000_u64).prop_map(Step::Clock),
        1 => any::<bool>().prop_map(|clean| Step::Reopen { clean }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_partition_is_the_list_of_what_was_appended(
        steps in prop::collection::vec(step(), 1..40),
        segment_bytes in 1..400_u64,
        interval in 1..5_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bench = Bench::new(Settings { segment_bytes, index_interval: interval, ..Settings::default() });
            let (mut broker, mut partition) = bench.one_partition().await;
            let (mut values, mut times) = (Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Append(sizes) => {
                        let new: Vec<String> = sizes.iter().map(|n| "x".repeat(*n)).collect();
                        let base = append(&partition, &new.iter().map(String::as_str).collect::<Vec<_>>()).await;
                        assert_eq!(base.get(), values.len() as u64);
                        times.extend(new.iter().map(|_| bench.clock.now().get()));
                        values.extend(new);
                    }
                    Step::Clock(ms) => bench.clock.set(ms),
                    Step::Reopen { clean } => {
                        if clean {
                            broker.close().await.unwrap();
                        }
                        drop((broker, partition));
                        (broker, partition) = bench.one_partition().await;
                    }
                }
            }
            for from in 0..=values.len() {
                assert_eq!(read_from(&partition, Offset::new(from as u64)).unwrap(), values[from..]);
            }
            for at in [0, 1, 250, 500, 999, 1000, u64::MAX].into_iter().chain(times.clone()) {
                let right = times.iter().position(|t| *t >= at).map(|i| i as u64);
                let found = partition.first_at_or_after(Timestamp::from_millis(at)).unwrap();
                assert_eq!(found.map(|(offset, _)| offset.get()), right, "first at or after {at} in {times:?}");
            }
            assert_indexes_are_derived(&bench, interval);
        });
    }
}
