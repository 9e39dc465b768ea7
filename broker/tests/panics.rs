//! Background work that panics: whoever waits for it is told, and a stop ends.
#![allow(clippy::disallowed_methods)] // threads of its own

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker::error::Code;
use broker::settings::{Durability, Settings, TopicSettings};
use broker::units::Offset;
use broker::work::Threads;

use common::LONG;
use common::failing::Failing;
use common::late::{append, closes, make, open, small, until};

#[tokio::test]
async fn who_waits_for_a_sync_that_panics_is_told() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let settings = Settings { durability: Durability::Always, ..Settings::default() };
    let broker = open(dir.path(), disk.clone(), settings, Arc::new(Threads));
    let partition = make(&broker).await;
    disk.0.panics.store(true, Ordering::SeqCst);
    let end = append(&partition, "0").await.unwrap().end;
    let committed = tokio::time::timeout(LONG, partition.committed(end)).await.expect("it is told");
    assert_eq!(committed.unwrap_err().code(), Code::OutcomeUnknown);
    assert_eq!(append(&partition, "1").await.unwrap_err().code(), Code::Fenced);
    disk.0.panics.store(false, Ordering::SeqCst);
    closes(&broker).await;
    // Nobody knows how far that sync has come: another one is not believed.
    assert_eq!(partition.committed(end).await.unwrap_err().code(), Code::OutcomeUnknown);
}

#[tokio::test]
async fn who_waits_for_a_roll_that_panics_is_told() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let broker = open(dir.path(), disk.clone(), small(), Arc::new(Threads));
    let partition = make(&broker).await;
    for n in 0..3 {
        append(&partition, &n.to_string()).await.unwrap();
    }
    disk.0.panics.store(true, Ordering::SeqCst);
    let appended = tokio::time::timeout(LONG, append(&partition, "3")).await.expect("it is told");
    assert_eq!(appended.unwrap_err().code(), Code::Fenced);
    assert_eq!(partition.read(Offset::ZERO, 1000).unwrap().next, Offset::new(3), "what there is can be read");
    disk.0.panics.store(false, Ordering::SeqCst);
    closes(&broker).await;
}

#[tokio::test]
async fn a_removal_that_panics_ends_neither_a_stop_nor_the_removals_of_others() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let settings = Settings { retention_bytes: Some(100), ..small() };
    let broker = open(dir.path(), disk.clone(), settings, Arc::new(Threads));
    broker.create_topic("t", TopicSettings::with_partitions(2)).await.unwrap();
    let topic = broker.topic("t").unwrap();
    let [bad, good] = topic.partitions() else { panic!("two") };
    for n in 0..12 {
        append(bad, &n.to_string()).await.unwrap();
    }
    bad.idle().await;
    disk.0.panics.store(true, Ordering::SeqCst);
    tokio::spawn(broker.clone().housekeeping());
    until("it is fenced", || bad.fenced().is_some()).await;
    disk.0.panics.store(false, Ordering::SeqCst);
    for n in 0..12 {
        append(good, &n.to_string()).await.unwrap();
    }
    until("the oldest segments are removed", || good.bytes() <= 100).await;
    closes(&broker).await;
}
