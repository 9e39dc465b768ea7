//! What a text of a key or value holds in braces, for a run to fill in: `{n}` and `{i}`.

use super::{Content, Step, Surgery};

/// The number of the record within its step.
pub const RECORD: &str = "{n}";
/// The round of the innermost `repeat`.
pub const ROUND: &str = "{i}";

/// The text for record `n` in round `i`.
pub fn filled(text: &str, n: u64, i: u64) -> String {
    text.replace(RECORD, &n.to_string()).replace(ROUND, &i.to_string())
}

/// What looks like one of them and is none, braces included: another word, or the same one written otherwise.
pub fn mistyped(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(begin, _)| {
        let end = begin + text[begin..].find('}')?;
        let inside = text[begin + 1..end].trim();
        let word = inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && inside.chars().all(|c| c.is_ascii_alphanumeric() || "_-+".contains(c));
        let found = &text[begin..=end];
        (word && ![RECORD, ROUND].contains(&found)).then_some(found)
    })
}

/// Whether a step needs a `repeat` around it.
pub fn names_a_round(step: &Step) -> bool {
    let text = |content: &&mut Content| matches!(content, Content::Text(text) if text.contains(ROUND));
    match step {
        Step::Draw(draw) => draw.props.iter().any(|(name, values)| {
            TEXTS.contains(&name.as_str()) && values.iter().any(|value| value.contains(ROUND))
        }),
        step => contents(&mut step.clone()).iter().any(text),
    }
}

/// The steps as they are in one round of the `repeat` that they came out of.
pub fn in_round(steps: &[Step], round: u64) -> Vec<Step> {
    let mut steps = steps.to_vec();
    steps.iter_mut().for_each(|step| fill(step, round));
    steps
}

fn fill(step: &mut Step, round: u64) {
    match step {
        // Its rounds are its own.
        Step::Repeat { .. } => {}
        Step::Client(branch) => branch.steps.iter_mut().for_each(|step| fill(step, round)),
        Step::Pipeline(steps) => steps.iter_mut().for_each(|step| fill(step, round)),
        Step::Parallel(branches) => {
            branches.iter_mut().flat_map(|branch| &mut branch.steps).for_each(|step| fill(step, round));
        }
        step => {
            for content in contents(step) {
                if let Content::Text(text) = content {
                    *text = text.replace(ROUND, &round.to_string());
                }
            }
        }
    }
}

/// The properties that give contents as a text.
const TEXTS: [&str; 4] = ["key", "value", "expect-value", "text"];

/// All keys and values on a line.
fn contents(step: &mut Step) -> Vec<&mut Content> {
    match step {
        Step::Produce(produce) => produce.key.iter_mut().chain([&mut produce.value]).collect(),
        Step::Consume(consume) | Step::Fetch(consume) => consume.expect_value.iter_mut().collect(),
        Step::Send(send) => vec![&mut send.bytes],
        Step::Surgery { surgery: Surgery::Write { bytes, .. }, .. } => vec![bytes],
        Step::Surgery { surgery: Surgery::WriteRecord { key, value, .. }, .. } => {
            key.iter_mut().chain([value]).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_is_told_from_what_only_looks_like_one() {
        assert_eq!(filled("{n} of {i}, {n}", 5, 7), "5 of 7, 5");
        for (text, found) in [
            ("round {round}", "{round}"),
            ("{I}", "{I}"),
            ("{n}{N}", "{N}"),
            ("{ n }", "{ n }"),
            ("a {n+1}", "{n+1}"),
            ("{{i_}", "{i_}"),
        ] {
            assert_eq!(mistyped(text), Some(found), "{text}");
        }
        for text in ["", "{n}{i}", "{{n}}", "{}", "{", "}{", "{n", "{\"a\": 1}", "{0}", "{a.b}", "{a b}"] {
            assert_eq!(mistyped(text), None, "{text}");
        }
    }
}
