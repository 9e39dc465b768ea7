//! Data directories that share files, as a copy does that was made of hard links (`cp -al`).

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use broker::Broker;
use broker::broker::World;
use broker::settings::{Durability, Settings};
use broker::units::Offset;
use broker::work::Threads;

use common::bench::*;
use common::failing::Failing;

/// As `cp -al` does it.
fn link_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { link_all(&from, &to) } else { fs::hard_link(from, to).unwrap() }
    }
}

/// Each sync is noted.
fn settings() -> Settings {
    Settings { segment_bytes: 200, index_interval: 1, max_unsynced_bytes: 1, ..Settings::default() }
}

/// The files of a partition that have another name, too.
fn shared(bench: &Bench) -> BTreeSet<String> {
    let is_shared = |name: &String| fs::metadata(bench.path(name)).unwrap().nlink() > 1;
    bench.files().into_keys().filter(is_shared).collect()
}

#[tokio::test]
async fn brokers_that_share_files_write_to_none_of_them() {
    let (bench, copy) = (Bench::new(settings()), Bench::new(settings()));
    let (broker, partition) = bench.one_partition().await;
    for i in 0..10 {
        append(&partition, &[&format!("both {i}")]).await;
    }
    partition.idle().await;
    // The one that is copied goes on.
    link_all(bench.dir.path(), copy.dir.path());
    append(&partition, &["before"]).await;
    partition.idle().await;

    let (of_copy, in_copy) = copy.one_partition().await;
    let mut expected: Vec<_> = (0..10).map(|i| format!("both {i}")).collect();
    expected.push("before".into());
    assert_eq!(read_all(&in_copy), expected, "it was written to the file that both had");
    let sealed = BTreeSet::from([LOG_0, INDEX_0, TIME_INDEX_0].map(String::from));
    assert_eq!(shared(&copy), sealed);
    for (partition, who) in [(&partition, "first"), (&in_copy, "second"), (&partition, "first")] {
        append(partition, &[who]).await;
    }
    partition.idle().await;
    in_copy.idle().await;
    drop((broker, partition, of_copy, in_copy));

    for (bench, own) in [(&bench, &["first", "first"][..]), (&copy, &["second"])] {
        let (_broker, partition) = bench.one_partition().await;
        let expected: Vec<_> = expected.iter().map(String::as_str).chain(own.iter().copied()).collect();
        assert_eq!(read_all(&partition), expected);
        assert_eq!(shared(bench), sealed, "that was written to no more");
        assert_indexes_are_derived(bench, 1);
    }
}

#[tokio::test]
async fn where_there_is_no_room_for_a_copy_nothing_is_changed() {
    let (bench, copy) = (Bench::new(settings()), Bench::new(settings()));
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b"]).await;
    partition.idle().await;
    drop((broker, partition));
    // A torn tail, that a start would cut off.
    let whole = bench.files();
    fs::write(bench.path(LOG_0), [&whole[LOG_0][..], b"half a record"].concat()).unwrap();
    let torn = bench.files();
    link_all(bench.dir.path(), copy.dir.path());

    let disk = Failing::default();
    disk.0.full.store(true, Ordering::SeqCst);
    let world = World { disk, clock: copy.clock.clone(), work: Arc::new(Threads) };
    let (broker, report) = Broker::open(world, copy.dir.path(), settings(), &|_, _, _| {}).unwrap();
    let fenced = report.partitions[0].fenced.as_ref().unwrap();
    assert!(fenced.contains("a hard link") && fenced.contains("No space left"), "{fenced}");
    let topic = broker.topic("t").unwrap();
    assert_eq!(topic.partition(0).unwrap().range().unwrap().end, Offset::new(2), "it can be read");
    assert_eq!((bench.files(), copy.files()), (torn.clone(), torn));
    drop((broker, topic));

    let (_broker, partition) = copy.one_partition().await;
    assert_eq!(append(&partition, &["c"]).await, Offset::new(2));
    assert_eq!(shared(&copy), BTreeSet::new());
}

/// Whose last sync had failed: what the page cache says of it is not to be believed, whether or not it is shared.
#[tokio::test]
async fn a_shared_log_that_cannot_be_copied_is_believed_no_more_than_another() {
    let settings = Settings { durability: Durability::Always, ..settings() };
    let (bench, copy) = (Bench::new(settings.clone()), Bench::new(settings.clone()));
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b"]).await;
    partition.idle().await;
    drop((broker, partition));
    fs::write(bench.path(&format!("{LOG_0}.unsynced")), b"").unwrap();
    link_all(bench.dir.path(), copy.dir.path());
    for of in [&bench, &copy] {
        let disk = Failing::default();
        disk.0.full.store(true, Ordering::SeqCst);
        let world = World { disk, clock: of.clock.clone(), work: Arc::new(Threads) };
        let (broker, report) = Broker::open(world, of.dir.path(), settings.clone(), &|_, _, _| {}).unwrap();
        assert!(report.partitions[0].fenced.is_some());
        let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
        assert_eq!(partition.range().unwrap().end, Offset::ZERO);
    }
}

/// Where a damaged log ends is noted; but not in a note that is another's, too.
#[tokio::test]
async fn a_shared_note_of_syncs_that_cannot_be_copied_is_not_written_over() {
    let (bench, copy) = (Bench::new(settings()), Bench::new(settings()));
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b"]).await;
    partition.idle().await;
    let says_less = bench.files()["synced"].clone();
    append(&partition, &["c"]).await;
    partition.idle().await;
    drop((broker, partition));
    let mut log = bench.files()[LOG_0].clone();
    log[35] ^= 1;
    fs::write(bench.path(LOG_0), log).unwrap();
    fs::write(bench.path("synced"), says_less).unwrap();
    link_all(bench.dir.path(), copy.dir.path());

    let before = bench.files();
    let disk = Failing::default();
    // The copy does not fit, and a note in the place of one does.
    disk.0.file_bytes_max.store(4096, Ordering::SeqCst);
    let world = World { disk, clock: copy.clock.clone(), work: Arc::new(Threads) };
    let (_broker, report) = Broker::open(world, copy.dir.path(), settings(), &|_, _, _| {}).unwrap();
    let fenced = report.partitions[0].fenced.as_ref().unwrap();
    assert!(fenced.contains("synced has another name"), "{fenced}");
    assert_eq!(report.partitions[0].damage.len(), 1);
    assert_eq!(bench.files(), before);
}

/// A backup is made of links, and then an index can be read no more: it is derived.
#[tokio::test]
async fn a_shared_index_that_cannot_be_copied_is_built_anew() {
    let (bench, copy) = (Bench::new(settings()), Bench::new(settings()));
    let (broker, partition) = bench.one_partition().await;
    append(&partition, &["a", "b"]).await;
    partition.idle().await;
    drop((broker, partition));
    link_all(bench.dir.path(), copy.dir.path());
    let before = copy.files();
    let disk = Failing::default();
    disk.0.no_index_is_read.store(true, Ordering::SeqCst);
    let world = World { disk, clock: bench.clock.clone(), work: Arc::new(Threads) };
    let (broker, report) = Broker::open(world, bench.dir.path(), settings(), &|_, _, _| {}).unwrap();
    assert_eq!(report.partitions[0].fenced, None);
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    assert_eq!(append(&partition, &["c"]).await, Offset::new(2));
    assert_eq!(copy.files(), before);
    assert_eq!(shared(&bench), BTreeSet::new());
}

/// A directory has as many links as directories are in it, and is no file that is shared. Where one stands in the place of a file
/// that is needed, the file is named.
#[tokio::test]
async fn a_directory_in_the_place_of_a_file_is_called_no_hard_link() {
    for name in [INDEX_0, TIME_INDEX_0, "synced"] {
        let bench = Bench::new(settings());
        let (broker, partition) = bench.one_partition().await;
        append(&partition, &["a", "b"]).await;
        partition.idle().await;
        drop((broker, partition));
        let _ = fs::remove_file(bench.path(name));
        fs::create_dir(bench.path(name)).unwrap();
        fs::create_dir(bench.path(name).join("within")).unwrap();
        let (_broker, partition) = bench.one_partition().await;
        assert_eq!(read_all(&partition), ["a", "b"], "{name}");
        // Without a note of syncs it takes writes.
        let why = (name != "synced").then(|| format!("{name} cannot be opened for writing: Is a directory"));
        let fenced = partition.fenced();
        assert_eq!(fenced.as_ref().map(|said| said.split(" (").next().unwrap()), why.as_deref());
        assert!(bench.path(name).join("within").exists(), "it is not ours");
    }
}
