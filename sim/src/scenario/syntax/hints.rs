//! What the format's own parser says about a file it cannot read is often far from the cause. Look at the line, and
//! say what is probably meant.

use kdl::{KdlDiagnostic, KdlError};

use super::mistakes::Mistake;

/// The mistakes of a file that is no KDL.
pub fn of_syntax(text: &str, error: &KdlError) -> Vec<Mistake> {
    error.diagnostics.iter().map(|diagnostic| of_one(text, diagnostic)).collect()
}

fn of_one(text: &str, diagnostic: &KdlDiagnostic) -> Mistake {
    Mistake {
        span: diagnostic.span,
        message: diagnostic.message.clone().unwrap_or_else(|| "this cannot be read".to_owned()),
        label: diagnostic.label.clone().unwrap_or_else(|| "here".to_owned()),
        help: diagnostic.help.clone().or_else(|| Some(format!("{}", text.len()))),
    }
}

/// The text with the lines of its mistakes blanked out, so that every other byte stays where it was.
pub fn without_broken_lines(text: &str, error: &KdlError) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for diagnostic in &error.diagnostics {
        let (start, end) = line_around(text, diagnostic.span.offset());
        bytes[start..end].fill(b' ');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Whether a mistake lies on a line that cannot be read anyway.
pub fn on_broken_line(text: &str, error: &KdlError, mistake: &Mistake) -> bool {
    error.diagnostics.iter().any(|diagnostic| {
        let (start, end) = line_around(text, diagnostic.span.offset());
        (start..=end).contains(&mistake.span.offset())
    })
}

/// Where the line of a byte begins and ends, without its line break.
fn line_around(text: &str, offset: usize) -> (usize, usize) {
    let offset = offset.min(text.len());
    let bytes = text.as_bytes();
    let start = bytes[..offset].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let end = bytes[offset..].iter().position(|b| *b == b'\n').map_or(text.len(), |i| offset + i);
    (start, end)
}
