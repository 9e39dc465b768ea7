//! The process is killed, again and again, under load: what was acknowledged is there after each restart.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use broker::client::{Client, Options, Outcome};
use broker::net::TcpConnector;
use broker::record::NewRecord;
use broker::settings::TopicSettings;
use bytes::Bytes;
use common::ok;
use common::process::Process;

const ROUNDS: u32 = 5;
const PRODUCERS: u32 = 4;

/// Produces until the server is gone. Gives what was acknowledged, by partition and offset, and what is unknown.
async fn load(addr: String, round: u32, producer: u32) -> (BTreeMap<(u32, u64), Bytes>, Vec<Bytes>) {
    let client = Client::new(TcpConnector, addr, Options::default());
    let (mut acknowledged, mut unknown) = (BTreeMap::new(), Vec::new());
    for n in 0.. {
        let value = Bytes::from(format!("{round}/{producer}/{n} {}", "x".repeat(n % 300)));
        let key = (n % 2 == 0).then(|| Bytes::from(format!("user-{}", n % 7)));
        match client.produce("t", None, NewRecord { key, value: value.clone() }).await {
            Outcome::Acknowledged(placed) => {
                let before = acknowledged.insert((placed.partition, placed.offset.get()), value);
                assert_eq!(before, None, "an offset is given once");
            }
            Outcome::Unknown(_) => unknown.push(value),
            Outcome::Refused(refusal) => {
                assert_eq!(refusal.code, broker::error::Code::Unavailable, "{refusal}");
                break;
            }
        }
    }
    (acknowledged, unknown)
}

async fn kill_loop(durability: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let args = ["--durability", durability, "--segment-bytes", "20KiB", "--index-interval", "3"];
    let (mut acknowledged, mut unknown) = (BTreeMap::new(), Vec::new());
    for round in 0..ROUNDS {
        let server = Process::start(&data, &args);
        let client = Client::new(TcpConnector, &server.addr, Options::default());
        if round == 0 {
            ok(client.create_topic("t", &TopicSettings::with_partitions(2)).await);
        }
        check(&client, &acknowledged, &unknown).await;

        let mut producers = tokio::task::JoinSet::new();
        for producer in 0..PRODUCERS {
            producers.spawn(load(server.addr.clone(), round, producer));
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
        server.kill();
        while let Some(done) = producers.join_next().await {
            let (more, lost) = done.unwrap();
            for (at, value) in more {
                assert_eq!(acknowledged.insert(at, value), None, "{at:?} was given away twice");
            }
            unknown.extend(lost);
        }
    }
    let server = Process::start(&data, &args);
    let client = Client::new(TcpConnector, &server.addr, Options::default());
    check(&client, &acknowledged, &unknown).await;
    assert!(acknowledged.len() > 100, "there was load: {}", acknowledged.len());
}

/// Each acknowledged record is under its offset; all others are ones whose outcome is unknown, at most once each.
async fn check(client: &Client<TcpConnector>, acknowledged: &BTreeMap<(u32, u64), Bytes>, unknown: &[Bytes]) {
    let mut left = acknowledged.clone();
    let mut others = unknown.to_vec();
    for partition in 0..2 {
        for (offset, value) in (0..).zip(common::values(client, "t", partition).await) {
            match left.remove(&(partition, offset)) {
                Some(expected) => assert_eq!(value, expected, "at {partition}/{offset}"),
                None => {
                    let at = others.iter().position(|other| *other == value);
                    others.swap_remove(
                        at.unwrap_or_else(|| panic!("nobody produced what is at {partition}/{offset}")),
                    );
                }
            }
        }
    }
    assert!(left.is_empty(), "acknowledged and gone: {:?}", left.keys());
}

#[tokio::test]
async fn a_killed_server_loses_nothing_that_was_acknowledged() {
    kill_loop("os").await;
}

#[tokio::test]
async fn a_killed_server_loses_nothing_that_was_acknowledged_as_durable() {
    kill_loop("always").await;
}
