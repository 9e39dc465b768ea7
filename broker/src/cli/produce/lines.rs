//! Sets of lines of the input, by number from 1: what was stored, what was refused, what is to be passed over.

use std::fmt;
use std::ops::RangeInclusive;

use rangemap::RangeInclusiveSet;

use crate::cli::quantity;

/// So many ranges are shown to people.
const SHOWN: usize = 20;

/// What `--skip` takes.
const FORM: &str = "a number of lines, or one with lines behind it, as in 500,550,601-700";

/// Lines, as ranges of which no two touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSet(RangeInclusiveSet<u64>);

impl LineSet {
    /// Reads what [`LineSet::as_skip`] writes, or the file with it that is named behind an `@`.
    pub fn parse_skip(text: &str) -> Result<Self, String> {
        let Some(file) = text.strip_prefix('@') else { return Self::parse(text) };
        let read = std::fs::read_to_string(file).map_err(|e| format!("cannot read {file}: {e}"))?;
        Self::parse(read.trim()).map_err(|_| format!("{file} does not hold {FORM}"))
    }

    /// `N` for the first N lines, and behind it, separated by commas, lines and ranges of lines.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not {FORM}");
        let mut lines = Self::default();
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let first = match text.contains(',') {
            false => quantity::number::<u64>(first)?,
            true => first.parse().map_err(|_| wrong())?,
        };
        lines.insert(1..=first);
        for part in parts {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse().ok().zip(last.parse().ok());
            let (first, last) =
                range.filter(|(first, last)| 0 < *first && first <= last).ok_or_else(wrong)?;
            lines.insert(first..=last);
        }
        Ok(lines)
    }

    /// For `--skip`.
    pub fn as_skip(&self) -> String {
        let prefix = self.0.get(&1).map_or(0, |lines| *lines.end());
        let mut text = prefix.to_string();
        for (first, last) in self.ranges().filter(|(first, _)| *first > 1) {
            text += &match first == last {
                true => format!(",{first}"),
                false => format!(",{first}-{last}"),
            };
        }
        text
    }

    /// Adds lines.
    pub fn insert(&mut self, lines: RangeInclusive<u64>) {
        if !lines.is_empty() {
            self.0.insert(lines);
        }
    }

    /// The lines of both.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.0.extend(other.0.iter().cloned());
        both
    }

    /// Whether this line is in it.
    pub fn contains(&self, line: u64) -> bool {
        self.0.contains(&line)
    }

    /// The last line.
    pub fn last(&self) -> Option<u64> {
        self.0.iter().next_back().map(|lines| *lines.end())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many lines.
    pub fn len(&self) -> u64 {
        self.ranges().map(|(first, last)| last - first + 1).sum()
    }

    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|lines| (*lines.start(), *lines.end()))
    }
}

impl FromIterator<u64> for LineSet {
    fn from_iter<I: IntoIterator<Item = u64>>(lines: I) -> Self {
        let mut set = Self::default();
        lines.into_iter().for_each(|line| set.insert(line..=line));
        set
    }
}

/// For people: `line 2`, or `lines 1, 3 to 600`.
impl fmt::Display for LineSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.len() == 1 { "line " } else { "lines " })?;
        for (nth, (first, last)) in self.ranges().enumerate().take(SHOWN) {
            let comma = if nth == 0 { "" } else { ", " };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first} to {last}")?,
            }
        }
        match self.ranges().nth(SHOWN) {
            Some((first, _)) => write!(f, ", and others from {first} on"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_touch_are_one_range_in_whichever_order_they_come() {
        for lines in [[1, 2, 3, 5], [5, 3, 2, 1], [3, 1, 5, 2], [2, 5, 1, 3]] {
            let set: LineSet = lines.into_iter().chain(lines).collect();
            assert_eq!(set.to_string(), "lines 1 to 3, 5");
            assert_eq!(set.len(), 4);
            let contained: Vec<_> = (0..8).filter(|line| set.contains(*line)).collect();
            assert_eq!(contained, [1, 2, 3, 5]);
        }
        assert_eq!(LineSet::from_iter([7]).to_string(), "line 7");
        let mut all = LineSet::from_iter([1, 9, u64::MAX]);
        all.insert(2..=u64::MAX);
        assert_eq!(all.as_skip(), u64::MAX.to_string());
    }

    #[test]
    fn what_is_to_be_skipped_is_read_as_it_is_written() {
        for text in ["0", "7", "0,2", "500,550,601-700", "0,2-3,5,7-9"] {
            assert_eq!(LineSet::parse_skip(text).unwrap().as_skip(), text);
        }
        assert_eq!(LineSet::parse_skip("3,4,2-9").unwrap().as_skip(), "9");
        for text in ["", ",", "1,", "1,0", "1,3-2", "1,2-", "1,-2", "a", "-1", "1-2", "1,2,b"] {
            assert!(LineSet::parse_skip(text).is_err(), "{text:?}");
        }
    }
}
