//! What is shown of a file whose lines are too long to be shown whole: of each such line, what is around the place.

use std::borrow::Cow;
use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

/// Bytes of a line that is shown whole.
const LINE_MAX: usize = 240;
/// Bytes that are shown of a longer one …
const SHOWN: usize = 100;
/// … of which so many come before the place.
const BEFORE: usize = 40;

/// A text that can be shown, and where the place is in it.
#[derive(Debug)]
pub struct Excerpt<'a> {
    text: Cow<'a, str>,
    /// The place.
    pub span: SourceSpan,
    /// The file's name.
    name: String,
    /// The column of the place in the file itself, from 0.
    column: usize,
}

impl<'a> Excerpt<'a> {
    /// For this place in the text of this file; `column`: of the place, from 1.
    pub fn new(name: &str, text: &'a str, span: SourceSpan, column: usize) -> Self {
        let (shown, span) = match text.lines().any(|line| line.len() > LINE_MAX) {
            true => cut(text, span),
            false => (Cow::Borrowed(text), span),
        };
        Self { text: shown, span, name: name.to_owned(), column: column.saturating_sub(1) }
    }
}

/// The text with its long lines cut, and the span in what is left.
fn cut(text: &str, span: SourceSpan) -> (Cow<'_, str>, SourceSpan) {
    let (start, end) = (span.offset(), span.offset() + span.len());
    let (mut out, mut from, mut to, mut at) = (String::new(), 0, 0, 0);
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\n', '\r']);
        let here = (at..at + line.len()).contains(&start);
        let kept = window(body, if here { start - at } else { 0 });
        if kept.start > 0 {
            out.push('…');
        }
        let base = out.len();
        let place = |offset: usize| base + offset.clamp(at + kept.start, at + kept.end) - (at + kept.start);
        if at <= start {
            from = place(start);
        }
        if at < end {
            to = place(end);
        }
        out.push_str(&body[kept.clone()]);
        if kept.end < body.len() {
            out.push('…');
        }
        out.push_str(&line[body.len()..]);
        at += line.len();
    }
    (Cow::Owned(out), (from, to.saturating_sub(from)).into())
}

/// Which part of a line is shown, around this byte of it.
fn window(line: &str, focus: usize) -> Range<usize> {
    if line.len() <= LINE_MAX {
        return 0..line.len();
    }
    let boundary =
        |at: usize| (0..=at.min(line.len())).rev().find(|i| line.is_char_boundary(*i)).unwrap_or(0);
    let start = boundary(focus.saturating_sub(BEFORE));
    start..boundary(start + SHOWN)
}

impl SourceCode for Excerpt<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.text.as_ref().read_span(span, before, after)?;
        // Without lines before it, what is asked for is the place itself, to say where in the file that is.
        let column = if before == 0 { self.column } else { 0 };
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            found.line(),
            column,
            found.line_count(),
        )))
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    /// What is shown of the mistakes in a file, and its width.
    fn shown(text: &str) -> (String, usize) {
        let shown = parse("t.kdl", text).expect_err("there are mistakes in it").shown();
        let width = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        (shown, width)
    }

    #[test]
    fn a_mistake_far_out_in_a_line_is_shown_with_what_is_around_it() {
        for filler in ["a", "ä", "𝄞"] {
            let value = filler.repeat(70_000);
            let line = format!("produce orders value=\"{value}\" kex=\"1\" size=3");
            let (shown, width) = shown(&format!("scenario \"t\"\n{line}\n{line}\n"));
            assert!(shown.contains("[t.kdl:2:70025]"), "{shown}");
            assert!(
                shown.contains("\" kex=\"1\" size=3") && shown.contains("did you mean `key`?"),
                "{shown}"
            );
            assert!(width <= 150, "{width}\n{shown}");
        }
    }

    #[test]
    fn a_mistake_that_is_a_long_line_is_shown_with_its_beginning() {
        for line in [
            format!("produce orders value=\"{}", "a".repeat(100_000)),
            format!("sometimes {}", "a".repeat(100_000)),
            format!("crash\n{}", "x".repeat(100_000)),
            format!("repeat 2 {{\nzeros \"{}\" bytes=0\n}}", "a".repeat(100_000)),
        ] {
            let (shown, _) = shown(&format!("scenario \"t\"\n{line}\n"));
            assert!(shown.contains("t.kdl:2:") || shown.contains("t.kdl:3:"), "{shown}");
        }
    }
}
