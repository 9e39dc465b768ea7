//! From a failing scenario to a smaller one that fails in the same way.
//!
//! Every candidate is executed and judged like any scenario. It is taken only where it breaks the same promise in the same
//! way, or misses the same expectation, and nothing that did not fail before fails now: a step that has become impossible,
//! or a fault that no longer strikes, would make it another failure. The passes are repeated until none of them finds
//! anything, so in the result no step can go, and no value can be smaller in the ways that [`values`] knows.
//!
//! | file | is about |
//! | --- | --- |
//! | `same` | what makes two failures the same |
//! | `steps` | lists of steps, wherever they are nested: ranges that go, blocks that give way to what is in them |
//! | `undisturbed` | a scenario in which nothing goes wrong |
//! | [`values`] | one step, or the world, with less in it |

mod same;
mod steps;
mod undisturbed;
mod values;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use self::same::{missed, signature};
use self::undisturbed::undisturbed;
use crate::outcome::{Failure, Outcome, run};
use crate::patience::within;
use crate::scenario::syntax::{parse, print};
use crate::scenario::{Scenario, Seeds};

pub use steps::count;

/// So many seeds are tried beside the one that failed: the smallest one reads best.
const SEEDS: u64 = 4;

/// Why a scenario was not made smaller.
#[derive(Debug, thiserror::Error)]
pub enum NotShrunk {
    /// There is no failure to keep.
    #[error("nothing fails with seed {seed}, so there is nothing to shrink")]
    NothingFails {
        /// The seed.
        seed: u64,
    },
    /// A run does not come to its end. Its thread cannot be stopped, so no more are tried.
    #[error("a run of {steps} steps has not come to its end after {} s, so no more are tried", .patience.as_secs())]
    Hangs {
        /// How many steps it has.
        steps: usize,
        /// How long it was waited for.
        patience: Duration,
        /// The scenario that hangs.
        scenario: Box<Scenario>,
    },
    /// The system has no thread left.
    #[error("a run cannot be started: {0}")]
    NoThread(#[from] std::io::Error),
}

/// What a failing scenario was made into.
#[derive(Debug)]
pub struct Shrunk {
    /// The scenario, which fails as the first one did.
    pub scenario: Scenario,
    /// How it fails.
    pub outcome: Outcome,
    /// The promise and the kind that stayed the same.
    pub kind: String,
    /// Its steps before.
    pub before: usize,
    /// Its steps now.
    pub after: usize,
    /// How many candidates were executed.
    pub tries: u64,
    /// The candidate that ended the search before its time, where one did: it is another failure, and worth as much.
    pub hangs: Option<NotShrunk>,
    /// Whether whoever looks on ended it before its time.
    pub is_interrupted: bool,
}

/// Makes a failing scenario as small as it gets, where no run takes longer than `patience`; `progress` sees each candidate's
/// number, and the steps that are left, and says whether to try more.
pub fn shrink(
    scenario: &Scenario,
    seed: u64,
    patience: Duration,
    mut progress: impl FnMut(u64, usize) -> ControlFlow<()>,
) -> Result<Shrunk, NotShrunk> {
    let outcome = run_within(scenario, seed, patience)?;
    let Some(first) = outcome.failures.first() else { return Err(NotShrunk::NothingFails { seed }) };
    let kind = first.kind();
    let target = signature(first);
    // Beside a broken promise, expectations may be missed in any way.
    let exact = !matches!(first, Failure::Broken(_));
    let allowed = outcome.failures.iter().map(|failure| besides(failure, exact)).collect();
    let mut best = outcome.scenario.clone();
    best.sometimes.clear();
    let before = count(&best);
    let (lost, hangs, is_interrupted) = (missed(first), None, false);
    let (tries, progress) = (0, &mut progress);
    let mut search =
        Search { target, exact, lost, allowed, best, tries, patience, hangs, is_interrupted, progress };
    search.lost = search.lost.take().filter(|lost| search.is_met_undisturbed(&search.best, lost));
    while search.round() {}
    let Search { best, tries, hangs, is_interrupted, .. } = search;
    let scenario = titled(best, &kind, scenario, seed);
    let outcome = run_within(&scenario, scenario.seeds.start, patience)?;
    Ok(Shrunk { after: count(&scenario), scenario, outcome, kind, before, tries, hangs, is_interrupted })
}

fn run_within(scenario: &Scenario, seed: u64, patience: Duration) -> Result<Outcome, NotShrunk> {
    let candidate = scenario.clone();
    let ran = within(patience, move || run(&candidate, seed))?;
    let seeded = || Scenario { seeds: Seeds::one(seed), ..scenario.clone() };
    ran.ok_or_else(|| NotShrunk::Hangs { steps: count(scenario), patience, scenario: Box::new(seeded()) })
}

/// What a failure is, where it stands beside the one that is looked for.
fn besides(failure: &Failure, exact: bool) -> String {
    if exact { signature(failure) } else { failure.kind() }
}

struct Search<'a> {
    /// The failure that every candidate must have.
    target: String,
    exact: bool,
    /// The expectation that is missed, where it is met once nothing goes wrong: then it is, in every candidate.
    lost: Option<String>,
    /// What may fail besides: what failed from the beginning.
    allowed: BTreeSet<String>,
    best: Scenario,
    tries: u64,
    patience: Duration,
    /// What ended the search before its time.
    hangs: Option<NotShrunk>,
    is_interrupted: bool,
    progress: &'a mut dyn FnMut(u64, usize) -> ControlFlow<()>,
}

impl Search<'_> {
    /// Every pass once; whether any of them found anything.
    fn round(&mut self) -> bool {
        let mut smaller = self.fewer_steps();
        smaller |= self.each(steps::without_block);
        smaller |= self.each(values::smaller_step);
        smaller |= self.world();
        smaller |= self.seed();
        smaller
    }

    /// Takes a candidate that fails in the same way.
    fn attempt(&mut self, candidate: Scenario) -> bool {
        if candidate == self.best || self.hangs.is_some() || self.is_interrupted {
            return false;
        }
        self.tries += 1;
        let outcome = match run_within(&candidate, candidate.seeds.start, self.patience) {
            Ok(outcome) => outcome,
            Err(hangs) => {
                self.hangs = Some(hangs);
                return false;
            }
        };
        let same = outcome.failures.iter().any(|failure| signature(failure) == self.target)
            && outcome.failures.iter().all(|f| self.allowed.contains(&besides(f, self.exact)))
            && self.lost.as_ref().is_none_or(|lost| self.is_met_undisturbed(&candidate, lost))
            && can_be_read(&candidate);
        if same {
            self.best = candidate;
        }
        self.is_interrupted = (self.progress)(self.tries, count(&self.best)).is_break();
        same
    }

    /// Whether this expectation is met where nothing goes wrong.
    fn is_met_undisturbed(&self, scenario: &Scenario, expectation: &str) -> bool {
        let calm = undisturbed(scenario);
        let ran = run_within(&calm, calm.seeds.start, self.patience);
        let missed_here = |failure: &Failure| missed(failure).is_some_and(|missed| missed == expectation);
        ran.is_ok_and(|outcome| !outcome.failures.iter().any(missed_here))
    }

    /// Ranges of steps go: first halves, then quarters, down to single steps; from the end, where what follows the failure is.
    fn fewer_steps(&mut self) -> bool {
        let mut smaller = false;
        let mut list = 0;
        while let Some(len) = steps::len_of_list(&self.best, list) {
            let mut size = len.div_ceil(2).max(1);
            loop {
                let mut end = steps::len_of_list(&self.best, list).unwrap_or(0);
                while end > 0 {
                    let start = end.saturating_sub(size);
                    smaller |= self.attempt(steps::without_range(&self.best, list, start..end));
                    end = start;
                }
                if size == 1 {
                    break;
                }
                size = size.div_ceil(2);
            }
            list += 1;
        }
        smaller
    }

    /// Each step gives way to something smaller; one that did is tried again.
    fn each(&mut self, smaller_than: impl Fn(&Scenario, usize) -> Option<Vec<Scenario>>) -> bool {
        let mut smaller = false;
        let mut at = 0;
        while let Some(candidates) = smaller_than(&self.best, at) {
            match candidates.into_iter().any(|candidate| self.attempt(candidate)) {
                true => smaller = true,
                false => at += 1,
            }
        }
        smaller
    }

    fn world(&mut self) -> bool {
        let mut smaller = false;
        let mut at = 0;
        while let Some(candidate) = values::smaller_worlds(&self.best).get(at).cloned() {
            match self.attempt(candidate) {
                true => smaller = true,
                false => at += 1,
            }
        }
        smaller
    }

    fn seed(&mut self) -> bool {
        let seed = self.best.seeds.start;
        (0..SEEDS.min(seed)).any(|seed| {
            let candidate = Scenario { seeds: Seeds::one(seed), ..self.best.clone() };
            self.attempt(candidate)
        })
    }
}

/// Whether what would be written can be read again: the executor takes more than the language, such as a block with nothing in it.
fn can_be_read(scenario: &Scenario) -> bool {
    parse("candidate", &print(scenario)).is_ok()
}

/// A scenario says what it shows.
fn titled(mut scenario: Scenario, kind: &str, from: &Scenario, seed: u64) -> Scenario {
    if !from.title.starts_with(kind) {
        scenario.title = format!("{kind}, found by: {}", from.title);
        scenario.about =
            vec![format!("Fails with {kind}."), format!("Shrunk from seed {seed} of \"{}\".", from.title)];
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::PATIENCE;

    /// Nobody interrupts it.
    fn to_the_end(_: u64, _: usize) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// An expectation that cannot be met, between steps that have nothing to do with it.
    const WRONG: &str = r#"
        scenario "one step is wrong" seeds=9
        broker durability=always segment-bytes=4096
        topic orders partitions=3
        topic others
        repeat 3 {
            produce others size=50 count=4
        }
        parallel {
            client a { produce orders key="a" size=20; }
            client b { produce orders key="b" size=20; }
        }
        produce orders partition=2 value="hello" count=5 expect-offset=7
        crash
        restart
        produce others value="afterwards"
    "#;

    #[test]
    fn what_has_nothing_to_do_with_the_failure_goes() {
        let scenario = parse("wrong.kdl", WRONG).expect("it is a scenario");
        let shrunk = shrink(&scenario, 9, PATIENCE, to_the_end).expect("it fails");
        assert_eq!(shrunk.kind, "unmet expectation");
        assert_eq!(shrunk.after, 2, "{}", print(&shrunk.scenario));
        assert_eq!(shrunk.outcome.failures.first().map(crate::outcome::Failure::kind), Some(shrunk.kind));
    }

    #[test]
    fn who_interrupts_it_has_what_was_found_by_then() {
        let scenario = parse("wrong.kdl", WRONG).expect("it is a scenario");
        let mut tried = 0;
        let until_it_is_smaller = |tries, steps| {
            tried = tries;
            if steps < count(&scenario) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let shrunk = shrink(&scenario, 9, PATIENCE, until_it_is_smaller).expect("it fails");
        assert!(shrunk.is_interrupted && shrunk.tries == tried);
        assert!(2 < shrunk.after && shrunk.after < shrunk.before, "{} of {}", shrunk.after, shrunk.before);
        assert_eq!(shrunk.outcome.failures.first().map(crate::outcome::Failure::kind), Some(shrunk.kind));
    }

    /// The step that came out otherwise stays, and what came of it; and no other step makes up for it.
    #[test]
    fn the_expectation_that_was_missed_stays() {
        let text = r#"
            scenario "one byte too few"
            broker durability=always
            topic orders
            produce orders key="user-1" value="hello"
            fault write "*.log" power-loss=15
            produce orders key="user-2" value="world" expect=unknown
            fault truncate "*.log" during=recovery power-loss keep=nothing
            start expect=crashed
            start expect-cut=14
            consume orders expect-count=1
        "#;
        let scenario = parse("cut.kdl", text).expect("it is a scenario");
        let shrunk = shrink(&scenario, 0, PATIENCE, to_the_end).expect("it fails");
        let printed = print(&shrunk.scenario);
        let [Failure::Unmet { expected, found, .. }] = &shrunk.outcome.failures[..] else {
            panic!("{:?}\n{printed}", shrunk.outcome.failures)
        };
        assert_eq!((&**expected, &**found), ("bytes cut: 14", "15"), "{printed}");
        assert!(shrunk.after < 6, "{printed}");
    }

    /// What was lost is not what was never there: the fault that lost it stays, and what it was lost of.
    #[test]
    fn what_is_missing_because_of_a_fault_is_missing_because_of_it_afterwards() {
        let text = r#"
            scenario "lost"
            broker durability=always
            topic orders
            topic others
            fault sync "*.log" lost times=all
            produce orders key="k" value="v" count=10
            produce others key="k" value="v"
            power-loss keep=nothing
            start
            consume orders expect-count=10
            consume others
        "#;
        let scenario = parse("lost.kdl", text).expect("it is a scenario");
        let shrunk = shrink(&scenario, 0, PATIENCE, to_the_end).expect("it fails");
        let printed = print(&shrunk.scenario);
        for line in ["fault sync \"*.log\"", "produce orders", "count=10", "power-loss", "expect-count=10"] {
            assert!(printed.contains(line), "{line} is missing:\n{printed}");
        }
        assert!(!printed.contains("others"), "{printed}");
    }

    /// Without its `repeat`, a line has no round any more: what it said in the first one stays.
    #[test]
    fn a_line_that_loses_its_repeat_can_still_be_read() {
        let text = r#"
            scenario "rounds"
            topic orders
            repeat 3 {
                produce orders value="round {i}"
            }
            consume orders expect-value="other"
        "#;
        let scenario = parse("rounds.kdl", text).expect("it is a scenario");
        let shrunk = shrink(&scenario, 0, PATIENCE, to_the_end).expect("it fails");
        let printed = print(&shrunk.scenario);
        assert!(!printed.contains("repeat") && printed.contains("produce"), "{printed}");
        assert!(parse("shrunk.kdl", &printed).is_ok(), "{printed}");
    }

    /// Who is alone cannot be in anybody's way: the other client stays, and has something to do, since no file holds a block without.
    #[test]
    fn what_comes_of_it_can_be_read() {
        let text = r#"
            scenario "two clients,\nand a title of two lines"
            topic orders
            parallel {
                client a { check; }
                client b { produce orders value="v" count=2; advance "5ms"; }
            }
        "#;
        let scenario = parse("check.kdl", text).expect("it is a scenario");
        let shrunk = shrink(&scenario, 0, PATIENCE, to_the_end).expect("it fails");
        assert_eq!(shrunk.kind, "impossible step");
        let printed = print(&shrunk.scenario);
        assert!(shrunk.after < 4 && printed.contains("client b {"), "{printed}");
        let read = parse("shrunk.kdl", &printed).map(|read| read.steps);
        assert_eq!(read.map_err(|wrong| wrong.lines()), Ok(shrunk.scenario.steps), "{printed}");
    }

    /// What a step did not expect before, it does not expect afterwards: another build may answer otherwise.
    #[test]
    fn no_expectation_is_made_up() {
        let text = "scenario \"wrong\"\ntopic orders\nproduce orders expect=any expect-offset=7\n";
        let scenario = parse("wrong.kdl", text).expect("it is a scenario");
        let shrunk = shrink(&scenario, 0, PATIENCE, to_the_end).expect("it fails");
        let printed = print(&shrunk.scenario);
        assert!(printed.contains("expect=any"), "{printed}");
    }

    #[test]
    fn a_scenario_that_holds_is_left_alone() {
        let scenario = parse("right.kdl", "scenario \"nothing\"\ntopic orders\n").expect("it is a scenario");
        assert!(shrink(&scenario, 0, PATIENCE, to_the_end).is_err());
    }

    /// Without the line that disarms it, the fault keeps the run waiting; what was found before that is kept.
    #[test]
    fn a_candidate_that_does_not_end_is_given_beside_the_smallest_that_fails_as_before() {
        let text = r#"
            scenario "the wrong offset"
            fault write "*.log" stall="59m" may-miss
            topic orders
            calm
            produce orders value="v" expect-offset=7
            crash
            start
        "#;
        let scenario = parse("wait.kdl", text).expect("it is a scenario");
        let shrunk = shrink(&scenario, 0, Duration::from_secs(1), to_the_end).expect("it fails");
        assert_eq!(shrunk.kind, "unmet expectation");
        let printed = print(&shrunk.scenario);
        assert!(printed.contains("expect-offset=7") && !printed.contains("crash"), "{printed}");
        let Some(NotShrunk::Hangs { scenario: hanging, .. }) = &shrunk.hangs else {
            panic!("{:?}\n{printed}", shrunk.hangs)
        };
        let printed = print(hanging);
        assert!(printed.contains("stall=") && !printed.contains("calm"), "{printed}");
    }

    #[test]
    fn a_run_that_does_not_end_ends_the_search_and_is_named() {
        let text = "scenario \"long\"\ntopic orders\nadvance \"30m\"\nproduce orders expect=refused\n";
        let scenario = parse("long.kdl", text).expect("it is a scenario");
        let Err(NotShrunk::Hangs { steps, scenario: named, .. }) =
            shrink(&scenario, 3, Duration::from_millis(1), to_the_end)
        else {
            panic!("a million ticks take longer")
        };
        assert_eq!((steps, named.seeds), (3, Seeds::one(3)));
    }
}
