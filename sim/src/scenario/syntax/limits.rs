//! What a file as a whole must obey, once each of its lines can be read: names that are taken, rounds of a `repeat` that is there,
//! what one run can hold, and seeds enough for all that `each` asks for. A mistake has the place of the line that goes too far.
//!
//! | file | is about |
//! | --- | --- |
//! | `spent` | what steps use up, and how much of it there is |
//! | `clients` | names of clients, and who waits for whom |

mod clients;
mod spent;

use kdl::KdlNode;

use self::spent::{Spent, TIME_MAX, longest_on_disk, longest_on_net, most};
use super::mistakes::Mistake;
use crate::scenario::placeholder::{self, ROUND};
use crate::scenario::random::alternatives;
use crate::scenario::{Branch, Draw, DrawHow, Scenario, Step};

/// Seeds that a file may name: a test runs all of them.
const SEEDS_MAX: u64 = 100_000;

/// What is wrong with the file as a whole.
pub fn check(scenario: &Scenario, nodes: &[KdlNode], text: &str) -> Vec<Mistake> {
    let mut walk = Walk {
        text,
        lines: scenario.lines.0.iter(),
        spent: Spent::default(),
        repeats: 0,
        inside: Vec::new(),
        waits: Vec::new(),
        mistakes: Vec::new(),
    };
    walk.steps(&scenario.steps, 1);
    let mut mistakes = walk.mistakes;
    mistakes.extend(slow_world(scenario, nodes));
    mistakes.extend(many_seeds(scenario, nodes));
    mistakes.extend(combinations(scenario, nodes));
    mistakes
}

/// Goes through the steps with their lines.
struct Walk<'a> {
    text: &'a str,
    /// The lines of the steps that are still to come.
    lines: std::slice::Iter<'a, u32>,
    spent: Spent,
    /// In how many `repeat` blocks the walk is.
    repeats: u32,
    /// The clients whose blocks the walk is in, the innermost last.
    inside: Vec<String>,
    /// Who waits for whom: a client for another, to whom it has handed a block.
    waits: Vec<(String, String)>,
    mistakes: Vec<Mistake>,
}

impl Walk<'_> {
    fn steps(&mut self, steps: &[Step], times: u64) {
        for step in steps {
            let line = self.lines.next().copied().unwrap_or(1);
            self.spend(step, times, line);
            if self.repeats == 0 && placeholder::names_a_round(step) {
                let message = format!("`{ROUND}` is the round of a `repeat`, and none is around this line");
                self.say(line, message, "write the number, or put the line into a `repeat`".to_owned());
            }
            match step {
                Step::Client(branch) => self.client(branch, times, line),
                Step::Parallel(branches) => self.parallel(branches, times, line),
                Step::Repeat { times: rounds, steps } => {
                    self.repeats += 1;
                    self.steps(steps, times.saturating_mul((*rounds).into()));
                    self.repeats -= 1;
                }
                Step::Pipeline(steps) => self.steps(steps, times),
                _ => {}
            }
        }
    }

    fn spend(&mut self, step: &Step, times: u64, line: u32) {
        let before = self.spent.too_much().is_some();
        self.spent += most(step).times(times);
        if let (false, Some((message, help))) = (before, self.spent.too_much()) {
            self.say(line, message, help.to_owned());
        }
    }

    fn say(&mut self, line: u32, message: String, help: String) {
        let line = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
        let whole = self.text.split_inclusive('\n').nth(line).unwrap_or_default();
        let begin: usize = self.text.split_inclusive('\n').take(line).map(str::len).sum();
        let indent = whole.len() - whole.trim_start().len();
        let span = (begin + indent, whole.trim().len()).into();
        self.mistakes.push(Mistake { span, message, label: "this line".to_owned(), help: Some(help) });
    }
}

/// Lines of the head by which a single wait would take longer than all steps may.
fn slow_world(scenario: &Scenario, nodes: &[KdlNode]) -> Vec<Mistake> {
    let waits = [("net", longest_on_net(&scenario.net)), ("disk", longest_on_disk(&scenario.disk))];
    let too_long = waits.into_iter().filter(|(_, wait)| *wait > TIME_MAX);
    let line = |word| nodes.iter().find(move |node| node.name().value() == word);
    let mistake = |node: &KdlNode| Mistake {
        span: node.span(),
        message: "with this line, a single wait can take more than an hour of simulated time".to_owned(),
        label: "this line".to_owned(),
        help: Some("wait less: a run ends after two hours of simulated time".to_owned()),
    };
    too_long.filter_map(|(word, _)| line(word)).map(mistake).collect()
}

/// A range of seeds that no run would come to the end of.
fn many_seeds(scenario: &Scenario, nodes: &[KdlNode]) -> Option<Mistake> {
    let count = scenario.seeds.count();
    if count <= SEEDS_MAX {
        return None;
    }
    let line = nodes.iter().find(|node| node.name().value() == "scenario")?;
    let named =
        line.entries().iter().find(|entry| entry.name().is_some_and(|name| name.value() == "seeds"))?;
    Some(Mistake {
        span: named.span(),
        message: format!("`seeds` names {count} seeds, and a file can name {SEEDS_MAX}"),
        label: "each of these is a run".to_owned(),
        help: Some("name fewer; `sim sweep FILE --seeds A..B` runs as many as you have time for".to_owned()),
    })
}

/// Where every line of a scenario takes its values in turn, its seeds go through all of them. Where something is drawn
/// besides, seeds are a sample anyway.
fn combinations(scenario: &Scenario, nodes: &[KdlNode]) -> Option<Mistake> {
    let mut draws: Vec<&Draw> = scenario.draws.iter().collect();
    let random = collect(&scenario.steps, &mut draws);
    if random || draws.is_empty() || draws.iter().any(|draw| draw.how == DrawHow::AtRandom) {
        return None;
    }
    let values =
        draws.iter().flat_map(|draw| &draw.props).map(|(_, values)| alternatives(values).len().max(1));
    let all = values.fold(1, |all: u64, one| all.saturating_mul(one as u64));
    let (seeds, node) = (scenario.seeds, nodes.iter().find_map(first_each)?);
    let named = seeds.count();
    let help = match all <= SEEDS_MAX {
        true => {
            let end = seeds.start.saturating_add(all);
            format!("say `seeds=\"{}..{end}\"` on the line `scenario`", seeds.start)
        }
        false => format!("list fewer values: a file can name {SEEDS_MAX} seeds"),
    };
    (named < all).then(|| Mistake {
        span: node.name().span(),
        message: format!("`each` makes {all} combinations, and `seeds` names {named}"),
        label: "not all of its values are tried".to_owned(),
        help: Some(help),
    })
}

/// Adds the drawn lines among these steps; whether one of the steps is a random block.
fn collect<'a>(steps: &'a [Step], draws: &mut Vec<&'a Draw>) -> bool {
    let mut random = false;
    for step in steps {
        match step {
            Step::Draw(draw) => draws.push(draw),
            Step::Random(_) => random = true,
            Step::Client(Branch { steps, .. }) | Step::Repeat { steps, .. } | Step::Pipeline(steps) => {
                random |= collect(steps, draws);
            }
            Step::Parallel(branches) => {
                for branch in branches {
                    random |= collect(&branch.steps, draws);
                }
            }
            _ => {}
        }
    }
    random
}

fn first_each(node: &KdlNode) -> Option<&KdlNode> {
    if node.name().value() == "each" { Some(node) } else { node.iter_children().find_map(first_each) }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    /// The lines with a mistake, and the mistakes.
    fn mistakes(head: &str, steps: &str) -> Vec<String> {
        let text = format!("scenario \"t\"{head}\ntopic orders\n{steps}\n");
        parse("t", &text).err().map_or_else(Vec::new, |mistakes| mistakes.lines())
    }

    #[test]
    fn a_round_needs_a_repeat_around_it() {
        for line in [
            "produce orders value=\"{i}\"",
            "produce orders key=\"{i}\" value=\"v\"",
            "consume orders expect-value=\"{n}.{i}\"",
            "fetch orders expect-value=\"{i}\"",
            "send text=\"{i}\"",
            "write \"x\" text=\"{i}\"",
            "write-record \"x\" offset=0 key=\"{i}\" value=\"v\"",
            "write-record \"x\" offset=0 value=\"{i}\"",
            "draw produce orders value=\"v | {i}\"",
            "client other { produce orders value=\"{i}\"; }",
            "pipeline { produce orders value=\"{i}\"; }",
        ] {
            let found = mistakes("", line);
            let [mistake] = &found[..] else { panic!("{line}: {found:?}") };
            assert!(mistake.starts_with("t:3:1: `{i}` is the round of a `repeat`"), "{mistake}");
            assert_eq!(mistakes("", &format!("repeat 2 {{\n{line}\n}}")), [""; 0], "{line}");
            assert_eq!(mistakes("", &format!("repeat 2 {{\ncrash\n}}\n{line}")).len(), 1, "{line}");
        }
    }

    #[test]
    fn seeds_that_leave_combinations_out_are_a_mistake() {
        let each = "each fault write \"*.log\" nth=\"1..4\" error=\"EIO | ENOSPC\"";
        let found = mistakes("", each);
        let [line] = &found[..] else { panic!("{found:?}") };
        assert!(line.starts_with("t:3:1: `each` makes 6 combinations, and `seeds` names 1"), "{line}");
        assert!(line.ends_with("say `seeds=\"0..6\"` on the line `scenario`"), "{line}");
        assert_eq!(mistakes(" seeds=\"2..7\"", each).len(), 1);
        assert_eq!(mistakes(" seeds=\"2..8\"", each), [""; 0]);
        let drawn = "draw topic a partitions=\"1..4\"\neach topic b partitions=\"1..4\"";
        assert_eq!(mistakes("", drawn), [""; 0], "seeds are a sample");
        let inside = "repeat 2 {\n    advance \"1ms\"\n    each produce orders count=\"1 | 2\"\n}";
        assert_eq!(mistakes("", inside).len(), 1);
    }

    #[test]
    fn more_seeds_than_a_run_comes_to_the_end_of_are_a_mistake() {
        for seeds in ["0..99999999999999", "0..18446744073709551615", "5..100006"] {
            let found = mistakes(&format!(" seeds=\"{seeds}\""), "crash");
            let [line] = &found[..] else { panic!("{seeds}: {found:?}") };
            assert!(line.starts_with("t:1:14: `seeds` names ") && line.contains("`sim sweep"), "{line}");
        }
        for seeds in ["\"5..100005\"", "18446744073709551615"] {
            assert_eq!(mistakes(&format!(" seeds={seeds}"), "crash"), [""; 0], "{seeds}");
        }
        let each = "each fault write \"*.log\" nth=\"1..1000\" at-byte=\"0..1000\" full";
        let found = mistakes("", each);
        assert!(
            found.len() == 1 && found[0].ends_with("list fewer values: a file can name 100000 seeds"),
            "{found:?}"
        );
    }

    #[test]
    fn a_client_has_a_name_of_its_own() {
        for taken in ["broker", "client", "\"10.0.0.1\"", "\"\""] {
            let found = mistakes("", &format!("client {taken} {{\n    crash\n}}"));
            assert!(
                found.len() == 1 && found[0].starts_with("t:3:1: a client cannot be called"),
                "{found:?}"
            );
        }
        let found = mistakes("", "parallel {\n    client a { crash; }\n    client broker { start; }\n}");
        assert!(found.len() == 1 && found[0].starts_with("t:5:5: "), "{found:?}");
    }

    #[test]
    fn clients_that_would_wait_for_each_other_are_found_before_they_do() {
        let nested = "client a {\n    client b {\n        client a { crash; }\n    }\n}";
        let cross = "parallel {\n    client a {\n        client b { crash; }\n    }\n    \
                     client b {\n        client a { crash; }\n    }\n}";
        for (steps, line) in [
            ("client a {\n    client a { crash; }\n}", "t:4:5: the client `a` would wait for itself"),
            (nested, "t:5:9: the client `a` would wait for itself"),
            (cross, "t:3:1: the clients `a` and `b` may each wait for the other"),
            (
                "parallel {\n    client a { crash; }\n    client a { start; }\n}",
                "t:5:5: the client `a` has two blocks here",
            ),
        ] {
            let found = mistakes("", steps);
            assert!(found.len() == 1 && found[0].starts_with(line), "{found:?}");
        }
        let handed =
            "parallel {\n    client a { client b { crash; }; }\n    client c { client b { start; }; }\n}";
        assert_eq!(mistakes("", handed), [""; 0]);
        assert_eq!(
            mistakes("", "client a { client b { crash; }; }\nclient b { client a { start; }; }"),
            [""; 0]
        );
    }

    #[test]
    fn what_no_run_can_hold_is_found_before_it_runs() {
        let lines = [
            "produce orders count=100000000",
            "produce orders size=\"2GiB\"",
            "repeat 4000 { produce orders size=\"1MiB\"; }",
            "repeat 100000 { repeat 100000 { crash; }; }",
            "advance \"30d\"",
            "repeat 100 { advance \"1m\"; }",
            "draw fault sync \"*\" stall=\"1ms | 1d\"",
            "draw fault sync \"*\" stall=\"1ms | 1d | 2ms\"",
            "draw produce orders count=\"1 | 1000000000 | 2\"",
            "draw produce orders count=\"1 | 1000\" size=\"0 | 10MiB | 9\"",
            "draw produce orders size=\"0 | 10MiB | 9\" count=\"1 | 1..1000 | 1\"",
            "stop\nzeros \"a\" bytes=\"2GiB\"",
            "truncate \"a\" to=10000000000000",
            "zeros \"a\" at=10000000000000 bytes=1",
            "write \"a\" at=10000000000000 text=\"x\"",
            "write-entry \"a\" at=10000000000000 offset=1 position=1",
            "receive within=\"3h\"",
            "fetch orders wait=\"3h\"",
            "repeat 100 { consume orders wait=\"1m\"; }",
            "receive within=\"200000000000000d\"",
            "send size=1000 chunk-bytes=1 every=\"1m\"",
            "fault sync \"*\" stall=\"3h\"",
            "net timeout=\"3h\"",
            "disk sync-latency=\"0ms..3h\"",
            "open count=20000",
            "repeat 100 { open count=200; close; }",
        ];
        for line in lines {
            let found = mistakes("", line);
            assert!(found.len() == 1 && found[0].contains("with this line, "), "{line}: {found:?}");
        }
        for head in ["net timeout=\"3h\"", "disk latency=\"0ms..2h\""] {
            let found = mistakes(&format!("\n{head}"), "crash");
            assert!(
                found.len() == 1 && found[0].starts_with("t:2:1: with this line, a single wait"),
                "{found:?}"
            );
        }
        assert_eq!(mistakes("", "produce orders count=1000 size=1000\nadvance \"5m\""), [""; 0]);
    }
}
