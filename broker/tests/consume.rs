//! `broker consume`.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use broker::wire::proto::{self, request, response};
use common::process::{complaint, run, text};
use common::told::{self, now, told};

fn partition(log_end_offset: u64) -> response::Kind {
    let partitions = vec![proto::Partition { log_end_offset, ..Default::default() }];
    response::Kind::ListPartitions(proto::ListPartitionsResponse { partitions })
}

/// The records with these offsets, and where the log ends by then.
fn consumed(offsets: std::ops::Range<u64>, log_end_offset: u64) -> response::Kind {
    let record =
        |offset: u64| proto::Record { offset, value: offset.to_string().into(), ..Default::default() };
    let records = offsets.map(record).collect();
    response::Kind::Consume(proto::ConsumeResponse { records, log_end_offset, ..Default::default() })
}

/// Where others go on appending, it ends all the same: at the end that it has met at its start.
#[test]
fn what_comes_after_its_start_is_not_printed() {
    let latest = response::Kind::ListOffsets(proto::ListOffsetsResponse { offset: 4, timestamp_ms: None });
    let (addr, asked) = told(vec![[partition(2), consumed(0..4, 4), latest].map(now).into()]);
    assert_eq!(text(&run(&addr, &["consume", "t"], b"")), "0\n1\n");
    asked.join().unwrap();
}

/// Who follows goes on where a server is lost, also with a request under way.
#[test]
fn a_follower_outlives_a_server_that_takes_its_request_with_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let answer = |stream: &mut std::net::TcpStream, kind| {
            let asked = told::request(stream);
            let mut frame = Vec::new();
            broker::wire::put(&mut frame, &proto::Response::from(kind));
            std::io::Write::write_all(stream, &frame).unwrap();
            asked
        };
        let (mut stream, _) = listener.accept().unwrap();
        answer(&mut stream, partition(1));
        answer(&mut stream, consumed(0..1, 1));
        told::request(&mut stream);
        drop(stream);
        let (mut stream, _) = listener.accept().unwrap();
        answer(&mut stream, consumed(1..2, 2))
    });
    let output = run(&addr, &["consume", "t", "--follow", "--count", "2"], b"");
    assert_eq!(text(&output), "0\n1\n");
    match server.join().unwrap() {
        request::Kind::Consume(consume) => assert_eq!(consume.offset, 1),
        other => panic!("{other:?}"),
    }
}

/// It keeps records of every partition, to merge them: the more partitions, the fewer of each.
#[test]
fn what_is_read_ahead_of_many_partitions_is_bounded() {
    for (count, bytes) in [(1, 1 << 20), (10, 1 << 20), (1000, 33_554)] {
        let one = |number| proto::Partition { number, log_end_offset: 1, ..Default::default() };
        let partitions = (0..count).map(one).collect();
        let mut answers = vec![response::Kind::ListPartitions(proto::ListPartitionsResponse { partitions })];
        for number in 0..count {
            let record = proto::Record { value: format!("{number}").into(), ..Default::default() };
            let records = vec![record];
            answers.push(response::Kind::Consume(proto::ConsumeResponse {
                records,
                log_end_offset: 1,
                ..Default::default()
            }));
        }
        let (addr, asked) = told(vec![answers.into_iter().map(now).collect()]);
        let output = run(&addr, &["consume", "t", "--count", &count.to_string()], b"");
        assert_eq!(text(&output).lines().count(), count as usize);
        let asked = asked.join().unwrap();
        let of_one = asked.iter().filter_map(|kind| match kind {
            request::Kind::Consume(consume) => Some(consume.max_bytes),
            _ => None,
        });
        assert!(
            of_one.clone().count() == count as usize && of_one.max() == Some(bytes),
            "{count}: {asked:?}"
        );
    }
}

fn out_of_range() -> response::Kind {
    response::Kind::Error(proto::ErrorResponse::new(broker::error::Code::OffsetOutOfRange, "it is gone"))
}

fn begins_at(offset: u64) -> response::Kind {
    response::Kind::ListOffsets(proto::ListOffsetsResponse { offset, timestamp_ms: None })
}

/// Whoever wants all that there is gets what there is by then.
#[test]
fn what_retention_takes_before_the_first_request_is_not_missed() {
    let answers = [partition(5), out_of_range(), begins_at(3), consumed(3..5, 5), begins_at(5)];
    let (addr, asked) = told(vec![answers.map(now).into()]);
    assert_eq!(text(&run(&addr, &["consume", "t"], b"")), "3\n4\n");
    asked.join().unwrap();
    // All of it.
    let (addr, asked) =
        told(vec![[partition(5), out_of_range(), begins_at(7), begins_at(7)].map(now).into()]);
    assert_eq!(text(&run(&addr, &["consume", "t"], b"")), "");
    asked.join().unwrap();
    // Of what there is since some time, too: it is asked for by that time again.
    let since =
        |offset| response::Kind::ListOffsets(proto::ListOffsetsResponse { offset, timestamp_ms: Some(7) });
    let answers = [partition(5), since(1), out_of_range(), since(3), consumed(3..5, 5), begins_at(5)];
    let (addr, asked) = told(vec![answers.map(now).into()]);
    assert_eq!(text(&run(&addr, &["consume", "t", "--from", "@7"], b"")), "3\n4\n");
    let asked = asked.join().unwrap();
    let by_time = asked.iter().filter(|kind| match kind {
        request::Kind::ListOffsets(asked) => {
            asked.at == Some(proto::list_offsets_request::At::TimestampMs(7))
        }
        _ => false,
    });
    assert_eq!(by_time.count(), 2);
}

/// Who follows asks again, too, where the server is away when it is asked where the log begins by then.
#[test]
fn a_follower_outlives_a_server_that_is_lost_as_it_is_asked_for_the_beginning() {
    let stopping =
        response::Kind::Error(proto::ErrorResponse::new(broker::error::Code::ShuttingDown, "soon"));
    let answers = [partition(5), out_of_range(), stopping, out_of_range(), begins_at(3), consumed(3..5, 5)];
    let (addr, asked) = told(vec![answers.map(now).into()]);
    assert_eq!(text(&run(&addr, &["consume", "t", "--follow", "--count", "2"], b"")), "3\n4\n");
    asked.join().unwrap();
}

/// What is missing in the middle, or of what was asked for by its number, is.
#[test]
fn what_is_out_of_range_otherwise_is_told() {
    let cases: [(&[&str], Vec<response::Kind>, bool); 5] = [
        (&["consume", "t", "--from", "0"], vec![partition(5), out_of_range(), begins_at(3)], true),
        (&["consume", "t"], vec![partition(5), consumed(0..2, 5), out_of_range(), begins_at(3)], true),
        (
            &["consume", "t", "--follow"],
            vec![partition(5), consumed(0..2, 5), out_of_range(), begins_at(3)],
            true,
        ),
        // The topic is another one by now, and has not got that far.
        (
            &["consume", "t", "--follow"],
            vec![partition(5), consumed(0..2, 5), out_of_range(), begins_at(0)],
            false,
        ),
        (&["consume", "t"], vec![partition(5), out_of_range(), begins_at(0)], false),
    ];
    for (args, answers, was_removed) in cases {
        let (addr, asked) = told(vec![answers.into_iter().map(now).collect()]);
        let why = complaint(&run(&addr, args, b""));
        assert!(why.contains("it is gone"), "{why}");
        let goes_on = why.contains("what is left begins at offset 3: go on with --partition 0 --from 3");
        assert_eq!(goes_on, was_removed, "{why}");
        asked.join().unwrap();
    }
}
