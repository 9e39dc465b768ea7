//! Any scenario at all, for tests that must hold for each.

use std::ops::Range;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::fault::Errno;
use super::request::Code;
use super::settings::Capacity;
use super::syntax::{sense, words_of_codes};
use super::*;
use crate::sometimes::State;

fn state() -> impl Strategy<Value = String> {
    select(State::ALL.to_vec()).prop_map(|state| state.name().to_owned())
}

/// Any scenario.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    let head = (vec(line(), 0..3), any::<String>(), seeds(), any::<bool>(), vec(state(), 0..3));
    let world = (broker(), disk(), net(), clock());
    let draws = vec(draw(&["disk", "net", "broker"]), 0..2);
    let explicit = (head, world, draws, vec(step(), 0..12));
    let any = explicit.prop_map(
        |((about, title, seeds, explore, sometimes), (broker, disk, net, clock), draws, steps)| Scenario {
            lines: Lines::default(),
            about,
            title,
            seeds,
            explore,
            sometimes,
            broker,
            disk,
            net,
            clock,
            draws,
            steps,
        },
    );
    any.prop_map(given_once)
}

/// What is drawn is given nowhere else.
fn given_once(mut scenario: Scenario) -> Scenario {
    for draw in &scenario.draws {
        match draw.word.as_str() {
            "broker" => (scenario.broker.segment_bytes, scenario.broker.durability) = (None, None),
            "disk" => (scenario.disk.profile, scenario.disk.latency) = (None, None),
            _ => scenario.net.chunk_bytes = None,
        }
    }
    scenario.draws.sort_by(|a, b| a.word.cmp(&b.word));
    scenario.draws.dedup_by(|a, b| a.word == b.word);
    scenario
}

/// Any step.
pub fn step() -> impl Strategy<Value = Step> {
    let simple = prop_oneof![
        6 => request().boxed(),
        2 => raw().boxed(),
        3 => fault().prop_map(Step::Fault).boxed(),
        3 => life().boxed(),
        4 => (surgery(), any::<bool>()).prop_map(|(surgery, may_miss)| Step::Surgery { surgery, may_miss }).boxed(),
        3 => world_change().boxed(),
        2 => random_lines().boxed(),
        2 => question().boxed(),
    ];
    simple.prop_recursive(2, 12, 4, |inner| {
        let steps = vec(inner, 0..4);
        let branch = (name(), steps.clone()).prop_map(|(client, steps)| Branch { client, steps }).boxed();
        prop_oneof![
            branch.clone().prop_map(Step::Client),
            vec(branch, 0..3).prop_map(Step::Parallel),
            (1..9u32, steps).prop_map(|(times, steps)| Step::Repeat { times, steps }),
            vec(request().boxed().prop_filter("no loop", |s| !matches!(s, Step::Consume(_))), 0..4)
                .prop_map(Step::Pipeline),
        ]
    })
}

fn line() -> impl Strategy<Value = String> {
    "[a-zA-Z(/][a-zA-Z0-9 {}\"=/]{0,20}[a-z.]"
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z][a-z0-9._-]{0,6}", 1 => any::<String>(), 1 => select(vec!["true".to_owned(), "-1".into(), "inf".into(), "..".into(), "é".into()])]
}

fn seeds() -> impl Strategy<Value = Seeds> {
    (any::<u32>(), 1..100u64).prop_map(|(start, n)| Seeds { start: start.into(), end: u64::from(start) + n })
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..5000u64).prop_map(Duration::from_millis),
        (0..100_000u64).prop_map(Duration::from_secs),
        any::<u64>().prop_map(Duration::from_nanos)
    ]
}

fn some_time() -> impl Strategy<Value = Duration> {
    duration().prop_map(|time| time.max(Duration::from_nanos(1)))
}

fn span() -> impl Strategy<Value = Span> {
    (duration(), duration()).prop_map(|(a, b)| Span { min: a.min(b), max: a.max(b) })
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0..70_000u64, (0..5000u64).prop_map(|n| n << 10), any::<u32>().prop_map(u64::from)]
}

fn some_bytes() -> impl Strategy<Value = u64> {
    bytes().prop_map(|n| n.max(1))
}

fn broker() -> impl Strategy<Value = BrokerSettings> {
    let durability = prop_oneof![
        Just(Durability::Os),
        Just(Durability::Always),
        some_time().prop_map(Durability::Interval)
    ];
    let (interval, record) = (1..=u64::from(u32::MAX), 1..=1u32 << 26);
    let log = (of(durability), of(some_bytes()), of(interval), of(record), of(bytes()), of(duration()));
    let times = (of(some_time()), of(some_time()), of(some_time()), of(some_time()));
    let connections = of(1..=u32::MAX);
    let limits = (of(1..99u32), of(any::<u32>()), connections, of(bytes()), of(some_bytes()), of(bytes()));
    (log, times, limits).prop_map(|(log, times, limits)| BrokerSettings {
        durability: log.0,
        segment_bytes: log.1,
        max_unsynced_bytes: limits.4,
        index_interval: log.2,
        max_record_bytes: log.3,
        retention_bytes: log.4,
        retention_age: log.5,
        retention_check: times.0,
        recovery_threads: limits.0,
        max_frame_bytes: limits.1,
        max_connections: limits.2,
        max_in_flight_bytes: limits.3,
        max_buffer_bytes: limits.5,
        idle_timeout: times.1,
        frame_timeout: times.2,
        write_timeout: times.3,
    })
}

fn disk() -> impl Strategy<Value = DiskSettings> {
    let profile = select(vec![Profile::Strict, Profile::Ordered, Profile::Writeback, Profile::Lying]);
    let capacity = prop_oneof![
        bytes().prop_map(Capacity::Bytes),
        bytes().prop_map(Capacity::Free),
        Just(Capacity::Unlimited)
    ];
    (of(profile), of(capacity), of(span()), of(span()), of(any::<bool>()), of(1..=u32::MAX)).prop_map(
        |(profile, capacity, latency, sync_latency, read_only, max_open_files)| DiskSettings {
            profile,
            capacity,
            latency,
            sync_latency,
            read_only,
            max_open_files,
        },
    )
}

fn rate() -> impl Strategy<Value = Rate> {
    (0..=1_000_000u32).prop_map(|millionths| Rate { millionths })
}

fn net() -> impl Strategy<Value = NetSettings> {
    (of(span()), of(1..999u32), of(rate()), of(rate()), of(some_time()), of(any::<u32>())).prop_map(
        |(latency, chunk_bytes, fail_rate, repair_rate, timeout, accept_errors)| NetSettings {
            latency,
            chunk_bytes,
            fail_rate,
            repair_rate,
            timeout,
            accept_errors,
        },
    )
}

fn moment() -> impl Strategy<Value = u64> {
    prop_oneof![0..99u64, 946_684_800_000..4_107_542_400_000u64, any::<u64>()]
}

/// A moment that a clock can show.
fn shown_moment() -> impl Strategy<Value = u64> {
    moment().prop_map(|ms| ms.min(i64::MAX as u64))
}

fn clock() -> impl Strategy<Value = ClockSettings> {
    (of(shown_moment()), of(any::<bool>())).prop_map(|(at, frozen)| ClockSettings { at, frozen })
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        any::<String>().prop_map(Content::Text),
        vec(any::<u8>(), 0..9).prop_map(Content::Hex),
        bytes().prop_map(Content::Size)
    ]
}

fn code() -> impl Strategy<Value = Code> {
    select(words_of_codes().map(|(_, code)| code).collect::<Vec<_>>())
}

fn expect() -> impl Strategy<Value = Expect> {
    let words = select(vec![Expect::Ok, Expect::Refused, Expect::Unknown, Expect::Any]);
    prop_oneof![words, code().prop_map(Expect::Code)]
}

/// Whether an answer can be expected that is no error, and so what is in it.
fn answers(expect: Expect) -> bool {
    matches!(expect, Expect::Ok | Expect::Any)
}

fn request() -> impl Strategy<Value = Step> {
    prop_oneof![
        (name(), any::<u32>(), of(bytes()), of(duration()), expect()).prop_map(
            |(name, partitions, retention_bytes, retention_age, expect)| {
                Step::Topic(CreateTopic { name, partitions, retention_bytes, retention_age, expect })
            }
        ),
        (name(), expect()).prop_map(|(name, expect)| Step::DeleteTopic { name, expect }),
        of(any::<u32>()).prop_map(|expect_count| Step::ListTopics { expect_count }),
        (name(), expect(), of(any::<u32>())).prop_map(|(topic, expect, expect_count)| {
            let expect_count = expect_count.filter(|_| answers(expect));
            Step::ListPartitions(ListPartitions { topic, expect, expect_count })
        }),
        produce().prop_map(Step::Produce),
        consume()
            .prop_map(|consume| Consume {
                expect_start: consume.expect_start.filter(|_| consume.partition.is_some()),
                ..consume
            })
            .prop_map(Step::Consume),
        consume().prop_map(Step::Fetch),
        look_up().prop_map(Step::Offsets),
    ]
}

fn produce() -> impl Strategy<Value = Produce> {
    let what = (name(), of(any::<u32>()), of(content()), content());
    let how = (1..999u32, 1..99u32, expect(), of(any::<u32>()), of(any::<u64>()));
    (what, how).prop_map(|((topic, partition, key, value), how)| {
        // Only what is acknowledged has a place.
        let placed = answers(how.2);
        Produce {
            topic,
            partition,
            key,
            value,
            count: how.0,
            batch: how.1,
            expect: how.2,
            expect_partition: how.3.filter(|_| placed),
            expect_offset: how.4.filter(|_| placed),
        }
    })
}

fn consume() -> impl Strategy<Value = Consume> {
    let what =
        (name(), of(any::<u32>()), of(any::<u64>()), of(any::<u64>()), of(any::<u32>()), of(duration()));
    let expected = (expect(), of(any::<u64>()), of(content()), of(any::<u64>()), of(any::<u64>()));
    (what, expected).prop_map(|(what, (expect, count, value, start, end))| {
        let answers = answers(expect);
        Consume {
            topic: what.0,
            partition: what.1,
            from: what.2,
            until: what.3.filter(|until| *until > what.2.unwrap_or(0)),
            max_bytes: what.4,
            wait: what.5,
            expect,
            expect_count: count.filter(|_| answers),
            expect_value: value.filter(|_| answers && count != Some(0)),
            expect_start: start.filter(|_| answers),
            expect_end: end.filter(|_| answers),
        }
    })
}

fn look_up() -> impl Strategy<Value = LookUp> {
    let at = prop_oneof![Just(OffsetAt::Earliest), Just(OffsetAt::Latest), moment().prop_map(OffsetAt::Time)];
    let expect = prop_oneof![
        Just(LookUpExpect::Any),
        Just(LookUpExpect::None),
        any::<u64>().prop_map(LookUpExpect::Offset),
        code().prop_map(LookUpExpect::Code)
    ];
    (name(), any::<u32>(), at, expect).prop_map(|(topic, partition, at, expect)| LookUp {
        topic,
        partition,
        at,
        expect,
    })
}

fn raw() -> impl Strategy<Value = Step> {
    let length = prop_oneof![Just(SendLength::Right), any::<u32>().prop_map(SendLength::Is)];
    let send = (content(), of(length), of(1..99u32), of(duration()))
        .prop_map(|(bytes, length, chunk_bytes, every)| Send { bytes, length, chunk_bytes, every });
    let words = vec![ReceiveExpect::Any, ReceiveExpect::Ok, ReceiveExpect::Closed, ReceiveExpect::Nothing];
    let expect = prop_oneof![select(words), code().prop_map(ReceiveExpect::Code)];
    let receive = (expect, duration()).prop_map(|(expect, within)| Receive { expect, within });
    prop_oneof![
        (1..99u32).prop_map(|count| Step::Open(Open { count })),
        send.prop_map(Step::Send),
        receive.prop_map(Step::Receive),
        Just(Step::HalfClose),
        Just(Step::Close),
    ]
}

fn keep() -> impl Strategy<Value = Keep> {
    select(vec![
        Keep::Drawn,
        Keep::Nothing,
        Keep::Everything,
        Keep::Names,
        Keep::Data,
        Keep::Image(17),
        Keep::Draw(u64::MAX),
    ])
}

fn fault() -> impl Strategy<Value = Fault> {
    let during = select(vec![Phase::Recovery, Phase::Roll, Phase::Stop]);
    let aim = (1..9u32, of(1..9u32), of(rate()), of(any::<u64>()), of(duration()), of(during)).prop_map(
        |(nth, times, rate, at_byte, after, during)| match rate {
            None => Aim { nth, times, rate, at_byte, after, during },
            Some(_) => Aim { rate, at_byte, after, during, ..Aim::default() },
        },
    );
    let errno = select(vec![Errno::EIO, Errno::ENOSPC, Errno::EINTR, Errno::EMFILE, Errno::EROFS]);
    let kind = prop_oneof![
        (errno, select(vec![When::Before, When::After]))
            .prop_map(|(errno, when)| FaultKind::Error { errno, when }),
        any::<u64>().prop_map(|bytes| FaultKind::Tear { bytes }),
        any::<u64>().prop_map(|bytes| FaultKind::Short { bytes }),
        (0..9u64).prop_map(|bytes| FaultKind::Full { bytes }),
        Just(FaultKind::Lost),
        any::<u64>().prop_map(|by| FaultKind::Misdirect { by }),
        any::<u64>().prop_map(|bit| FaultKind::Flip { bit }),
        Just(FaultKind::Drop),
        duration().prop_map(|lasts| FaultKind::Stall { lasts }),
        of(any::<u64>()).prop_map(|bytes| FaultKind::Crash { bytes }),
        (of(any::<u64>()), keep()).prop_map(|(bytes, keep)| FaultKind::PowerLoss { bytes, keep }),
    ];
    (select(&Op::ALL[..]), file(), aim, kind, any::<bool>())
        .prop_map(|(op, pattern, aim, kind, may_miss)| Fault { op, pattern, aim, kind, may_miss })
        .prop_filter("it can happen", |fault| sense::wrong(&Step::Fault(fault.clone())).is_none())
}

fn life() -> impl Strategy<Value = Step> {
    let expect = select(vec![StartExpect::Ok, StartExpect::Refused, StartExpect::Crashed, StartExpect::Any]);
    let found = (of(any::<u64>()), of(any::<u64>()), of(any::<u64>()));
    let start = (broker(), expect.clone(), found)
        .prop_map(|(settings, expect, found)| {
            let serves = matches!(expect, StartExpect::Ok | StartExpect::Any);
            let [expect_cut, expect_records, expect_damage] =
                [found.0, found.1, found.2].map(|n| n.filter(|_| serves));
            Start { settings, expect, expect_cut, expect_records, expect_damage }
        })
        .boxed();
    prop_oneof![
        Just(Step::Crash),
        keep().prop_map(|keep| Step::PowerLoss { keep }),
        Just(Step::Stop),
        Just(Step::Calm),
        start.clone().prop_map(Step::Start),
        start.prop_map(Step::Restart),
        expect.prop_map(|expect| Step::SecondBroker { expect }),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![any::<i64>().prop_map(Place::Byte), (0..100u8).prop_map(Place::Percent)]
}

/// A path, or a pattern.
fn file() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| {
        let parts: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "." | "..")).collect();
        match parts.join("/").trim_start_matches('/') {
            "" => "**/@last.log".to_owned(),
            path => path.to_owned(),
        }
    })
}

fn surgery() -> impl Strategy<Value = Surgery> {
    let entry = prop_oneof![
        any::<(u64, u64)>().prop_map(|(offset, position)| Entry::Position { offset, position }),
        (moment(), any::<u64>()).prop_map(|(timestamp, offset)| Entry::Time { timestamp, offset }),
    ];
    prop_oneof![
        (file(), place(), 1..=255u8, some_bytes()).prop_map(|(file, at, xor, bytes)| Surgery::Corrupt {
            file,
            at,
            xor,
            bytes
        }),
        (file(), place()).prop_map(|(file, to)| Surgery::Truncate { file, to }),
        (file(), of(place()), some_bytes()).prop_map(|(file, at, bytes)| Surgery::Zeros { file, at, bytes }),
        (file(), of(place()), content()).prop_map(|(file, at, bytes)| Surgery::Write { file, at, bytes }),
        (file(), of(place()), any::<u64>(), moment(), of(content()), content()).prop_map(
            |(file, at, offset, timestamp, key, value)| Surgery::WriteRecord {
                file,
                at,
                offset,
                timestamp,
                key,
                value
            }
        ),
        (file(), of(place()), entry).prop_map(|(file, at, entry)| Surgery::WriteEntry { file, at, entry }),
        file().prop_map(|file| Surgery::Delete { file }),
        (file(), file()).prop_map(|(file, to)| Surgery::Copy { file, to }),
        (file(), file()).prop_map(|(file, to)| Surgery::Rename { to: format!("{file}{to}!"), file }),
        file().prop_map(|dir| Surgery::MakeDir { dir }),
        (file(), place()).prop_map(|(file, at)| Surgery::Unreadable { file, at }),
    ]
}

fn world_change() -> impl Strategy<Value = Step> {
    let jump = any::<i32>().prop_map(i64::from);
    let change = (of(shown_moment()), of(jump), of(any::<bool>()))
        .prop_map(|(at, jump, frozen)| ClockChange { at, jump: jump.filter(|_| at.is_none()), frozen });
    let link = (name(), any::<(bool, bool)>(), of(duration()))
        .prop_filter("hosts are not flags, and one is the client's", |(client, ..)| {
            client != "one-way" && client != "broker"
        })
        .prop_map(|(client, (from, one_way), lasts)| {
            let broker = "broker".to_owned();
            let (a, b) = if from { (client, broker) } else { (broker, client) };
            Link { a, b, one_way, lasts }
        })
        .boxed();
    prop_oneof![
        disk().prop_map(|disk| Step::Disk(DiskSettings { profile: None, max_open_files: None, ..disk })),
        net().prop_map(|net| Step::Net(NetSettings { chunk_bytes: None, repair_rate: None, ..net })),
        change.prop_map(Step::Clock),
        link.clone().prop_map(Step::Partition),
        link.prop_map(|link| Step::Hold(Link { one_way: false, ..link })),
        Just(Step::Heal),
        duration().prop_map(Step::Advance),
    ]
    .prop_filter("it changes something", |step| sense::idle(step).is_none())
}

/// A drawn line is tried when it is read, so it is one of a few that can be.
fn draw(words: &[&'static str]) -> impl Strategy<Value = Draw> + use<> {
    let lines = [
        (
            "broker",
            vec![],
            vec![("segment-bytes", vec!["256", "4096", "-"]), ("durability", vec!["os", "always"])],
        ),
        ("disk", vec![], vec![("profile", vec!["strict"]), ("latency", vec!["1ms", "0ms..5ms"])]),
        ("net", vec![], vec![("chunk-bytes", vec!["1..9", "100"])]),
        ("topic", vec!["orders"], vec![("partitions", vec!["1", "3"])]),
        ("fault", vec!["write", "*.log"], vec![("power-loss", vec!["0..39"])]),
    ];
    let texts = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Draw> = lines
        .into_iter()
        .filter(|(word, ..)| words.contains(word))
        .flat_map(|(word, args, props)| {
            [DrawHow::AtRandom, DrawHow::InTurn].map(|how| Draw {
                how,
                word: word.to_owned(),
                args: texts(args.clone()),
                props: props
                    .iter()
                    .map(|(name, values)| ((*name).to_owned(), texts(values.clone())))
                    .collect(),
            })
        })
        .collect();
    select(lines)
}

fn random_lines() -> impl Strategy<Value = Step> {
    let numbers = |range: Range<u32>| vec(range, 1..4);
    let weights = proptest::sample::subsequence(random::MOVES.to_vec(), 1..4).prop_flat_map(move |moves| {
        let weights: Vec<_> = moves.into_iter().map(|m| (Just(m.to_owned()), numbers(0..9))).collect();
        weights
    });
    prop_oneof![
        draw(&["topic", "fault"]).prop_map(Step::Draw),
        (numbers(0..999), numbers(1..9), numbers(0..99), weights)
            .prop_map(|(steps, keys, size, weights)| Step::Random(Random { steps, keys, size, weights }))
            .prop_filter("it makes steps", |step| sense::wrong(step).is_none()),
    ]
}

fn question() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Files),
        of(file()).prop_map(|file| Step::Dump { file }),
        of(any::<u32>()).prop_map(|expect_problems| Step::Verify(Verify { expect_problems })),
        vec(1..=12u8, 0..4).prop_map(|promises| Step::Check(Check { promises })),
    ]
}
