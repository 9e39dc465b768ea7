//! The log on a real disk, in a directory of its own: what is appended is read back, whatever happens to the files
//! between two runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker::Broker;
use broker::batch::Batch;
use broker::broker::World;
use broker::clock::Clock;
use broker::disk::OsDisk;
use broker::error::{Code, Error};
use broker::index;
use broker::partition::Partition;
use broker::record;
use broker::report::Report;
use broker::scan::Scan;
use broker::settings::{Durability, Settings, TopicSettings};
use broker::units::{Offset, Timestamp};
use broker::work::Threads;
use proptest::prelude::*;

/// A clock that shows what it is told.
#[derive(Debug, Default)]
struct HandClock(AtomicU64);

impl HandClock {
    fn set(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A data directory, and how to open it.
struct Bench {
    dir: tempfile::TempDir,
    clock: Arc<HandClock>,
    settings: Settings,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), clock: Arc::default(), settings }
    }

    fn small() -> Self {
        Self::new(Settings { segment_bytes: 200, index_interval: 3, ..Settings::default() })
    }

    fn open(&self) -> (Broker<OsDisk>, Report) {
        let world = World { disk: OsDisk, clock: self.clock.clone(), work: Arc::new(Threads) };
        Broker::open(world, self.dir.path(), self.settings.clone(), &|_, _, _| {}).unwrap()
    }

    /// Opens it with one topic, `t`, of one partition.
    async fn one_partition(&self) -> (Broker<OsDisk>, Partition<OsDisk>) {
        let (broker, _) = self.open();
        match broker.create_topic("t", TopicSettings::with_partitions(1)).await {
            Ok(()) | Err(Error::TopicExists { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
        (broker, partition)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("t/0").join(name)
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.dir.path().join("t/0")).unwrap().map(|e| e.unwrap());
        entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
    }
}

const LOG_0: &str = "00000000000000000000.log";
const INDEX_0: &str = "00000000000000000000.index";
const TIME_INDEX_0: &str = "00000000000000000000.timeindex";

async fn append(partition: &Partition<OsDisk>, values: &[&str]) -> Offset {
    let mut batch = Batch::new();
    for value in values {
        batch.push(Some(b"k"), value.as_bytes());
    }
    let appended = partition.append(&mut batch).await.unwrap();
    partition.committed(appended.end).await.unwrap();
    appended.base
}

/// Everything from `from` on, in small reads.
fn read_from(partition: &Partition<OsDisk>, from: Offset) -> Result<Vec<String>, Error> {
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

fn read_all(partition: &Partition<OsDisk>) -> Vec<String> {
    read_from(partition, partition.range().unwrap().start).unwrap()
}

/// What appending would have written into the indexes of every segment is what is there.
fn assert_indexes_are_derived(bench: &Bench, interval: u64) {
    for (name, bytes) in bench.files() {
        let Some(base) = name.strip_suffix(".log") else { continue };
        let file = fs::File::open(bench.path(&name)).unwrap();
        let base_offset = Offset::new(base.parse().unwrap());
        let scan = Scan::run(&file, bytes.len() as u64, base_offset, interval);
        let is = |suffix: &str| fs::read(bench.path(&format!("{base}{suffix}"))).unwrap();
        assert_eq!(is(".index"), index::encode_all(&scan.index), "{base}.index");
        assert_eq!(is(".timeindex"), index::encode_all(&scan.time_index), "{base}.timeindex");
    }
}

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
async fn a_torn_tail_cut_at_every_byte_goes_and_what_is_appended_after_it_stays() {
    for cut in 1..39 {
        let bench = Bench::new(Settings { index_interval: 1, ..Settings::default() });
        let (broker, partition) = bench.one_partition().await;
        append(&partition, &["a", "b", "0123456789"]).await;
        drop((broker, partition));
        let log = fs::OpenOptions::new().write(true).open(bench.path(LOG_0)).unwrap();
        log.set_len(60 + cut).unwrap();

        let (broker, report) = bench.open();
        assert_eq!(report.partitions[0].cut, cut);
        let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
        assert_eq!(append(&partition, &["c", "d"]).await, Offset::new(2));
        drop((broker, partition));
        let (_broker, partition) = bench.one_partition().await;
        assert_eq!(read_all(&partition), ["a", "b", "c", "d"], "cut at {cut}");
        assert_indexes_are_derived(&bench, 1);
    }
}

#[tokio::test]
async fn damage_is_named_served_around_and_never_cut() {
    let bench = Bench::new(Settings { index_interval: 2, ..Settings::default() });
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b", "c", "d", "e"]).await;
    drop((broker, partition));
    let mut bytes = fs::read(bench.path(LOG_0)).unwrap();
    bytes[2 * 30 + 29] ^= 1;
    fs::write(bench.path(LOG_0), &bytes).unwrap();

    for restart in 0..3 {
        let (broker, report) = bench.open();
        let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
        if restart == 0 {
            let damage = &report.partitions[0].damage[0];
            assert_eq!((damage.position.get(), damage.first.get(), damage.next.get()), (60, 2, 3));
        }
        match partition.read(Offset::new(2), 1000) {
            Err(Error::Corrupt { position, offset, next, .. }) => {
                assert_eq!((position.get(), offset.get(), next.get()), (60, 2, 3));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(partition.read(Offset::ZERO, 1000).unwrap().next, Offset::new(2), "up to the damage");
        let mut right = vec!["d".to_owned(), "e".to_owned()];
        right.extend((0..restart).map(|n| format!("new {n}")));
        assert_eq!(read_from(&partition, Offset::new(3)).unwrap(), right);
        let value = format!("new {restart}");
        assert_eq!(append(&partition, &[&value]).await, Offset::new(5 + restart));
        assert_eq!(fs::read(bench.path(LOG_0)).unwrap(), bytes, "the damaged segment is left as it is");
    }
}

#[tokio::test]
async fn a_broken_index_changes_no_answer_and_is_mended_at_the_next_start() {
    type Surgery = (&'static str, fn(&Path));
    let surgeries: [Surgery; 7] = [
        ("deleted", |p| fs::remove_file(p).unwrap()),
        ("emptied", |p| fs::write(p, []).unwrap()),
        ("zero-padded", |p| fs::write(p, [fs::read(p).unwrap(), vec![0; 40]].concat()).unwrap()),
        ("cut within an entry", |p| {
            let bytes = fs::read(p).unwrap();
            fs::write(p, &bytes[..bytes.len() - 7]).unwrap();
        }),
        ("one entry short", |p| {
            let bytes = fs::read(p).unwrap();
            fs::write(p, &bytes[..bytes.len() - index::ENTRY_BYTES]).unwrap();
        }),
        ("a bit flipped", |p| {
            let mut bytes = fs::read(p).unwrap();
            bytes[5] ^= 8;
            fs::write(p, bytes).unwrap();
        }),
        ("well-formed and wrong", |p| {
            let wrong = [index::Entry { key: 2, value: 31 }];
            fs::write(p, index::encode_all(&wrong)).unwrap();
        }),
    ];
    for clean in [true, false] {
        for name in [INDEX_0, TIME_INDEX_0] {
            for (what, surgery) in &surgeries {
                let bench = Bench::small();
                let (broker, partition) = bench.one_partition().await;
                for i in 0..20 {
                    bench.clock.set(1000 + i * 10);
                    append(&partition, &[&i.to_string()]).await;
                }
                // Broken while it runs: lookups go on giving right answers.
                surgery(&bench.path(name));
                let right: Vec<String> = (0..20).map(|i| i.to_string()).collect();
                for from in 0..20 {
                    let values = read_from(&partition, Offset::new(from)).unwrap();
                    assert_eq!(values, right[usize::try_from(from).unwrap()..], "{name} {what}");
                    let found = partition.first_at_or_after(Timestamp::from_millis(995 + from * 10)).unwrap();
                    assert_eq!(found.unwrap().0, Offset::new(from), "{name} {what}");
                }
                if clean {
                    broker.close().await.unwrap();
                }
                drop((broker, partition));
                if !bench.path(name).exists() || *what != "deleted" {
                    let (_broker, partition) = bench.one_partition().await;
                    assert_eq!(read_all(&partition), right, "{name} {what}");
                }
                if *what != "well-formed and wrong" {
                    assert_indexes_are_derived(&bench, 3);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_clean_restart_trusts_and_an_unclean_one_scans_and_both_change_nothing() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b", "c", "d"]).await;
    append(&partition, &["e", "f", "g", "h"]).await;
    let files = bench.files();
    drop((broker, partition));
    for i in 0..40 {
        let (broker, report) = bench.open();
        let clean = i > 0 && i % 2 == 0;
        assert_eq!(report.clean, clean, "start {i}");
        assert_eq!(report.partitions[0].scanned == 0, clean, "start {i}");
        assert_eq!(report.partitions[0].notes, [""; 0]);
        if i % 2 == 1 {
            broker.close().await.unwrap();
        }
        drop(broker);
        assert_eq!(bench.files(), files, "start {i}");
    }
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

#[tokio::test]
async fn what_a_clean_stop_recorded_and_is_gone_is_damage_and_its_offsets_are_not_used_again() {
    for cut in [0, 31, 45, 93, 119] {
        let bench = Bench::new(Settings::default());
        let (broker, partition) = bench.one_partition().await;
        append(&partition, &["a", "b", "c", "d"]).await;
        broker.close().await.unwrap();
        drop((broker, partition));
        // Also when a run that crashed came in between.
        drop(bench.open());
        fs::OpenOptions::new().write(true).open(bench.path(LOG_0)).unwrap().set_len(cut).unwrap();

        let (broker, report) = bench.open();
        let whole = cut / 30;
        let damage = &report.partitions[0].damage[0];
        assert_eq!((damage.first.get(), damage.next.get()), (whole, 4), "cut to {cut}: {report:?}");
        let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
        let lost = partition.read(Offset::new(3), 100).unwrap_err();
        assert_eq!(lost.code(), Code::Corrupt, "cut to {cut}: {lost}");
        assert_eq!(append(&partition, &["e"]).await, Offset::new(4), "cut to {cut}");
        drop((broker, partition));
        let (_broker, partition) = bench.one_partition().await;
        assert_eq!(read_from(&partition, Offset::new(4)).unwrap(), ["e"]);
        assert_eq!(partition.read(Offset::new(3), 100).unwrap_err().code(), Code::Corrupt);
    }
}

#[tokio::test]
async fn what_a_clean_stop_recorded_of_a_deleted_topic_is_forgotten_with_it() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b", "c", "d"]).await;
    broker.close().await.unwrap();
    drop((broker, partition));
    let (broker, _) = bench.open();
    broker.delete_topic("t").await.unwrap();
    drop(broker);
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["x"]).await;
    drop((broker, partition));
    let (_broker, partition) = bench.one_partition().await;
    assert_eq!(
        (partition.range().unwrap().end, read_all(&partition)),
        (Offset::new(1), vec!["x".to_owned()])
    );
}

#[tokio::test]
async fn two_brokers_cannot_have_one_directory_and_the_second_changes_nothing() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    let files = bench.files();
    let world = World { disk: OsDisk, clock: bench.clock.clone() as _, work: Arc::new(Threads) };
    let second = Broker::open(world, bench.dir.path(), bench.settings.clone(), &|_, _, _| {});
    assert!(second.unwrap_err().to_string().contains("another process"));
    assert_eq!(bench.files(), files);
    drop((broker, partition));
    bench.open();
}

#[tokio::test]
async fn foreign_files_are_left_alone_and_named() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    drop((broker, partition));
    fs::create_dir(bench.dir.path().join("lost+found")).unwrap();
    fs::write(bench.dir.path().join(".DS_Store"), "x").unwrap();
    for name in ["0.log", "00000000000000000000.log.swp", "notes.txt"] {
        fs::write(bench.path(name), "x").unwrap();
    }
    fs::create_dir(bench.path("00000000000000000009.log")).unwrap();
    fs::write(bench.path("00000000000000000000.index.tmp"), "x").unwrap();
    fs::write(bench.path("00000000000000000077.index"), "x").unwrap();
    let (broker, report) = bench.open();
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    assert_eq!(report.partitions[0].notes.len(), 6, "{:?}", report.partitions[0].notes);
    assert_eq!(read_all(broker.topic("t").unwrap().partition(0).unwrap()), ["a"]);
    for kept in ["0.log", "00000000000000000000.log.swp", "notes.txt", "00000000000000000009.log"] {
        assert!(bench.path(kept).exists(), "{kept}");
    }
    for removed in ["00000000000000000000.index.tmp", "00000000000000000077.index"] {
        assert!(!bench.path(removed).exists(), "{removed}");
    }
}

#[tokio::test]
async fn a_partition_that_cannot_be_opened_says_so_and_is_not_taken_for_empty() {
    let bench = Bench::small();
    let (broker, _) = bench.open();
    broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
    for partition in broker.topic("t").unwrap().partitions() {
        append(partition, &["a"]).await;
    }
    drop(broker);
    fs::rename(bench.dir.path().join("t/0"), bench.dir.path().join("elsewhere")).unwrap();
    let (broker, report) = bench.open();
    assert!(report.partitions[0].fenced.as_deref().unwrap().contains("cannot be opened"), "{report:?}");
    let topic = broker.topic("t").unwrap();
    let lost = topic.partition(0).unwrap();
    let told = [
        lost.range().unwrap_err(),
        lost.read(Offset::ZERO, 100).unwrap_err(),
        lost.first_at_or_after(Timestamp::from_millis(0)).unwrap_err(),
    ];
    for error in told {
        assert_eq!(error.code(), Code::StorageFailed);
        assert!(error.to_string().starts_with("t/0 cannot be served: it cannot be opened: "), "{error}");
    }
    assert_eq!(read_all(topic.partition(1).unwrap()), ["a"]);
    drop((broker, topic));
    fs::rename(bench.dir.path().join("elsewhere"), bench.dir.path().join("t/0")).unwrap();
    let (broker, _) = bench.open();
    assert_eq!(read_all(broker.topic("t").unwrap().partition(0).unwrap()), ["a"]);
}

#[tokio::test]
async fn offsets_of_logs_that_are_gone_altogether_are_not_used_again() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b", "c"]).await;
    broker.close().await.unwrap();
    drop((broker, partition));
    for name in bench.files().keys() {
        fs::remove_file(bench.path(name)).unwrap();
    }
    let (broker, report) = bench.open();
    let damage = &report.partitions[0].damage;
    assert_eq!((damage[0].first.get(), damage[0].next.get()), (0, 3), "{report:?}");
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    assert_eq!(append(&partition, &["d"]).await, Offset::new(3));
    assert_eq!(read_all(&partition), ["d"]);
}

#[tokio::test]
async fn a_topic_whose_settings_are_lost_keeps_its_records_and_says_what_is_lost() {
    let bench = Bench::small();
    let (broker, _) = bench.open();
    let settings = TopicSettings { retention_bytes: Some(1), ..TopicSettings::with_partitions(2) };
    broker.create_topic("t", settings).await.unwrap();
    append(broker.topic("t").unwrap().partition(1).unwrap(), &["a"]).await;
    drop(broker);
    let file = bench.dir.path().join("t/topic");
    let mut bytes = fs::read(&file).unwrap();
    bytes[0] ^= 1;
    fs::write(&file, bytes).unwrap();
    let (broker, report) = bench.open();
    assert!(report.notes[0].contains("t: the file with what it was made with is missing or damaged: 2 part"));
    let topic = broker.topic("t").unwrap();
    assert_eq!(*topic.settings(), TopicSettings::with_partitions(2));
    assert_eq!(read_all(topic.partition(1).unwrap()), ["a"]);
}

#[tokio::test]
async fn records_out_of_order_fence_one_partition_and_nothing_is_deleted() {
    let bench = Bench::small();
    let (broker, _) = bench.open();
    broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
    let topic = broker.topic("t").unwrap();
    append(topic.partition(0).unwrap(), &["a", "b"]).await;
    append(topic.partition(1).unwrap(), &["x"]).await;
    drop((broker, topic));
    let log = fs::read(bench.path(LOG_0)).unwrap();
    fs::write(bench.path(LOG_0), [&log[..], &log[..30]].concat()).unwrap();
    let (broker, report) = bench.open();
    assert!(
        report.partitions[0].fenced.as_deref().unwrap().contains("offset 0 at byte 60, where 2"),
        "{report:?}"
    );
    let topic = broker.topic("t").unwrap();
    assert_eq!(read_all(topic.partition(0).unwrap()), ["a", "b"]);
    let mut batch = Batch::new();
    batch.push(None, b"c");
    assert_eq!(topic.partition(0).unwrap().append(&mut batch).await.unwrap_err().code(), Code::Fenced);
    assert_eq!(append(topic.partition(1).unwrap(), &["y"]).await, Offset::new(1));
    assert_eq!(fs::metadata(bench.path(LOG_0)).unwrap().len(), 90);
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
    while partition.range().unwrap().start < Offset::new(10) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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
    assert!(partition.append(&mut batch).await.is_err());
    let (partition, again) = {
        broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
        let topic = broker.topic("t").unwrap();
        (topic.partition(1).unwrap().clone(), topic.partition(0).unwrap().clone())
    };
    assert_eq!(append(&partition, &["b"]).await, Offset::ZERO);
    assert_eq!(again.range().unwrap().end, Offset::ZERO);
}

#[tokio::test]
async fn under_os_bytes_do_not_wait_for_a_roll_to_be_synced() {
    let bench = Bench::new(Settings { max_unsynced_bytes: 300, ..Settings::default() });
    let (broker, partition) = bench.one_partition().await;
    let mut syncs = Vec::new();
    for _ in 0..4 {
        append(&partition, &[&"x".repeat(100)]).await;
        partition.idle().await;
        syncs.push(broker.stats().syncs.get());
    }
    assert_eq!(syncs, [0, 0, 1, 1], "129 bytes a record");
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
