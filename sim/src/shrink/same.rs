//! What must stay the same when a failing scenario is made smaller.
//!
//! Of a broken promise that is the promise, and the way in which it is broken. What a step said must come is the writer's own
//! claim: it stays word for word, at a step of the same word, and what came stays alike: the same words in it, other numbers
//! and texts. Where both are a number, it stays on the same side of the other, and 0 stays 0: where 15 bytes were cut and
//! 14 expected, a run that cuts none has failed in another way. And where it is met once nothing goes wrong any more, it stays
//! so: what is missing because it was lost is not what was never there.

use std::cmp::Ordering;

use crate::outcome::Failure;

/// What stays the same.
pub(super) fn signature(failure: &Failure) -> String {
    let kind = failure.kind();
    match failure {
        Failure::Unmet { text, expected, found, .. } => {
            let side = match (number(expected), number(found)) {
                (Some(_), Some(0)) => " (0)",
                (Some(expected), Some(found)) => match found.cmp(&expected) {
                    Ordering::Less => " (less)",
                    Ordering::Equal => "",
                    Ordering::Greater => " (more)",
                },
                _ => "",
            };
            format!("{kind}: {} expected {expected}, found {}{side}", words(text, 1), shape(found))
        }
        Failure::Impossible { text, why, .. } => format!("{kind}: {}, {}", words(text, 1), shape(why)),
        Failure::Inert { text, struck, .. } => {
            let some = if *struck > 0 { ", struck" } else { "" };
            format!("{kind}: {}{some}", words(text, 2))
        }
        Failure::Broken(_) | Failure::Panic(_) | Failure::Stuck(_) | Failure::Harness(_) => kind,
    }
}

/// The expectation that was missed, whatever came; none where that is no expectation.
pub(super) fn missed(failure: &Failure) -> Option<String> {
    match failure {
        Failure::Unmet { text, expected, .. } => Some(format!("{} expected {expected}", words(text, 1))),
        _ => None,
    }
}

/// The first words of a step.
fn words(text: &str, count: usize) -> String {
    text.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

/// The number in a text that has exactly one.
fn number(text: &str) -> Option<u64> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.next().filter(|_| numbers.next().is_none())?.parse().ok()
}

/// A text without its numbers and quoted texts; of a list, its last part, since lists get shorter.
fn shape(text: &str) -> String {
    let last = text.rsplit(" · ").next().unwrap_or_default();
    let mut shape = String::new();
    let (mut quoted, mut digits) = (false, false);
    for c in last.chars() {
        if c == '"' {
            quoted = !quoted;
        } else if !(quoted || c.is_ascii_digit() && digits) {
            shape.push(if c.is_ascii_digit() { 'n' } else { c });
        }
        digits = c.is_ascii_digit();
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unmet(text: &str, expected: &str, found: &str) -> String {
        let (text, expected, found) = (text.into(), expected.into(), found.into());
        signature(&Failure::Unmet { step: 0, line: None, text, expected, found })
    }

    #[test]
    fn numbers_and_texts_may_change_and_what_they_say_may_not() {
        let cut = |found| unmet("start expect-cut=14", "bytes cut: 14", found);
        assert_eq!(cut("15"), cut("20"));
        for other in ["0", "3", "the broker is already running"] {
            assert_ne!(cut("15"), cut(other));
        }
        let consume = |found| unmet("consume orders", "CORRUPT", found);
        assert_eq!(consume("0 \"a\" · 1 \"b\" · end 2"), consume("0 \"long\" · end 1"));
        assert_ne!(consume("end 2"), consume("refused FENCED"));
        assert_ne!(consume("end 2"), unmet("fetch orders", "CORRUPT", "end 2"));
    }
}
