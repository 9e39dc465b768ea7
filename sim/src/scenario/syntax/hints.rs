//! What is wrong with a file that is not even KDL, and how to read the rest of it all the same.

use kdl::KdlError;
use miette::SourceSpan;

use super::mistakes::Mistake;
use super::scan::{Broken, Repair, scan};

/// The mistakes of a file that is no KDL, or that only seems to be, and the file with what is broken left out, every other
/// byte in its place.
pub fn of_syntax(text: &str, curly: Vec<Broken>, error: Option<&KdlError>) -> (Vec<Mistake>, String) {
    let broken = match error {
        Some(_) => with_others(text, curly),
        None => curly,
    };
    if let (true, Some(error)) = (broken.is_empty(), error) {
        let mistakes: Vec<Mistake> = error.diagnostics.iter().map(|d| in_parsers_words(text, d)).collect();
        let repairs = mistakes.iter().map(|mistake| Repair::Line(mistake.span.offset())).collect::<Vec<_>>();
        let rest = repaired(text, repairs.into_iter());
        return (mistakes, rest);
    }
    let rest = repaired(text, broken.iter().map(|broken| broken.repair));
    (broken.into_iter().map(|broken| broken.mistake).collect(), rest)
}

/// What else is broken, in other lines: in a line with curly quotes, the rest may follow from them.
fn with_others(text: &str, mut broken: Vec<Broken>) -> Vec<Broken> {
    let line = |broken: &Broken| line_around(text, broken.mistake.span.offset());
    let taken: Vec<_> = broken.iter().map(line).collect();
    broken.extend(scan(text).into_iter().filter(|other| !taken.contains(&line(other))));
    broken
}

/// What the format's parser says, shown on the last line that it looked at.
fn in_parsers_words(text: &str, diagnostic: &kdl::KdlDiagnostic) -> Mistake {
    let end = (diagnostic.span.offset() + diagnostic.span.len()).min(text.len());
    let looked = text.get(..end).unwrap_or(text).trim_end();
    let start = looked.rfind('\n').map_or(0, |i| i + 1).max(diagnostic.span.offset().min(looked.len()));
    Mistake {
        span: SourceSpan::new(start.into(), looked.len() - start),
        message: diagnostic.message.clone().unwrap_or_else(|| "this cannot be read".to_owned()),
        label: "near this".to_owned(),
        help: diagnostic.help.clone(),
    }
}

fn repaired(text: &str, repairs: impl Iterator<Item = Repair>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut close = 0;
    for repair in repairs {
        match repair {
            Repair::Line(offset) => {
                let (start, end) = line_around(text, offset);
                bytes[start..end].fill(b' ');
            }
            Repair::Rest(start, len) => {
                if let Some(rest) = bytes.get_mut(start..start + len) {
                    rest.fill(b' ');
                }
            }
            Repair::Word(start, len) => {
                if let Some(word) = bytes.get_mut(start..start + len) {
                    word.fill(b'_');
                }
            }
            Repair::Byte(at, byte) => {
                if let Some(old) = bytes.get_mut(at) {
                    *old = byte;
                }
            }
            Repair::Close => close += 1,
        }
    }
    bytes.extend(std::iter::repeat_n(b'}', close));
    String::from_utf8(bytes).unwrap_or_default()
}

/// Where the line of a byte begins and ends, without its line break.
fn line_around(text: &str, offset: usize) -> (usize, usize) {
    let offset = offset.min(text.len());
    let bytes = text.as_bytes();
    let start = bytes[..offset].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let end = bytes[offset..].iter().position(|b| *b == b'\n').map_or(text.len(), |i| offset + i);
    (start, end)
}
