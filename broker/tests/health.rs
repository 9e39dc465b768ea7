//! What an operator is told who asks how a broker is.

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::Broker;
use broker::broker::World;
use broker::metrics::health::Health;
use broker::settings::{Settings, TopicSettings};
use broker::units::Offset;
use broker::work::Threads;

use common::bench::*;
use common::failing::Failing;

fn flip(bench: &Bench, log: &str, byte: usize) {
    let mut bytes = fs::read(bench.path(log)).unwrap();
    bytes[byte] ^= 1;
    fs::write(bench.path(log), bytes).unwrap();
}

fn damaged(places: &str) -> Health {
    let lost = vec![format!("t/0 is damaged in {places}: all that is whole is served")];
    Health { lost, ..Health::default() }
}

#[tokio::test]
async fn damage_is_told_as_long_as_what_is_damaged_is_kept() {
    let bench = Bench::new(Settings {
        segment_bytes: 60,
        retention_age: Some(Duration::from_millis(1000)),
        retention_check: Duration::from_millis(5),
        ..Settings::default()
    });
    bench.clock.set(5000);
    let (broker, partition) = bench.one_partition().await;
    for i in 0..6 {
        // The last segment is young enough to stay.
        bench.clock.set(if i < 4 { 5000 } else { 5900 });
        append(&partition, &[&i.to_string()]).await;
    }
    assert_eq!(Health::of(&broker), Health::default());
    drop((broker, partition));

    // A start finds what is in the last segment; what is in one before it, only who reads it.
    flip(&bench, "00000000000000000004.log", 5);
    let (broker, partition) = bench.one_partition().await;
    assert_eq!(Health::of(&broker), damaged("one place"));
    flip(&bench, LOG_0, 5);
    assert_eq!(Health::of(&broker), damaged("one place"));
    for offset in [0, 4, 0] {
        partition.read(Offset::new(offset), 100).unwrap_err();
    }
    assert_eq!(Health::of(&broker), damaged("2 places"));

    let housekeeping = tokio::spawn(broker.clone().housekeeping());
    bench.clock.set(6500);
    while broker.stats().segments_deleted.get() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(Health::of(&broker), damaged("one place"), "and the other is deleted");
    bench.clock.set(7500);
    while broker.stats().segments_deleted.get() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(Health::of(&broker), Health::default(), "and so is what the start has found");
    housekeeping.abort();
}

/// There may be room for the next record.
#[tokio::test]
async fn a_disk_that_was_full_at_the_start_is_told_and_refuses_nothing() {
    let (bench, disk) = (Bench::small(), Failing::default());
    disk.0.full.store(true, Ordering::SeqCst);
    let world = World { disk, clock: bench.clock.clone(), work: Arc::new(Threads) };
    let (broker, _) = Broker::open(world, bench.dir.path(), Settings::default(), &|_, _, _| {}).unwrap();
    let Health { refuses, refused, lost } = Health::of(&broker);
    assert_eq!((refuses.len(), refused.len(), lost.len()), (0, 1, 0));
    assert!(refused[0].contains("could not be noted"), "{refused:?}");
}

#[tokio::test]
async fn what_was_taken_away_is_told_until_another_is_made_in_its_place() {
    let bench = Bench::small();
    let (broker, _) = bench.open();
    for topic in ["t", "u"] {
        broker.create_topic(topic, TopicSettings::with_partitions(3)).await.unwrap();
    }
    broker.close().await.unwrap();
    drop(broker);
    fs::remove_dir_all(bench.dir.path().join("u")).unwrap();
    fs::write(bench.dir.path().join("t/topic"), broker::files::checked_text("partitions 2\n")).unwrap();

    let (broker, _) = bench.open();
    let gone = "u is gone: its directory was taken away after the last clean stop";
    let fewer = "t/2 is gone: it was there at the last clean stop, and its topic has fewer partitions now";
    assert_eq!(Health::of(&broker), Health { lost: vec![gone.into(), fewer.into()], ..Health::default() });
    broker.create_topic("u", TopicSettings::with_partitions(1)).await.unwrap();
    assert_eq!(Health::of(&broker).lost, [fewer]);
    broker.delete_topic("t").await.unwrap();
    assert_eq!(Health::of(&broker), Health::default());
}
