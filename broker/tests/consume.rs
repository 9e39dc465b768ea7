//! `broker consume`.
#![allow(clippy::disallowed_methods)] // on the real machine

mod common;

use broker::wire::proto::{self, request, response};
use common::process::{run, text};
use common::told::{now, told};

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
