//! What a client is told when the disk fails: refused is not stored, and what nobody knows is called unknown.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker::Broker;
use broker::batch::Batch;
use broker::broker::World;
use broker::client::{Connection, Outcome};
use broker::clock::SystemClock;
use broker::error::Code;
use broker::metrics::health::Health;
use broker::server::Limits;
use broker::settings::{Durability, Settings, TopicSettings};
use broker::units::Offset;
use broker::wire::proto::{self, request, response};
use broker::work::InLine;
use common::failing::{Failing, Server, server, server_with};
use common::logged::Logged;
use common::{LONG, keyed, ok, record, refused, values};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn pipeline_to(server: &Server) -> Connection<TcpStream> {
    Connection::new(TcpStream::connect(&server.addr).await.unwrap(), 1 << 20)
}

/// Waits until so many records are in the logs, durable or not.
async fn appended(server: &Server, records: u64) {
    let all = async {
        while server.broker.stats().records_appended.get() < records {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, all).await.expect("they are appended");
}

#[tokio::test]
async fn what_a_full_disk_refuses_is_told_and_not_stored() {
    let (logged, _guard) = Logged::begin();
    let server = server(Durability::Os).await;
    let client = &server.client;
    let records = |n: u32| -> Vec<_> { (0..30).map(|i| record(format!("{n}/{i}"))).collect() };
    for outcome in client.produce_batch("t", None, &records(0)).await {
        ok(outcome);
    }
    server.disk.0.full.store(true, Ordering::SeqCst);
    for outcome in client.produce_batch("t", None, &records(1)).await {
        assert_eq!(refused(outcome), Code::StorageFull);
    }
    assert_eq!(refused(client.produce("t", None, keyed("user-1", "v")).await), Code::StorageFull);
    let mut pipeline = pipeline_to(&server).await;
    for _ in 0..100 {
        pipeline.send_produce("t", Some(2), [(None, &b"pipelined"[..])].into_iter());
    }
    for _ in 0..100 {
        let outcome = pipeline.receive_produced().await.unwrap().outcomes(1).remove(0);
        assert_eq!(refused(outcome), Code::StorageFull);
    }
    // Where all went to the same partition, the answer leaves out where each went, as the protocol has it.
    pipeline.send_produce("t", None, [(Some(&b"k"[..]), &b"v"[..]); 2].into_iter());
    match pipeline.receive().await.unwrap().kind {
        Some(response::Kind::Produce(answer)) => {
            assert_eq!((answer.appends.len(), answer.partitions.len()), (1, 0));
        }
        other => panic!("it is one to a produce: {other:?}"),
    }
    // What is there can be read, and when there is room it goes on.
    let mut all = Vec::new();
    server.disk.0.full.store(false, Ordering::SeqCst);
    for outcome in client.produce_batch("t", None, &records(2)).await {
        ok(outcome);
    }
    ok(client.produce("t", Some(2), record("2/last")).await);
    for partition in 0..3 {
        all.extend(values(client, "t", partition).await);
    }
    all.sort_unstable();
    let stored = records(0).into_iter().chain(records(2)).chain([record("2/last")]);
    let mut expected: Vec<_> = stored.map(|r| r.value).collect();
    expected.sort_unstable();
    assert_eq!(all, expected);
    assert_eq!(logged.count("No space left on device"), 3, "once a partition, whoever was refused how often");
    assert_eq!(logged.count("records are stored again"), 3);
    assert!(server.broker.stats().appends_failed.get() >= 4, "one for each append, of however many records");
    // The next time is another trouble; so soon after the first, it is told a little later.
    server.disk.0.full.store(true, Ordering::SeqCst);
    assert_eq!(refused(client.produce("t", Some(2), record("3")).await), Code::StorageFull);
    logged.until("No space left on device", 4).await;
    server.disk.0.full.store(false, Ordering::SeqCst);
    server.stop.cancel();
    server.served.await.unwrap().unwrap();
}

/// A stop has nothing to note where nothing can be written, so that is no failure of it.
#[tokio::test]
async fn a_server_that_started_on_a_read_only_disk_serves_and_stops_cleanly() {
    let server = server(Durability::Os).await;
    ok(server.client.produce("t", Some(0), record("kept")).await);
    server.disk.0.read_only.store(true, Ordering::SeqCst);
    let server = server.restarted(Durability::Os).await;
    assert_eq!(values(&server.client, "t", 0).await, ["kept"]);
    assert_eq!(refused(server.client.produce("t", Some(0), record("refused")).await), Code::Fenced);
    server.stop.cancel();
    server.served.await.unwrap().unwrap();
}

/// A file that may be no longer ends a segment, where what comes is no longer than that segment: so the next one takes it.
/// Anything else would be tried with ever new segments. Where no next one can be made, that is told like any other trouble,
/// and what the segment can still take it takes.
#[tokio::test]
async fn what_the_next_segment_can_hold_rolls_and_what_it_may_not_is_refused() {
    let (logged, _guard) = Logged::begin();
    let server = server(Durability::Os).await;
    let produce = |bytes: usize| server.client.produce("t", Some(0), record("x".repeat(bytes)));
    ok(produce(100).await);
    server.disk.0.file_bytes_max.store(200, Ordering::SeqCst);
    server.disk.0.read_only.store(true, Ordering::SeqCst);
    assert_eq!(refused(produce(100).await), Code::StorageFailed);
    assert_eq!(logged.count("records are refused until this works"), 1);
    ok(produce(20).await);
    assert_eq!(logged.count("records are stored again"), 1);
    server.disk.0.read_only.store(false, Ordering::SeqCst);
    let segments = || server.broker.topic("t").unwrap().partition(0).unwrap().segments();
    assert_eq!(refused(produce(150).await), Code::StorageFailed, "longer than the segment");
    assert_eq!(segments(), 1);
    ok(produce(148).await);
    assert_eq!(segments(), 2, "as long as the segment");
}

/// A disk that refuses one record and stores the next, again and again: the log does not tell of each, and what is so in the
/// end is told.
#[tokio::test]
async fn what_is_refused_and_stored_in_turn_is_told_now_and_then() {
    let (logged, _guard) = Logged::begin();
    let server = server(Durability::Os).await;
    for _ in 0..300 {
        server.disk.0.full.store(false, Ordering::SeqCst);
        ok(server.client.produce("t", Some(0), record("stored")).await);
        server.disk.0.full.store(true, Ordering::SeqCst);
        assert_eq!(refused(server.client.produce("t", Some(0), record("refused")).await), Code::StorageFull);
    }
    let (refusals, returns) = ("records are refused until", "records are stored again");
    let told = logged.count(refusals);
    assert!(told < 30, "{told} times");
    // It is told that the last one was refused.
    logged.until(refusals, logged.count(returns) + 1).await;
    server.disk.0.full.store(false, Ordering::SeqCst);
    ok(server.client.produce("t", Some(0), record("stored")).await);
    assert_eq!(logged.count(refusals), logged.count(returns));
    server.stop.cancel();
    server.served.await.unwrap().unwrap();
}

/// After a sync that failed nobody knows what is on the disk: the client is told that, and later ones that the partition
/// takes no more.
#[tokio::test]
async fn what_a_failed_sync_leaves_open_is_called_unknown() {
    let (logged, _guard) = Logged::begin();
    let server = server(Durability::Always).await;
    ok(server.client.produce("t", Some(1), record("before")).await);
    server.disk.0.sync_fails.store(true, Ordering::SeqCst);
    let mut pipeline = pipeline_to(&server).await;
    for _ in 0..10 {
        pipeline.send_produce("t", Some(1), [(None, &b"lost?"[..])].into_iter());
    }
    let first = pipeline.receive_produced().await.unwrap().outcomes(1).remove(0);
    assert!(matches!(first, Outcome::Unknown(_)), "{first:?}");
    for _ in 1..10 {
        match pipeline.receive_produced().await.unwrap().outcomes(1).remove(0) {
            Outcome::Unknown(_) => {}
            other => assert_eq!(refused(other), Code::Fenced),
        }
    }
    assert_eq!(refused(server.client.produce("t", Some(1), record("after")).await), Code::Fenced);
    assert_eq!(values(&server.client, "t", 1).await, ["before"], "what is not durable is not read");
    server.disk.0.sync_fails.store(false, Ordering::SeqCst);
    ok(server.client.produce("t", Some(0), record("another partition")).await);
    let partitions = ok(server.client.partitions("t").await);
    assert!(partitions[1].fenced.is_some() && partitions[0].fenced.is_none());
    assert_eq!(server.broker.stats().syncs_failed.get(), 1);
    assert_eq!(logged.count("ERROR"), 1);
    assert_eq!(logged.count("t/1 takes no writes from now on"), 1);
    server.stop.cancel();
    // The stop is bounded; it is not clean, and says so.
    let stopped = tokio::time::timeout(common::LONG, server.served).await.expect("it ends").unwrap();
    drop(stopped);
}

/// When the sender comes to an answer, the sync that it would have waited for may have failed already.
#[tokio::test]
async fn no_answer_behind_a_failed_sync_says_more_than_is_known() {
    let server = server(Durability::Always).await;
    ok(server.client.create_topic("u", &TopicSettings::with_partitions(1)).await);
    server.disk.0.sync_hangs.store(true, Ordering::SeqCst);
    let mut pipeline = pipeline_to(&server).await;
    // The first goes to three partitions, and the sender waits for them in turn.
    pipeline.send_produce("t", None, [(None, &b"lost?"[..]); 3].into_iter());
    // One topic after the other: each request is an append of its own, with an answer of its own.
    for topic in ["u", "t", "u", "t"] {
        pipeline.send_produce(topic, Some(0), [(None, &b"lost?"[..])].into_iter());
    }
    pipeline.flush().await.unwrap();
    appended(&server, 7).await;
    server.disk.0.sync_fails.store(true, Ordering::SeqCst);
    server.disk.0.sync_hangs.store(false, Ordering::SeqCst);
    for (nth, records) in [3, 1, 1, 1, 1].into_iter().enumerate() {
        for outcome in pipeline.receive_produced().await.unwrap().outcomes(records) {
            assert!(matches!(outcome, Outcome::Unknown(_)), "answer {nth}: {outcome:?}");
        }
    }
    server.stop.cancel();
    drop(tokio::time::timeout(LONG, server.served).await.expect("it ends").unwrap());
}

/// Who waits for a slow disk has an answer to come, and is not idle; and what is ready does not wait for the disk.
#[tokio::test]
async fn a_slow_sync_holds_up_its_own_answer_and_is_no_silence() {
    let limits = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    let server = server_with(Durability::Always, limits).await;
    server.disk.0.sync_hangs.store(true, Ordering::SeqCst);
    let mut pipeline = pipeline_to(&server).await;
    pipeline.send(&request::Kind::ListTopics(proto::ListTopicsRequest {}).into());
    pipeline.send_produce("t", Some(0), [(None, &b"slow"[..])].into_iter());
    let listed = tokio::time::timeout(LONG, pipeline.receive()).await.expect("it is ready").unwrap();
    assert!(matches!(listed.kind, Some(response::Kind::ListTopics(_))), "{listed:?}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    pipeline.send_produce("t", Some(0), [(None, &b"next"[..])].into_iter());
    pipeline.flush().await.unwrap();
    appended(&server, 2).await;
    server.disk.0.sync_hangs.store(false, Ordering::SeqCst);
    for _ in 0..2 {
        ok(pipeline.receive_produced().await.unwrap().outcomes(1).remove(0));
    }
    server.stop.cancel();
    server.served.await.unwrap().unwrap();
}

/// Of a request that the file could not take whole, the first record was written and cut off. Where the roll cannot sync that,
/// a power loss may bring it back.
#[tokio::test]
async fn a_cut_that_a_roll_could_not_sync_leaves_open_what_is_stored() {
    let (_dir, disk, broker) = alone();
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    partition.append(&mut batch(3)).await.unwrap();
    disk.0.file_bytes_max.store(4 * 128 + 5, Ordering::SeqCst);
    disk.0.sync_fails.store(true, Ordering::SeqCst);
    assert_eq!(partition.append(&mut batch(2)).await.unwrap_err().code(), Code::OutcomeUnknown);
    let refused = partition.append(&mut batch(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Fenced);
    assert!(refused.to_string().ends_with("; restart the broker to recover it"), "{refused}");
}

/// Whoever only waited for another's cut has written nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_that_fails_leaves_open_only_what_was_cut() {
    let server = server(Durability::Os).await;
    let partition = server.broker.topic("t").unwrap().partition(0).unwrap().clone();
    let append = |records| {
        let partition = partition.clone();
        tokio::spawn(async move { partition.append(&mut batch(records)).await.unwrap_err().code() })
    };
    server.disk.0.full.store(true, Ordering::SeqCst);
    server.disk.0.sync_hangs.store(true, Ordering::SeqCst);
    let cut = append(2);
    let failed = async {
        while server.broker.stats().appends_failed.get() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG, failed).await.expect("the disk is full");
    let waiting = append(1);
    tokio::time::sleep(Duration::from_millis(20)).await;
    server.disk.0.sync_fails.store(true, Ordering::SeqCst);
    server.disk.0.sync_hangs.store(false, Ordering::SeqCst);
    assert_eq!(cut.await.unwrap(), Code::OutcomeUnknown);
    assert_eq!(waiting.await.unwrap(), Code::Fenced);
}

#[tokio::test]
async fn what_the_disk_does_not_do_is_told_as_what_was_asked_for() {
    let (_dir, disk, broker) = alone();
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    broker.topic("t").unwrap().partition(0).unwrap().append(&mut batch(1)).await.unwrap();
    disk.0.read_only.store(true, Ordering::SeqCst);
    let made = broker.create_topic("u", TopicSettings::with_partitions(1)).await.unwrap_err();
    let deleted = broker.delete_topic("t").await.unwrap_err();
    let stopped = broker.close().await.unwrap_err();
    let refused = broker.create_topic("u", TopicSettings::with_partitions(1)).await.unwrap_err();
    let begins = ["u was not made: ", "t was not deleted: ", "", "the broker is stopping; this was not done"];
    for (error, begin) in [made, deleted, stopped, refused].iter().zip(begins) {
        let told = error.to_string();
        assert!(told.starts_with(begin) && !told.contains("stored"), "{told}");
    }
}

/// What is in doubt is told with the reason for that, and not with another one.
#[tokio::test]
async fn what_nobody_knows_of_a_topic_is_told_with_its_reason() {
    let (logged, _guard) = Logged::begin();
    let (_dir, disk, broker) = alone();
    for (nth, (switch, reason)) in [
        (&disk.0.rename_fails, "renaming its directory failed"),
        (&disk.0.dir_sync_fails, "could not be synced"),
    ]
    .into_iter()
    .enumerate()
    {
        broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
        assert_eq!(Health::of(&broker), Health::default(), "another one is in its place");
        switch.store(true, Ordering::SeqCst);
        let error = broker.delete_topic("t").await.unwrap_err();
        switch.store(false, Ordering::SeqCst);
        assert_eq!(error.code(), Code::OutcomeUnknown);
        assert!(
            error.to_string().starts_with("deleting t: ") && error.to_string().contains(reason),
            "{error}"
        );
        assert_eq!((logged.count(&error.to_string()), logged.count("WARN")), (1, nth + 1), "{error}");
        let told = Health::of(&broker);
        let [refused] = &told.refused[..] else { panic!("{told:?}") };
        let begins = "t was deleted, and may be there again after a restart: ";
        assert!(refused.starts_with(begins) && refused.contains(reason), "{refused}");
        assert_eq!(told.refuses, [""; 0]);
    }
}

/// A restart alone would find it so again.
#[tokio::test]
async fn what_a_start_has_found_is_to_be_mended_and_not_restarted() {
    let (dir, disk, broker) = alone();
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    drop(broker);
    // It can neither be replaced nor removed as a file.
    let note = dir.path().join("running");
    std::fs::remove_file(&note).unwrap();
    std::fs::create_dir(&note).unwrap();
    let world = World { disk, clock: Arc::new(SystemClock), work: Arc::new(InLine) };
    let (broker, report) = Broker::open(world, dir.path(), Settings::default(), &|_, _, _| {}).unwrap();
    assert!(report.read_only.is_some());
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    let refused = partition.append(&mut batch(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Fenced);
    assert!(refused.to_string().ends_with("; fix that and restart the broker"), "{refused}");
}

fn alone() -> (tempfile::TempDir, Failing, Broker<Failing>) {
    let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
    let world = World { disk: disk.clone(), clock: Arc::new(SystemClock), work: Arc::new(InLine) };
    let (broker, _) = Broker::open(world, dir.path(), Settings::default(), &|_, _, _| {}).unwrap();
    (dir, disk, broker)
}

fn batch(records: usize) -> Batch {
    let mut batch = Batch::new();
    (0..records).for_each(|_| batch.push(None, &[b'x'; 100]));
    batch
}

#[tokio::test(start_paused = true)]
async fn trouble_that_goes_on_is_told_once() {
    let (logged, _guard) = Logged::begin();
    let (_dir, disk, broker) = alone();
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    disk.0.full.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(partition.append(&mut batch(1)).await.unwrap_err().code(), Code::StorageFull);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(logged.count("records are refused until this works"), 1);
}

/// A log with damage everywhere does not fill another.
#[tokio::test]
async fn damage_is_told_once_a_place_and_of_so_many_places() {
    let (logged, _guard) = Logged::begin();
    let (dir, _disk, broker) = alone();
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    partition.append(&mut batch(300)).await.unwrap();
    let path = dir.path().join("t/0/00000000000000000000.log");
    let mut log = std::fs::read(&path).unwrap();
    log.chunks_mut(128).step_by(2).for_each(|record| record[100] ^= 1);
    std::fs::write(&path, log).unwrap();
    for _ in 0..2 {
        for offset in 0..300 {
            let read = partition.read(Offset::new(offset), 1);
            assert_eq!(read.is_ok(), offset % 2 == 1, "{offset}");
        }
    }
    assert_eq!(logged.count("a reader has met damage"), 100);
}

/// A page, as it is served of this broker.
async fn page(broker: &Broker<Failing>, path: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let served = tokio::spawn(broker::metrics::http::serve(listener, broker.clone(), Arc::default()));
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    served.abort();
    answer
}

/// A full disk is told and is no reason to send nothing more: what is sent next shows whether there is room. One that has failed
/// for good is.
#[tokio::test]
async fn a_partition_that_takes_no_writes_is_told_on_the_pages() {
    let server = server(Durability::Always).await;
    let is_told = async |status: &str, line: &str, gauge: &str| {
        let health = page(&server.broker, "/health").await;
        assert!(health.starts_with(&format!("HTTP/1.1 {status}")) && health.contains(line), "{health}");
        let metrics = page(&server.broker, "/metrics").await;
        assert!(metrics.lines().any(|line| line == gauge), "{metrics}");
    };
    is_told("200", "ok\n", "broker_log_refusing_partitions 0").await;
    server.disk.0.full.store(true, Ordering::SeqCst);
    assert_eq!(refused(server.client.produce("t", Some(1), record("v")).await), Code::StorageFull);
    is_told("200", "\nt/1 has refused the last records: ", "broker_log_refusing_partitions 1").await;
    let shown = ok(server.client.partitions("t").await);
    assert!(shown[1].refusing.as_ref().is_some_and(|why| why.contains("No space left")), "{shown:?}");
    assert_eq!((&shown[0].refusing, &shown[1].fenced), (&None, &None));

    server.disk.0.full.store(false, Ordering::SeqCst);
    ok(server.client.produce("t", Some(1), record("v")).await);
    is_told("200", "ok\n", "broker_log_refusing_partitions 0").await;
    server.disk.0.sync_fails.store(true, Ordering::SeqCst);
    drop(server.client.produce("t", Some(2), record("v")).await);
    is_told("503", "\nt/2 takes no writes: ", "broker_log_fenced_partitions 1").await;
}

/// Also where there is no topic yet, whose partitions would tell.
#[tokio::test]
async fn a_data_directory_that_cannot_be_written_is_unhealthy() {
    for how in ["read-only", "not allowed", "moved away"] {
        let (dir, disk) = (tempfile::tempdir().unwrap(), Failing::default());
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        disk.0.read_only.store(how == "read-only", Ordering::SeqCst);
        disk.0.not_allowed.store(how == "not allowed", Ordering::SeqCst);
        let world = World { disk, clock: Arc::new(SystemClock), work: Arc::new(InLine) };
        let (broker, report) = Broker::open(world, &data, Settings::default(), &|_, _, _| {}).unwrap();
        assert_eq!(report.read_only.is_some() || report.unnoted.is_some(), how != "moved away");
        if how == "moved away" {
            assert!(page(&broker, "/health").await.starts_with("HTTP/1.1 200"));
            std::fs::rename(&data, dir.path().join("elsewhere")).unwrap();
        }
        let health = page(&broker, "/health").await;
        assert!(health.starts_with("HTTP/1.1 503"), "{how}: {health}");
        // What is open can be written to, wherever it is now.
        assert_eq!(health.contains("stored where no start finds them"), how == "moved away", "{health}");
    }
}

/// Somebody moves the data directory away while a broker runs, and puts another in its place.
#[tokio::test]
async fn a_sync_that_fails_leaves_no_mark_where_another_has_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let [data, moved] = ["data", "moved"].map(|name| dir.path().join(name));
    let disk = Failing::default();
    let world = World { disk: disk.clone(), clock: Arc::new(SystemClock), work: Arc::new(InLine) };
    let settings = Settings { durability: Durability::Always, ..Settings::default() };
    let (broker, _) = Broker::open(world, &data, settings, &|_, _, _| {}).unwrap();
    broker.create_topic("t", TopicSettings::with_partitions(1)).await.unwrap();
    let partition = broker.topic("t").unwrap().partition(0).unwrap().clone();
    std::fs::rename(&data, &moved).unwrap();
    std::fs::create_dir_all(data.join("t/0")).unwrap();
    disk.0.sync_fails.store(true, Ordering::SeqCst);
    let mut batch = Batch::new();
    batch.push(None, b"v");
    let appended = partition.append(&mut batch).await.unwrap();
    assert!(partition.committed(appended.end).await.is_err());
    assert_eq!(std::fs::read_dir(data.join("t/0")).unwrap().count(), 0);
}
