//! What unfolding promises: the same seed writes the same steps, and what it writes is an explicit scenario that can be
//! printed and read back.

use super::{MOVES, is_explicit, unfold};
use crate::oracle::decode;
use crate::scenario::{Content, Scenario, Step, Surgery, parse, print};

/// Every move, with every value of its world drawn.
fn everything() -> Scenario {
    moves("200 | 300")
}

fn moves(steps: &str) -> Scenario {
    let weights: Vec<String> = MOVES.iter().map(|name| format!("{name}=1")).collect();
    let text = format!(
        "scenario \"all moves\"\ndraw broker durability=\"os | always\" segment-bytes=\"256 | 4096\"\n\
         draw disk profile=\"strict | lying\"\ntopic orders partitions=2\n\
         random steps=\"{steps}\" keys=\"1 | 5\" size=100 copied=8 {{\n    weights {}\n}}\n",
        weights.join(" ")
    );
    parse("all", &text).expect("it is right")
}

#[test]
fn the_same_seed_writes_the_same_steps() {
    let scenario = everything();
    for seed in 0..20 {
        assert_eq!(unfold(&scenario, seed), unfold(&scenario, seed));
    }
    assert_ne!(unfold(&scenario, 1).steps, unfold(&scenario, 2).steps);
}

#[test]
fn what_it_writes_is_explicit_and_reads_back() {
    // Short ones: what takes the time is the reading.
    let scenario = moves("40 | 60");
    assert!(!is_explicit(&scenario));
    for seed in 0..40 {
        let explicit = unfold(&scenario, seed);
        assert!(is_explicit(&explicit));
        let text = print(&explicit);
        let read = parse("printed", &text).unwrap_or_else(|m| panic!("{:?}\n{text}", miette::Report::new(m)));
        assert_eq!(read, explicit, "seed {seed}:\n{text}");
        assert_eq!(unfold(&explicit, seed), explicit);
    }
}

#[test]
fn every_crash_is_followed_by_a_start_and_files_change_only_while_the_broker_is_down() {
    for seed in 0..40 {
        let mut up = true;
        for step in unfold(&everything(), seed).steps {
            match step {
                Step::Crash | Step::PowerLoss { .. } | Step::Stop => up = false,
                Step::Restart(_) => up = true,
                // A disk loses a sector at any time.
                Step::Surgery { surgery: Surgery::Unreadable { .. }, .. } => {}
                Step::Surgery { .. } => assert!(!up, "seed {seed} changes a file under a running broker"),
                Step::Produce(_) | Step::Consume(_) | Step::Fetch(_) => {
                    assert!(up, "seed {seed} asks a broker that it has not started");
                }
                _ => {}
            }
        }
        assert!(up, "seed {seed} leaves the broker down");
    }
}

#[test]
fn values_in_turn_are_all_combinations() {
    let text =
        "scenario \"x\" seeds=\"0..6\"\ntopic t\neach corrupt \"t/0/@last.log\" at=\"0..3\" xor=\"1 | 2\"\n";
    let scenario = parse("x", text).expect("it is right");
    let mut seen: Vec<String> =
        (0..6).map(|seed| format!("{:?}", unfold(&scenario, seed).steps[1])).collect();
    assert!(seen[0].contains("Byte(0)") && seen[1].contains("Byte(1)"), "seed n takes the nth: {seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 6);
    assert_eq!(unfold(&scenario, 6).steps, unfold(&scenario, 0).steps);
}

#[test]
fn a_new_move_does_not_change_the_records_of_the_others() {
    let block = |weights: &str| {
        let text = format!("scenario \"x\"\ntopic t\nrandom steps=400 {{\n    weights {weights}\n}}\n");
        let steps = unfold(&parse("x", &text).expect("it is right"), 3).steps;
        steps.into_iter().filter(|step| matches!(step, Step::Produce(_))).take(50).collect::<Vec<_>>()
    };
    assert_eq!(block("produce=1"), block("produce=1 crash=1 power-loss=1"));
}

/// A line that its list leaves with nothing to change is none.
#[test]
fn a_change_of_nothing_is_left_out_and_what_is_written_can_be_read() {
    let text = "scenario \"t\" seeds=\"0..2\"\ntopic orders\neach clock jump=\"- | 1h\"\ncrash\n";
    let scenario = parse("t", text).expect("it can be read");
    for (seed, steps) in [(0, 2), (1, 3)] {
        let explicit = unfold(&scenario, seed);
        assert_eq!(explicit.steps.len(), steps);
        assert_eq!(explicit.line_of(u32::try_from(steps - 1).expect("few")), Some(4));
        assert_eq!(parse("t", &print(&explicit)).ok(), Some(explicit));
    }
}

/// A reader that looks for records inside of a broken one finds them in such a value.
#[test]
fn some_values_hold_records_of_different_offsets() {
    let first = |step: &Step| match step {
        Step::Produce(produce) => match &produce.value {
            Content::Hex(bytes) => {
                Some(decode::record_at(bytes, 0).expect("a value of bytes is records").offset)
            }
            _ => None,
        },
        _ => None,
    };
    let offsets: std::collections::BTreeSet<u64> = (0..20)
        .flat_map(|seed| unfold(&everything(), seed).steps.iter().filter_map(first).collect::<Vec<_>>())
        .collect();
    assert!(offsets.len() > 3, "{offsets:?}");
}
