//! Looks over a text before it is parsed, past its strings and comments: how deep its blocks go, since the format's parser
//! goes as deep on its stack; how much stands in a row of what the parser also goes deeper for, or back over; how long it is; and
//! quotes that the format takes for letters.

use miette::SourceSpan;

use super::mistakes::Mistake;
use super::scan::{Broken, Repair};

/// Blocks, or comments, that may stand in each other.
const DEPTH_MAX: usize = 32;

/// Marks of what is left out (`/-`), of types (`(…)`), blocks and texts that may follow each other with nothing between.
const IN_A_ROW_MAX: usize = 8;

/// Bytes of a file: many times what anybody writes, or a run comes to its end with.
const BYTES_MAX: usize = 1 << 20;

/// Quotes of other alphabets and of word processors.
const CURLY: [char; 8] = ['“', '”', '„', '‟', '«', '»', '‘', '’'];

/// What there is outside of strings and comments that matters before a text is parsed.
struct Outline {
    /// Where it goes deeper than it may.
    too_deep: Option<usize>,
    /// Where one more stands in a row than may.
    too_many: Option<usize>,
    /// Where words begin with a curly quote.
    curly: Vec<usize>,
}

/// What the format's parser is not given: a text that is too long, a block that is in too many others, or too many marks in a row.
pub fn too_much(text: &str) -> Option<Mistake> {
    let said = |at: usize, message: String, label: &str, help: &str| Mistake {
        span: SourceSpan::new(at.into(), 1),
        message,
        label: label.to_owned(),
        help: Some(help.to_owned()),
    };
    if text.len() > BYTES_MAX {
        let message = format!("this file has {} bytes, and may have {BYTES_MAX}", text.len());
        let help =
            "say more with less: `repeat`, `count=`, or a generator's `random`; or make several files of it";
        return Some(said(0, message, "too long from here to its end", help));
    }
    let outline = outline(text);
    let deep = outline.too_deep.map(|at| {
        let message = format!("this is nested more than {DEPTH_MAX} deep");
        let help = "put fewer blocks into each other: a `repeat` can name a larger number instead";
        said(at, message, "one too many", help)
    });
    deep.or(outline.too_many.map(|at| {
        let message = format!(
            "more than {IN_A_ROW_MAX} of `/-`, `(…)`, `{{}}` or quotes stand in a row, and nothing between"
        );
        said(at, message, "one too many", "remove all but one of them")
    }))
}

/// Texts in curly quotes; one a line is enough.
pub fn curly(text: &str) -> Vec<Broken> {
    let mut found: Vec<Broken> = Vec::new();
    let mut line_end = 0;
    for at in outline(text).curly {
        if at < line_end {
            continue;
        }
        line_end = text[at..].find('\n').map_or(text.len(), |i| at + i);
        let line = &text[at..line_end];
        let inside = line.trim_start_matches(CURLY);
        let begin = line.len() - inside.len();
        let len = inside.find(|c| CURLY.contains(&c)).or(inside.find(char::is_whitespace));
        let inside = &inside[..len.unwrap_or(inside.len())];
        let close = line[begin + inside.len()..].chars().next().filter(|c| CURLY.contains(c));
        let len = begin + inside.len() + close.map_or(0, char::len_utf8);
        let mistake = Mistake {
            span: SourceSpan::new(at.into(), len),
            message: "this text has curly quotes, which are letters here".to_owned(),
            label: "no plain quotes".to_owned(),
            help: Some(format!("write `\"{inside}\"`")),
        };
        found.push(Broken { mistake, repair: Repair::Line(at) });
    }
    found
}

fn outline(text: &str) -> Outline {
    let mut found = Outline { too_deep: None, too_many: None, curly: Vec::new() };
    let (mut at, mut depth, mut begins) = (0, 0usize, true);
    let mut row = Row::default();
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if let Some((len, is_closed)) = string(rest) {
            if row.text(&rest[..len], is_closed, at) {
                found.too_many = found.too_many.or(Some(at));
            }
            (at, begins) = (at + len, false);
            continue;
        }
        if let Some(len) = line_comment(rest) {
            (at, begins) = (at + len, false);
            continue;
        }
        if rest.starts_with("/*") {
            let (len, deep) = block_comment(rest);
            found.too_deep = found.too_deep.or(deep.map(|deep| at + deep));
            (at, begins) = (at + len, true);
            continue;
        }
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if begins && CURLY.contains(&c) => found.curly.push(at),
            _ => {}
        }
        if row.character(rest, c) {
            found.too_many = found.too_many.or(Some(at));
        }
        if depth > DEPTH_MAX {
            found.too_deep = found.too_deep.or(Some(at));
        }
        begins = c.is_whitespace() || "={};".contains(c);
        at += c.len_utf8();
    }
    found
}

/// How many marks stand in a row, where the text is at.
#[derive(Default)]
struct Row {
    marks: usize,
    /// Inside of `(…)`.
    in_type: bool,
    /// Texts that touch each other, and where the last of them ended.
    texts: (usize, usize),
}

impl Row {
    /// A text in quotes, at this byte. Gives whether that is one too many. One that is not closed may be several.
    fn text(&mut self, text: &str, is_closed: bool, at: usize) -> bool {
        let (texts, end) = self.texts;
        self.texts = (if end == at { texts + 1 } else { 1 }, at + text.len());
        if !self.in_type {
            self.marks = 0;
        }
        self.texts.0 > IN_A_ROW_MAX || (!is_closed && text.matches('"').count() > IN_A_ROW_MAX)
    }

    /// A character that is in no text. Gives whether that is a mark, and one too many.
    fn character(&mut self, rest: &str, c: char) -> bool {
        let is_mark = rest.starts_with("/-") || c == '(' || c == '{';
        match c {
            _ if is_mark => self.marks += 1,
            // The other half of `/-`, what ends a mark, and what may stand between any two.
            '-' | '}' | '\\' => {}
            ')' => self.in_type = false,
            c if c.is_whitespace() || self.in_type => {}
            _ => self.marks = 0,
        }
        self.in_type |= c == '(';
        is_mark && self.marks > IN_A_ROW_MAX
    }
}

/// How long the string is that a text begins with, and whether it is closed. One that is never closed ends with its line, if it may have only one.
fn string(text: &str) -> Option<(usize, bool)> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    let quotes = match &text[hashes..] {
        rest if rest.starts_with("\"\"\"") => "\"\"\"",
        rest if rest.starts_with('"') => "\"",
        _ => return None,
    };
    let begin = hashes + quotes.len();
    let end = format!("{quotes}{}", "#".repeat(hashes));
    let mut escaped = false;
    for (i, c) in text[begin..].char_indices() {
        if !escaped && text[begin + i..].starts_with(&end) {
            return Some((begin + i + end.len(), true));
        }
        if c == '\n' && quotes.len() == 1 && !escaped {
            return Some((begin + i, false));
        }
        escaped = hashes == 0 && c == '\\' && !escaped;
    }
    Some((text.len(), false))
}

fn line_comment(text: &str) -> Option<usize> {
    text.starts_with("//").then(|| text.find('\n').unwrap_or(text.len()))
}

/// How long the comment is that a text begins with, and where it goes deeper than it may.
fn block_comment(text: &str) -> (usize, Option<usize>) {
    let (mut at, mut depth, mut deep) = (0, 0usize, None);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            deep = deep.or((depth > DEPTH_MAX).then_some(at));
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return (at, deep);
            }
        } else {
            at += c.len_utf8();
        }
    }
    (text.len(), deep)
}

#[cfg(test)]
mod tests {
    use crate::scenario::parse;

    fn mistakes(body: &str) -> Vec<String> {
        parse("t.kdl", &format!("scenario \"t\"\n{body}\n")).err().map_or_else(Vec::new, |m| m.lines())
    }

    /// `repeat` so many times in itself.
    fn nested(depth: usize) -> String {
        format!("{}crash\n{}", "repeat 1 {\n".repeat(depth), "}\n".repeat(depth))
    }

    #[test]
    fn blocks_that_go_too_deep_are_a_mistake_and_no_overflow() {
        for body in [nested(33), nested(50_000), "/*".repeat(100_000), "{".repeat(100_000)] {
            let found = mistakes(&body);
            assert!(found.len() == 1 && found[0].contains("nested more than 32 deep"), "{found:?}");
        }
        assert_eq!(mistakes(&nested(32)), [""; 0]);
    }

    /// The parser goes deeper for each of them, or back over all of them, and so has no end.
    #[test]
    fn what_stands_in_a_row_too_often_is_a_mistake_and_no_overflow() {
        for body in [
            format!("{}topic orders", "/- ".repeat(5000)),
            format!("{}topic orders", "/-\n".repeat(5000)),
            format!("topic {}orders", "(a)".repeat(50_000)),
            format!("topic {}orders", "(\"a\")".repeat(40_000)),
            format!("topic orders {}", "{}".repeat(50_000)),
            format!("topic orders {}", "{\n} ".repeat(20_000)),
            format!("topic orders {}x", "/- ".repeat(5000)),
            format!("topic orders {}", "\"\"\"".repeat(20_000)),
            format!("topic orders {}", "#\" ".repeat(20_000)),
            format!("topic orders {}\"", "#\" ".repeat(20_000)),
        ] {
            let found = mistakes(&body);
            assert!(found.len() == 1 && found[0].contains("stand in a row"), "{found:?}");
        }
        assert_eq!(mistakes("/- crash\n/- crash\ncrash"), [""; 0]);
        let many = "topic orders\n/- crash\n".repeat(100);
        assert_eq!(mistakes(&many), [""; 0], "each in a line of its own is none");
    }

    #[test]
    fn a_file_of_any_length_is_read_or_refused() {
        let found = mistakes(&"topic o;".repeat(150_000));
        assert!(found.len() == 1 && found[0].contains("this file has 1200"), "{found:?}");
        let lines = 5000;
        assert_eq!(mistakes(&"topic o =\n".repeat(lines)).len(), lines);
    }

    #[test]
    fn braces_in_strings_and_comments_are_no_blocks() {
        let braces = "{".repeat(50);
        for body in [
            format!("produce orders value=\"{braces}\""),
            format!("produce orders value=\"\\\"{braces}\""),
            format!("produce orders value=#\"\\\"{braces}\"#"),
            format!("produce orders value=\"\"\"\n    \"{braces}\n    \"\"\""),
            format!("crash // {braces}"),
            format!("crash /* /* {braces} */ {braces} */"),
        ] {
            assert_eq!(mistakes(&body), [""; 0], "{body}");
        }
    }

    #[test]
    fn curly_quotes_are_shown_with_plain_ones_in_their_place() {
        for (body, place, help) in [
            ("produce orders value=“hello”", "2:22", "write `\"hello\"`"),
            ("produce orders value=“hello world” key=“k”", "2:22", "write `\"hello world\"`"),
            ("produce orders value=„hello“", "2:22", "write `\"hello\"`"),
            ("produce orders value=«hello»", "2:22", "write `\"hello\"`"),
            ("produce orders value=‘hello’", "2:22", "write `\"hello\"`"),
            ("write “orders/0/x” text=\"x\"", "2:7", "write `\"orders/0/x\"`"),
        ] {
            let found = mistakes(body);
            assert_eq!(found.len(), 1, "{body}: {found:?}");
            assert!(found[0].starts_with(&format!("t.kdl:{place}: this text has curly quotes")), "{found:?}");
            assert!(found[0].ends_with(help), "{found:?}");
        }
        let other = mistakes("produce orders value=“hello”\ncrsh\nadvance 5s");
        assert_eq!(other.len(), 3, "no other mistake is hidden: {other:?}");
        assert_eq!(mistakes("produce orders value=\"“hello”\" // ”"), [""; 0]);
    }
}
