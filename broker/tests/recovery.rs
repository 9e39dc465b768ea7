//! Opening a log on a real disk: what was damaged, cut, lost or foreign between two runs, and what a start makes of it.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::Broker;
use broker::batch::Batch;
use broker::broker::World;
use broker::disk::OsDisk;
use broker::error::{Code, Error};
use broker::index;
use broker::settings::{Settings, TopicSettings};
use broker::units::{Offset, Timestamp};
use broker::work::Threads;

use common::bench::*;

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

/// Were it not there to this start, the next clean stop would be believed to be the one that it speaks of.
#[tokio::test]
async fn a_mark_of_a_stop_that_is_too_long_is_one_that_cannot_be_read_and_is_taken_back() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b"]).await;
    broker.close().await.unwrap();
    drop((broker, partition));
    let clean = bench.dir.path().join("clean");
    fs::OpenOptions::new().write(true).open(&clean).unwrap().set_len((128 << 20) + 1).unwrap();

    let (broker, report) = bench.open();
    assert!(!report.clean);
    assert_eq!(report.partitions[0].scanned, 2);
    assert!(!clean.exists());
    broker.create_topic("another", TopicSettings::with_partitions(1)).await.unwrap();
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

/// Or the note would grow with each topic that was ever there. One whose directory is there is not forgotten, whatever it
/// looks like: of a topic that could not be looked into, the stop may be all that is known.
#[tokio::test]
async fn what_clean_stops_recorded_of_topics_that_are_gone_is_not_kept_for_ever() {
    let bench = Bench::small();
    for name in ["deleted", "unreadable", "t"] {
        let (broker, _) = bench.open();
        broker.create_topic(name, TopicSettings::with_partitions(1)).await.unwrap();
        broker.close().await.unwrap();
    }
    let (broker, _) = bench.open();
    broker.delete_topic("deleted").await.unwrap();
    broker.close().await.unwrap();
    drop(broker);
    fs::remove_dir_all(bench.dir.path().join("unreadable")).unwrap();
    fs::create_dir(bench.dir.path().join("unreadable")).unwrap();
    drop(bench.open());
    let kept = fs::read_to_string(bench.dir.path().join("was-clean")).unwrap();
    let kept: Vec<_> = kept.lines().filter_map(|line| line.strip_prefix("partition ")).collect();
    assert_eq!(kept, ["t/0 3", "unreadable/0 3"]);
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

/// Whoever has to raise a limit first finds everything as it was.
#[tokio::test]
async fn a_directory_with_too_many_partitions_is_left_as_it_is() {
    let mut bench = Bench::small();
    let (broker, _) = bench.open();
    broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
    drop(broker);
    let half_deleted = bench.dir.path().join("u~gone");
    fs::create_dir(&half_deleted).unwrap();
    bench.settings.max_partitions = 1;
    let world = World { disk: OsDisk, clock: bench.clock.clone() as _, work: Arc::new(Threads) };
    let refused = Broker::open(world, bench.dir.path(), bench.settings.clone(), &|_, _, _| {});
    assert!(refused.unwrap_err().to_string().contains("2 partitions"));
    assert!(half_deleted.exists());
    bench.settings.max_partitions = 2;
    bench.open();
    assert!(!half_deleted.exists(), "a start that is possible tidies up");
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
    // With an entry in it, it would show that its log is lost.
    fs::write(bench.path("00000000000000000077.index"), "").unwrap();
    fs::write(bench.path("00000000000000000077.log.damaged"), "").unwrap();
    let (broker, report) = bench.open();
    assert_eq!(report.notes, [".DS_Store and lost+found are not ours: left alone"]);
    let notes = &report.partitions[0].notes;
    let foreign = "0.log, 00000000000000000000.log.swp, 00000000000000000009.log and notes.txt are not ours: left alone";
    assert!(notes.len() == 4 && notes.iter().any(|note| note == foreign), "{notes:?}");
    assert_eq!(read_all(broker.topic("t").unwrap().partition(0).unwrap()), ["a"]);
    for kept in ["0.log", "00000000000000000000.log.swp", "notes.txt", "00000000000000000009.log"] {
        assert!(bench.path(kept).exists(), "{kept}");
    }
    for removed in
        ["00000000000000000000.index.tmp", "00000000000000000077.index", "00000000000000000077.log.damaged"]
    {
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
    let refused = topic.partition(0).unwrap().append(&mut batch).await.unwrap_err();
    assert_eq!(refused.code(), Code::Fenced);
    assert!(
        refused.to_string().ends_with("; fix that and restart the broker"),
        "a restart alone helps nothing"
    );
    assert_eq!(append(topic.partition(1).unwrap(), &["y"]).await, Offset::new(1));
    assert_eq!(fs::metadata(bench.path(LOG_0)).unwrap().len(), 90);
}

#[tokio::test]
async fn a_topic_in_the_place_of_one_that_was_removed_by_hand_is_a_new_one() {
    let bench = Bench::new(Settings::default());
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b", "c", "d", "e"]).await;
    broker.close().await.unwrap();
    drop((broker, partition));
    fs::remove_dir_all(bench.dir.path().join("t")).unwrap();
    // What the clean stop recorded of it lives on.
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["new"]).await;
    drop((broker, partition));

    let (broker, report) = bench.open();
    assert_eq!(report.partitions[0].damage, []);
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    assert_eq!(read_all(&partition), ["new"]);
    assert_eq!(append(&partition, &["next"]).await, Offset::new(1));
}

/// Whether it was moved away, forgotten at a mount, or removed: no client is told "there is no such topic" before a person is.
#[tokio::test]
async fn a_topic_that_was_taken_away_behind_a_clean_stop_is_missed() {
    let bench = Bench::small();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b", "c"]).await;
    broker.close().await.unwrap();
    drop((broker, partition));
    let away = tempfile::tempdir().unwrap();
    fs::rename(bench.dir.path().join("t"), away.path().join("t")).unwrap();

    let (broker, report) = bench.open();
    let held: Vec<_> =
        report.missed.gone.iter().map(|(topic, held)| (&topic[..], held.partitions, held.records)).collect();
    assert_eq!(held, [("t", 1, 3)]);
    assert!(!bench.dir.path().join("running").exists(), "this run is not the one that wrote it");
    broker.close().await.unwrap();
    drop(broker);
    assert!(bench.open().1.missed.gone.is_empty(), "it is missed once");

    std::os::unix::fs::symlink(away.path().join("t"), bench.dir.path().join("t")).unwrap();
    let (_broker, partition) = bench.one_partition().await;
    assert_eq!(read_all(&partition), ["a", "b", "c"], "a link to where it lies is as good");
}

/// Settings that were brought back from elsewhere, whole and wrong, hide records; nobody is told so by what is still there.
#[tokio::test]
async fn partitions_that_the_settings_do_not_count_any_more_are_missed() {
    let bench = Bench::small();
    let (broker, _) = bench.open();
    broker.create_topic("t", TopicSettings::with_partitions(3)).await.unwrap();
    append(broker.topic("t").unwrap().partition(2).unwrap(), &["a", "b"]).await;
    broker.close().await.unwrap();
    drop(broker);
    fs::write(bench.dir.path().join("t/topic"), broker::files::checked_text("partitions 1\n")).unwrap();
    let (_broker, report) = bench.open();
    assert_eq!(report.missed.uncounted, [("t/1".into(), 0), ("t/2".into(), 2)].into());
    assert!(!report.is_complete());
}

/// Served under both, each would write over what the other has acknowledged.
#[tokio::test]
async fn one_directory_under_two_names_is_served_under_one() {
    let (bench, elsewhere) = (Bench::small(), tempfile::tempdir().unwrap());
    let data = bench.dir.path();
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a"]).await;
    for name in ["p", "x"] {
        broker.create_topic(name, TopicSettings::with_partitions(3)).await.unwrap();
    }
    broker.close().await.unwrap();
    drop((broker, partition));
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, data.join(name)).unwrap();
    // By name before it, and behind it.
    link(Path::new("t"), "s");
    link(Path::new("t"), "u");
    // Neither is the directory itself.
    fs::rename(data.join("x"), elsewhere.path().join("x")).unwrap();
    link(&elsewhere.path().join("x"), "x");
    link(&elsewhere.path().join("x"), "y");
    for partition in ["p/0", "p/2", "x/1"] {
        fs::remove_dir_all(data.join(partition)).unwrap();
    }
    link(Path::new("1"), "p/0");
    link(&data.join("t/0"), "p/2");
    link(&data.join("p/1"), "x/1");

    let (broker, report) = bench.open();
    let unserved: Vec<_> = report.unserved.iter().map(|(name, why)| (&name[..], &why[..])).collect();
    let why = |other| format!("it leads to the directory of {other}, which is served under that name only");
    assert_eq!(unserved, [("s", &why("t")[..]), ("u", &why("t")), ("y", &why("x"))]);
    let unopened: Vec<_> = report
        .partitions
        .iter()
        .filter_map(|p| Some((format!("{}/{}", p.topic, p.partition), p.fenced.clone()?)))
        .collect();
    let twins = [("p/0", "p/1"), ("p/2", "t/0"), ("x/1", "p/1")];
    let cannot = |(name, other): (&str, _)| (name.to_owned(), format!("it cannot be opened: {}", why(other)));
    assert_eq!(unopened, twins.map(cannot));
    assert_eq!(broker.topic("u").unwrap_err().code(), Code::StorageFailed);
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    assert_eq!(append(&partition, &["b"]).await, Offset::new(1));
    assert_eq!(read_all(&partition), ["a", "b"]);
    broker.close().await.unwrap();
    drop((broker, partition));

    let faults = common::process::verdict(data).faults;
    let found: Vec<_> = faults.iter().map(|f| (f.file.display().to_string(), f.what.clone())).collect();
    let expected = [("p/0", "p/1"), ("p/2", "t/0"), ("s", "t"), ("u", "t"), ("x/1", "p/1"), ("y", "x")];
    assert_eq!(found, expected.map(|(name, other)| (name.to_owned(), why(other))));
}

/// A directory can have any name.
#[tokio::test]
async fn leftovers_of_topics_are_removed_and_nothing_that_only_ends_like_them() {
    let bench = Bench::small();
    drop(bench.one_partition().await);
    for name in ["t~gone", "u~new", "not a topic~new", "~gone"] {
        fs::create_dir_all(bench.dir.path().join(name).join("0")).unwrap();
    }
    drop(bench.open());
    let entries = fs::read_dir(bench.dir.path()).unwrap().map(|e| e.unwrap());
    let dirs = entries.filter(|e| e.path().is_dir()).map(|e| e.file_name().into_string().unwrap());
    assert_eq!(dirs.collect::<BTreeSet<_>>(), ["t", "not a topic~new", "~gone"].map(String::from).into());
}

/// A name that is not UTF-8 cannot be asked for. Nothing is called removed that is still there.
#[tokio::test]
async fn a_leftover_with_a_name_that_cannot_be_read_is_not_called_removed() {
    let bench = Bench::small();
    let gone = bench.dir.path().join("t~gone");
    fs::create_dir_all(gone.join("0")).unwrap();
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"a\xff");
    for path in [gone.join(name), gone.join("0").join(LOG_0), gone.join("b")] {
        fs::write(path, b"").unwrap();
    }
    let (_broker, report) = bench.open();
    assert!(
        report.notes.iter().any(|n| n.starts_with("t~gone: half made or half deleted: could not be removed")),
        "{report:?}"
    );
    let left = fs::read_dir(&gone).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [name], "all else is gone");
}

/// Thousands of partitions that are closed one after another would take longer than whoever stops a server waits.
#[tokio::test]
async fn a_clean_stop_closes_partitions_side_by_side() {
    const PARTITIONS: u32 = 8;
    let bench = Bench::small();
    let held = Held::default();
    let (broker, _) = bench.open_with(Arc::new(held.clone()));
    broker.create_topic("t", TopicSettings::with_partitions(PARTITIONS)).await.unwrap();
    for partition in broker.topic("t").unwrap().partitions() {
        append(partition, &["a"]).await;
    }
    let before = held.jobs.load(Ordering::Relaxed);
    held.holds.store(true, Ordering::Relaxed);
    let closing = tokio::spawn(async move { broker.close().await });
    let all_at_once = async {
        while held.jobs.load(Ordering::Relaxed) < before + PARTITIONS as usize {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_at_once).await.expect("one waits for another");
    held.holds.store(false, Ordering::Relaxed);
    held.go_on.notify_waiters();
    closing.await.unwrap().unwrap();
    assert!(bench.open().1.clean);
}
