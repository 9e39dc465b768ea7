//! Any scenario at all, for tests that must hold for each.

mod damage;
mod requests;
mod values;
mod world;

use std::ops::Range;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::syntax::sense;
use super::*;
use crate::sometimes::State;
use damage::{fault, life, surgery};
use requests::{raw, request};
use values::{file, name};
use world::{broker, clock, disk, net, world_change};

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
        2 => raw().prop_filter("it sends something", |step| sense::idle(step).is_none()).boxed(),
        3 => fault().prop_map(Step::Fault).boxed(),
        3 => life().boxed(),
        4 => (surgery(), any::<bool>()).prop_map(|(surgery, may_miss)| Step::Surgery { surgery, may_miss }).boxed(),
        3 => world_change().boxed(),
        2 => random_lines().prop_filter("it makes steps", |step| sense::idle(step).is_none()).boxed(),
        2 => question().boxed(),
    ];
    simple.prop_recursive(2, 12, 4, |inner| {
        let steps = vec(inner, 1..4);
        let branch = (name(), steps.clone()).prop_map(|(client, steps)| Branch { client, steps }).boxed();
        prop_oneof![
            branch.clone().prop_map(Step::Client),
            vec(branch, 1..3).prop_map(Step::Parallel),
            (1..9u32, steps).prop_map(|(times, steps)| Step::Repeat { times, steps }),
            vec(request().boxed().prop_filter("no loop", |s| !matches!(s, Step::Consume(_))), 1..4)
                .prop_map(Step::Pipeline),
        ]
    })
}

fn line() -> impl Strategy<Value = String> {
    "[a-zA-Z(/][a-zA-Z0-9 {}\"=/]{0,20}[a-z.]"
}

fn seeds() -> impl Strategy<Value = Seeds> {
    (any::<u32>(), 1..100u64).prop_map(|(start, n)| Seeds { start: start.into(), end: u64::from(start) + n })
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
        (numbers(0..999), numbers(1..9), numbers(0..99), numbers(0..9), weights)
            .prop_map(|(steps, keys, size, copied, weights)| {
                Step::Random(Random { steps, keys, size, copied, weights })
            })
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
