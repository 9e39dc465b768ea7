//! A place in the broker's source that syncs: what the disk is told of its caller, and what a person types to switch it off.

use std::fmt;
use std::str::FromStr;

use faults::Site;

/// A file and a line in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// The file, from the repository's top; the end of that path will do.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl SourceLine {
    /// Whether a caller stands there.
    pub fn is(&self, site: Site) -> bool {
        self.line == site.line && site.file.ends_with(&self.file)
    }
}

impl From<Site> for SourceLine {
    fn from(site: Site) -> Self {
        Self { file: site.file.to_owned(), line: site.line }
    }
}

impl FromStr for SourceLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
        let (file, line) =
            place.ok_or_else(|| format!("{text:?} is no place like broker/src/topic.rs:42"))?;
        Ok(Self { file: file.to_owned(), line })
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_as_it_is_shown_and_names_its_caller_only() {
        let place: SourceLine = "broker/src/topic.rs:42".parse().unwrap();
        assert_eq!(place.to_string(), "broker/src/topic.rs:42");
        let site = |line| Site { file: "broker/src/topic.rs", line, column: 9 };
        assert!(place.is(site(42)) && !place.is(site(43)));
        assert_eq!(SourceLine::from(site(42)), place);
        for wrong in ["topic.rs", "topic.rs:", "topic.rs:x", ""] {
            assert!(wrong.parse::<SourceLine>().is_err(), "{wrong:?}");
        }
    }
}
