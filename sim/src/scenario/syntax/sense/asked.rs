//! What cannot be asked for or expected of a request, since one property rules out the other.

use crate::scenario::{Consume, Expect};

/// What is wrong with a read or a list, and what to do about it.
type Wrong = Option<(String, String)>;

/// Whether no answer but an error can be what is expected.
fn fails(expect: Expect) -> bool {
    !matches!(expect, Expect::Ok | Expect::Any)
}

/// Of `consume` and `fetch`.
fn read(consume: &Consume) -> Wrong {
    let from = consume.from.unwrap_or(0);
    if let Some(until) = consume.until.filter(|until| *until <= from) {
        let message = format!("from {from} until {until} there is no offset to read");
        return Some((message, "say the offset after the last one: `until=` is not read itself".to_owned()));
    }
    if consume.expect_count == Some(0) && consume.expect_value.is_some() {
        let message = "where no record is expected, none has a value to expect";
        return Some((message.to_owned(), "remove the value, or expect another `expect-count=`".to_owned()));
    }
    None
}

/// Of `consume`, which may read much before an error.
pub(super) fn consume(consume: &Consume) -> Wrong {
    if consume.partition.is_none() && (consume.expect_start.is_some() || consume.expect_end.is_some()) {
        let message = "all partitions together have no first or last offset to expect";
        return Some((message.to_owned(), "say which: `partition=0`".to_owned()));
    }
    if fails(consume.expect) && consume.expect_end.is_some() {
        let message = "a read that ends with an error does not come to an end to expect";
        return Some((message.to_owned(), "remove `expect-end=`, or the `expect=`".to_owned()));
    }
    read(consume)
}

/// Of `fetch`, whose one answer has records or is an error.
pub(super) fn fetch(fetch: &Consume) -> Wrong {
    let counted = fetch.expect_count.is_some() || fetch.expect_value.is_some();
    let placed = fetch.expect_start.is_some() || fetch.expect_end.is_some();
    if fails(fetch.expect) && (counted || placed) {
        let message = "an answer that is an error has no records, no start and no end to expect";
        return Some((
            message.to_owned(),
            "remove `expect-count=` and the like, or the `expect=`".to_owned(),
        ));
    }
    read(fetch)
}

/// Of `list-topics` and `list-partitions`.
pub(super) fn list(expect: Expect, expect_count: Option<u32>) -> Wrong {
    (fails(expect) && expect_count.is_some()).then(|| {
        let message = "an answer that is an error lists nothing to expect";
        (message.to_owned(), "remove `expect-count=`, or the `expect=`".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    #[test]
    fn expectations_that_rule_each_other_out_are_mistakes() {
        for (line, words) in [
            ("consume orders expect-start=5", "say which: `partition=0`"),
            ("consume orders expect-end=5", "say which: `partition=0`"),
            ("consume orders expect-count=0 expect-value=\"v\"", "none has a value to expect"),
            ("fetch orders expect-count=0 expect-size=5", "none has a value to expect"),
            ("consume orders from=1 until=0", "from 1 until 0 there is no offset to read"),
            ("consume orders from=3 until=3", "from 3 until 3 there is no offset to read"),
            ("fetch orders until=0", "from 0 until 0 there is no offset to read"),
            ("consume orders partition=0 expect=CORRUPT expect-end=3", "does not come to an end to expect"),
            ("fetch orders expect=CORRUPT expect-value=\"v\"", "an answer that is an error has no records"),
            ("fetch orders expect=refused expect-count=1", "an answer that is an error has no records"),
            ("fetch orders expect=unknown expect-end=1", "an answer that is an error has no records"),
            ("list-partitions orders expect=UNKNOWN_TOPIC expect-count=1", "lists nothing to expect"),
            ("fetch orders expect=CORRUPT expect-count=0", "no records, no start and no end to expect"),
            ("list-topics expect=UNAVAILABLE expect-count=1", "lists nothing to expect"),
        ] {
            let found = parse("t.kdl", &format!("scenario \"t\"\n{line}\n")).expect_err(line).lines();
            assert!(found[0].starts_with("t.kdl:2:1: ") && found[0].contains(words), "{line}: {found:?}");
        }
        for line in [
            "consume orders expect=CORRUPT expect-count=2 expect-value=\"v{n}\"",
            "fetch orders expect=any expect-count=1 expect-start=0 expect-end=1",
            "fetch orders from=3 until=4",
        ] {
            assert!(parse("t.kdl", &format!("scenario \"t\"\n{line}\n")).is_ok(), "{line}");
        }
    }
}
