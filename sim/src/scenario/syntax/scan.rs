//! Looks at a file that cannot be read, word by word, for what people get wrong: quotes, braces, a missing value. The
//! format's own parser knows only where it gave up, which is often far from the cause.

use std::collections::BTreeSet;

use miette::SourceSpan;

use super::mistakes::Mistake;

/// A mistake, and how to go on reading without it.
#[derive(Debug)]
pub struct Broken {
    /// What is wrong.
    pub mistake: Mistake,
    /// What makes the rest readable, with every byte in its place.
    pub repair: Repair,
}

/// What makes the rest of a file readable.
#[derive(Clone, Copy, Debug)]
pub enum Repair {
    /// Leave out the line of this byte.
    Line(usize),
    /// Put a word that means nothing in the place of one, from this byte on and of this length.
    Word(usize, usize),
    /// Leave out what follows from this byte on, of this length.
    Rest(usize, usize),
    /// Put this character in the place of this byte.
    Byte(usize, u8),
    /// Close a block at the end.
    Close,
}

/// Words that need a block, where a missing `{` is the likely cause of a `}` too many.
const BLOCKS: [&str; 5] = ["repeat", "client", "parallel", "pipeline", "random"];

/// What is wrong with this text; nothing where it is something else than people usually get wrong.
pub fn scan(text: &str) -> Vec<Broken> {
    let ends = text.match_indices('\n').map(|(at, _)| at).collect();
    let mut scan = Scan {
        text,
        at: 0,
        broken: Vec::new(),
        ends,
        said: BTreeSet::new(),
        open: Vec::new(),
        blockless: None,
        first: true,
    };
    while scan.at < text.len() {
        scan.token();
    }
    for open in std::mem::take(&mut scan.open) {
        let message = "this `{` is never closed".to_owned();
        scan.say(open, 1, message, "opened here", "add a `}` after the block's last line", Repair::Close);
    }
    scan.broken
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    broken: Vec<Broken>,
    /// Where lines end.
    ends: Vec<usize>,
    /// Lines with a mistake from which the next ones may follow.
    said: BTreeSet<usize>,
    /// Where the blocks that are open began.
    open: Vec<usize>,
    /// The last line that should have had a block and has none: its word, and the line's end.
    blockless: Option<(usize, usize, usize)>,
    /// Whether the next word is the first of its line.
    first: bool,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn say(&mut self, at: usize, len: usize, message: String, label: &str, help: &str, repair: Repair) {
        let span = SourceSpan::new(at.into(), len);
        let mistake = Mistake { span, message, label: label.to_owned(), help: Some(help.to_owned()) };
        // One mistake a line is enough where the next ones may follow from it; from a word, nothing does.
        let line = self.ends.partition_point(|end| *end < at);
        if !self.said.contains(&line) {
            self.broken.push(Broken { mistake, repair });
            if !matches!(repair, Repair::Word(..)) {
                self.said.insert(line);
            }
        }
    }

    fn token(&mut self) {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return };
        match c {
            '\n' | ';' => {
                self.first = true;
                self.at += 1;
            }
            c if c.is_whitespace() => self.at += c.len_utf8(),
            _ if rest.starts_with("//") => self.at += rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => self.at += rest.find("*/").map_or(rest.len(), |end| end + 2),
            // The rarer kinds of strings are left to the format's parser.
            _ if rest.starts_with("\"\"\"") || rest.starts_with("#\"") => self.at = self.text.len(),
            '"' => self.string(),
            '{' => {
                self.open.push(self.at);
                self.blockless = None;
                self.first = true;
                self.at += 1;
            }
            '}' => self.close(),
            '=' => self.equals(),
            _ => self.word(),
        }
    }

    /// A text in quotes: it ends on its line, its escapes are known, and something separates it from what follows.
    fn string(&mut self) {
        let start = self.at;
        let mut chars = self.rest().char_indices().skip(1);
        let mut end = None;
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    end = Some(start + i + 1);
                    break;
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n' | 'r' | 't' | '"' | '\\' | 'b' | 'f' | 's' | 'u')) => {}
                    Some((_, c)) if !c.is_whitespace() => {
                        let message = format!("`\\{c}` means nothing in a text");
                        let len = 1 + c.len_utf8();
                        self.say(
                            start + i,
                            len,
                            message,
                            "here",
                            r"for a backslash, write `\\`",
                            Repair::Line(start),
                        );
                        break;
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        let Some(end) = end else {
            let line = self.rest().lines().next().unwrap_or_default().len();
            let message = "this text has no closing quote".to_owned();
            self.say(start, line, message, "no `\"` at its end", "add a `\"`", Repair::Line(start));
            self.at = start + line;
            return;
        };
        self.at = end;
        self.first = false;
        let next = self.rest().chars().next();
        if next.is_some_and(|c| !c.is_whitespace() && !"};={".contains(c)) && !self.rest().starts_with("//") {
            let inside = &self.text[start + 1..end - 1];
            let (message, help) = match inside.trim_end_matches('=').rsplit_once(char::is_whitespace) {
                // What ends this text began the next one.
                Some((before, name)) if inside.ends_with('=') && !name.is_empty() => (
                    "this text has no closing quote of its own".to_owned(),
                    format!("close it before ` {name}=`: `\"{}\" {name}=\"…\"`", before.trim_end()),
                ),
                _ => ("a space is missing after this text".to_owned(), "add a space".to_owned()),
            };
            self.say(start, end - start, message, "ends here", &help, Repair::Line(start));
        }
    }

    fn close(&mut self) {
        let at = self.at;
        self.at += 1;
        self.first = true;
        if self.open.pop().is_none() {
            match self.blockless.take() {
                Some((word, len, line_end)) => {
                    let name = self.text[word..word + len].to_owned();
                    let message = format!("`{name}` has no `{{`");
                    self.say(
                        word,
                        len,
                        message,
                        "its block starts after this line",
                        "end the line with `{`",
                        Repair::Byte(line_end, b'{'),
                    );
                }
                None => {
                    let message = "there is no `{` for this `}`".to_owned();
                    self.say(at, 1, message, "closes nothing", "remove it", Repair::Byte(at, b' '));
                }
            }
            return;
        }
        let after = self.rest().trim_start_matches([' ', '\t']);
        let next = after.chars().next();
        if next.is_some_and(|c| !"}\r\n;".contains(c)) && !after.starts_with("//") {
            let message = "there is more after `}` on its line".to_owned();
            let help = "start a new line after `}`";
            self.say(at, 1, message, "ends the block", help, Repair::Line(at));
        }
    }

    /// What follows `=` must be a value, and not the next property.
    fn equals(&mut self) {
        let at = self.at;
        self.at += 1;
        let line = self.rest().lines().next().unwrap_or_default();
        let after = line.trim_start();
        let word: usize =
            after.find(|c: char| c.is_whitespace() || "={}\"".contains(c)).unwrap_or(after.len());
        let next_property = word > 0 && after[word..].starts_with('=');
        if after.is_empty() || after.starts_with("//") || after.starts_with(['}', '{', '=']) || next_property
        {
            let before = self.text[..at].trim_end();
            let start = before.rfind(|c: char| c.is_whitespace() || "{}\"".contains(c)).map_or(0, |i| i + 1);
            let name = before[start..].to_owned();
            let message = format!("`{name}=` has no value");
            let help = format!("write `{name}=…`, or leave `{name}=` out");
            self.say(start, at + 1 - start, message, "nothing after this", &help, Repair::Line(at));
        }
    }

    fn word(&mut self) {
        let start = self.at;
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "{};=".contains(c)).unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        let line_len = rest.find('\n').unwrap_or(rest.len());
        if self.first && BLOCKS.contains(&word.as_str()) {
            let line_end = rest.find('\n').map_or(self.text.len(), |i| start + i);
            if line_end < self.text.len() {
                self.blockless = Some((start, end, line_end));
            }
        }
        // `#` may also stand before a word of the format, and after a value by mistake.
        if word == "#" || self.first && word.starts_with('#') {
            let message = "a comment begins with `//`".to_owned();
            self.at += line_len;
            let repair = Repair::Rest(start, line_len);
            self.say(start, 1, message, "not with this", "write `//` in its place", repair);
            return;
        }
        self.first = false;
        self.at += end;
        let repair = Repair::Word(start, end);
        if let Some(name) =
            word.split_once(':').filter(|(_, value)| value.starts_with('"')).map(|(name, _)| name)
        {
            let message = format!("`{word}` is not a property");
            self.say(start, end, message, "here", &format!("write `{name}=` before the value"), repair);
        } else if word.starts_with('(') {
            let message = "parentheses mean nothing here".to_owned();
            self.say(start, end, message, "here", "write the value without them, or in quotes", repair);
        } else if word.starts_with('#') && !is_keyword(&word) {
            self.say(start, end, format!("there is no `{word}`"), "here", "write `yes` or `no`", repair);
        } else if ["true", "false"].contains(&word.as_str()) {
            let message = format!("`{word}` must be in quotes, if it is text");
            self.say(start, end, message, "here", "for a yes or no, write `yes` or `no`", repair);
        } else if is_too_large(&word) {
            let message = format!("`{word}` is larger than any number here");
            self.say(start, end, message, "too many digits", "write a smaller number", repair);
        } else if needs_quotes(&word) {
            let message = format!("`{word}` must be in quotes");
            let text = word.strip_prefix('r').filter(|raw| raw.starts_with('"')).unwrap_or(&word);
            let help = format!("write `\"{}\"`", with_unit(text.trim_matches('"')));
            self.say(start, end, message, "needs quotes", &help, repair);
        }
    }
}

/// A number of bytes as the language writes it: `100KB` and `100k` are meant as `100KiB`.
fn with_unit(word: &str) -> String {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match word[digits.len()..].to_uppercase().as_str() {
        "K" | "KB" | "KIB" => "KiB",
        "M" if digits.len() < word.len() && word.ends_with('M') => "MiB",
        "MB" | "MIB" => "MiB",
        "G" | "GB" | "GIB" => "GiB",
        _ => return word.to_owned(),
    };
    let number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    if number { format!("{digits}{unit}") } else { word.to_owned() }
}

fn is_keyword(word: &str) -> bool {
    ["#true", "#false", "#null", "#inf", "#-inf", "#nan"].contains(&word)
}

/// Words that begin like a number and are none, and words with a character that stands for something else.
fn needs_quotes(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+']);
    let number_like = digits.starts_with(|c: char| c.is_ascii_digit());
    (number_like && !is_number(digits))
        || word.contains(['/', '\\', '(', ')', '[', ']', '"', '#']) && !is_keyword(word)
        || ["null", "inf", "nan", "-inf"].contains(&word)
}

/// Whether the format's numbers end before this one.
fn is_too_large(word: &str) -> bool {
    let digits = word.trim_start_matches(['-', '+']).replace('_', "");
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) && digits.parse::<i128>().is_err()
}

fn is_number(digits: &str) -> bool {
    let all = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c == '_' || c.is_digit(radix));
    let prefixed = |prefix, radix| digits.strip_prefix(prefix).is_some_and(|rest| all(rest, radix));
    let decimal = digits.split_once('.').map_or(all(digits, 10), |(whole, rest)| {
        let fraction = rest.split_once(['e', 'E']).map_or(rest, |(fraction, _)| fraction);
        all(whole, 10) && all(fraction, 10)
    });
    decimal || prefixed("0x", 16) || prefixed("0o", 8) || prefixed("0b", 2)
}
