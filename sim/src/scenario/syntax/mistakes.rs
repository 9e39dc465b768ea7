//! What is wrong with a scenario file, shown so that it can be mended: the place, the text, and what would have
//! worked.

use std::fmt::{self, Display};
use std::io::IsTerminal;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceSpan};

use super::excerpt::Excerpt;

/// Columns, where a report is wrapped.
const WIDTH: usize = 100;

/// Mistakes that are shown: whoever makes more makes the same ones.
const SHOWN_MAX: usize = 50;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where: bytes of the file.
    pub span: SourceSpan,
    /// What is wrong.
    pub message: String,
    /// What stands beside the underlined text.
    pub label: String,
    /// What would have worked.
    pub help: Option<String>,
}

/// All mistakes of a file, in its order.
#[derive(Clone, Debug)]
pub struct Mistakes {
    /// The file, by the name it was read under.
    pub name: String,
    /// The mistakes; at least one.
    pub list: Vec<Mistake>,
    source: NamedSource<String>,
}

impl Mistakes {
    /// These mistakes of this file.
    pub fn new(name: &str, text: &str, mut list: Vec<Mistake>) -> Self {
        for mistake in &mut list {
            mistake.message = shortened(&mistake.message);
            mistake.help = mistake.help.as_deref().map(shortened);
        }
        list.sort_by_key(|mistake| mistake.span.offset());
        list.dedup();
        Self { name: name.to_owned(), list, source: NamedSource::new(name, text.to_owned()) }
    }

    /// One line a mistake: `file:line:column: message; help`, or what stands beside the text where nothing helps.
    pub fn lines(&self) -> Vec<String> {
        self.list
            .iter()
            .map(|mistake| {
                let (line, column) = place(self.source.inner(), mistake.span.offset());
                let help = mistake.help.as_ref().unwrap_or(&mistake.label);
                format!("{}:{line}:{column}: {}; {help}", self.name, mistake.message)
            })
            .collect()
    }

    /// All of them for a person: place, text, what is underlined, and what would have worked.
    pub fn shown(&self) -> String {
        let handler = match std::io::stderr().is_terminal() {
            true => GraphicalReportHandler::new(),
            false => GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()),
        };
        let handler = handler.with_width(WIDTH);
        let mut out = String::new();
        for mistake in self.list.iter().take(SHOWN_MAX) {
            // A report that cannot be written has at least its line.
            if handler.render_report(&mut out, &self.placed(mistake)).is_err() {
                return self.lines().join("\n");
            }
            out.push('\n');
        }
        if let Some(more) = self.list.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            out.push_str(&format!("and {more} more\n"));
        }
        out
    }

    fn placed<'a>(&'a self, mistake: &'a Mistake) -> Placed<'a> {
        let text = self.source.inner();
        let (_, column) = place(text, mistake.span.offset());
        Placed { mistake, excerpt: Excerpt::new(&self.name, text, mistake.span, column) }
    }

    /// The text that a mistake underlines.
    pub fn underlined(&self, mistake: &Mistake) -> &str {
        let (start, len) = (mistake.span.offset(), mistake.span.len());
        self.source.inner().get(start..start + len).unwrap_or("")
    }
}

/// Characters of a message that is shown whole, and of each end of a longer one: it repeats a long word of the file.
const MESSAGE_MAX: usize = 400;
const END_SHOWN: usize = 120;

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MESSAGE_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(END_SHOWN).collect();
    let end: String = text.chars().skip(count - END_SHOWN).collect();
    format!("{start} … {end}")
}

/// Line and column, both from 1; a column is a character.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.len() {
            1 => write!(f, "{}: 1 mistake", self.name),
            n => write!(f, "{}: {n} mistakes", self.name),
        }
    }
}

impl std::error::Error for Mistakes {}

impl Diagnostic for Mistakes {
    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.source)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().map(|mistake| mistake as &dyn Diagnostic)))
    }
}

impl Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl Diagnostic for Mistake {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(Some(self.label.clone()), self.span))))
    }
}

/// A mistake with the text around it.
#[derive(Debug)]
struct Placed<'a> {
    mistake: &'a Mistake,
    excerpt: Excerpt<'a>,
}

impl Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mistake.fmt(f)
    }
}

impl std::error::Error for Placed<'_> {}

impl Diagnostic for Placed<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        self.mistake.help()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = Some(self.mistake.label.clone());
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(label, self.excerpt.span))))
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(&self.excerpt)
    }
}

/// The nearest of some words, where one is near enough to have been meant.
pub fn nearest<'a>(word: &str, options: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word of the language with a mistake in it is no longer than this; and to compare takes longer the longer it is.
    let word = Some(word).filter(|word| word.len() <= 64)?;
    let lower = word.to_lowercase();
    options
        .into_iter()
        .map(|option| (strsim::damerau_levenshtein(&lower, &option.to_lowercase()), option))
        .filter(|(distance, option)| *distance <= 1 + option.len().min(word.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, option)| option)
}
