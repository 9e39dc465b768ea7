//! What goes wrong: faults, crashes, and files that somebody changes.

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::{content, duration, file, moment, rate, some_bytes};
use super::world::broker;
use crate::scenario::fault::Errno;
use crate::scenario::syntax::sense;
use crate::scenario::{
    Aim, Entry, Fault, FaultKind, FilePosition, Keep, Op, Phase, Start, StartExpect, Step, Surgery, When,
};

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

pub(super) fn fault() -> impl Strategy<Value = Fault> {
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
        any::<u64>().prop_map(|bytes| FaultKind::Torn { bytes }),
        any::<u64>().prop_map(|at| FaultKind::Misdirect { at }),
        any::<u64>().prop_map(|bit| FaultKind::Flip { bit }),
        any::<u64>().prop_map(|byte| FaultKind::Unreadable { byte }),
        Just(FaultKind::Drop),
        Just(FaultKind::WritebackError),
        Just(FaultKind::ReadOnly),
        duration().prop_map(|lasts| FaultKind::Stall { lasts }),
        of(any::<u64>()).prop_map(|bytes| FaultKind::Crash { bytes }),
        (of(any::<u64>()), keep()).prop_map(|(bytes, keep)| FaultKind::PowerLoss { bytes, keep }),
    ];
    (select(&Op::ALL[..]), file(), aim, kind, of(file()), any::<bool>())
        .prop_map(|(op, pattern, aim, kind, into, may_miss)| {
            let may_have = |into: &String| matches!(kind, FaultKind::Misdirect { .. }) && !into.contains('*');
            let into = into.filter(may_have);
            Fault { op, pattern, aim, kind, into, may_miss }
        })
        .prop_filter("it can happen", |fault| {
            let step = Step::Fault(fault.clone());
            sense::wrong(&step).or_else(|| sense::idle(&step)).is_none()
        })
}

pub(super) fn life() -> impl Strategy<Value = Step> {
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
        Just(Step::DropCaches),
        start.clone().prop_map(Step::Start),
        start.prop_map(Step::Restart),
        expect.prop_map(|expect| Step::SecondBroker { expect }),
    ]
}

fn place() -> impl Strategy<Value = FilePosition> {
    prop_oneof![any::<i64>().prop_map(FilePosition::Byte), (0..100u8).prop_map(FilePosition::Percent)]
}

pub(super) fn surgery() -> impl Strategy<Value = Surgery> {
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
