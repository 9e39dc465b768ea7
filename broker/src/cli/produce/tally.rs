//! What is known of each line, and how to go on where not all were stored: nothing missing, nothing twice.

use super::lines::LineSet;

/// So many different reasons are told.
const REASONS: usize = 5;

/// Longer lists of lines are better read from a file. Systems end at 128 KiB, and terminals take lines of 4 KiB.
const ARGUMENT_BYTES: usize = 4000;

/// Why lines are not stored.
#[derive(Debug, PartialEq)]
enum Reason {
    Refused(String),
    Unknown(String),
    /// Why no more are sent.
    End(String),
}

/// What is known of the lines so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Those of `--skip`.
    passed: LineSet,
    stored: LineSet,
    /// Sent, and certainly not stored.
    absent: LineSet,
    /// Sent, and nobody knows.
    unknown: LineSet,
    /// Those that will never be taken as they are.
    blamed: LineSet,
    /// None behind this one was sent.
    last_sent: u64,
    /// Why not all are stored: the first reasons, each with the lines that it is about.
    reasons: Vec<(LineSet, Reason)>,
}

impl Tally {
    pub fn new(passed: LineSet) -> Self {
        Self { passed, ..Self::default() }
    }

    /// How many lines were stored.
    pub fn stored(&self) -> u64 {
        self.stored.len()
    }

    /// Whether not all will be stored.
    pub fn is_troubled(&self) -> bool {
        !self.reasons.is_empty()
    }

    pub fn add_sent(&mut self, last: u64) {
        self.last_sent = self.last_sent.max(last);
    }

    pub fn was_sent(&self, line: u64) -> bool {
        line <= self.last_sent
    }

    pub fn add_stored(&mut self, line: u64) {
        self.stored.insert(line..=line);
    }

    /// These were sent and are not stored, for no reason of their own.
    pub fn add_absent(&mut self, lines: &LineSet) {
        self.absent = self.absent.and(lines);
    }

    pub fn add_refused(&mut self, lines: &LineSet, why: &str) {
        self.add_absent(lines);
        self.add_reason(lines, Reason::Refused(why.to_owned()));
    }

    pub fn add_unknown(&mut self, lines: &LineSet, why: &str) {
        self.unknown = self.unknown.and(lines);
        self.add_reason(lines, Reason::Unknown(why.to_owned()));
    }

    /// This one will never be taken.
    pub fn blame(&mut self, line: u64) {
        self.blamed.insert(line..=line);
    }

    /// Why it does not go on.
    pub fn add_end(&mut self, why: &str) {
        self.add_reason(&LineSet::default(), Reason::End(why.to_owned()));
    }

    fn add_reason(&mut self, lines: &LineSet, why: Reason) {
        if let Some((known, _)) = self.reasons.iter_mut().find(|(_, known)| *known == why) {
            *known = known.and(lines);
        } else if self.reasons.len() < REASONS {
            self.reasons.push((lines.clone(), why));
        }
    }

    /// Says all of it.
    pub fn report(&self) -> String {
        let reason = |(lines, reason): &(LineSet, Reason)| match reason {
            Reason::Refused(why) if lines.len() == 1 => format!("{lines} was refused: {why}"),
            Reason::Refused(why) => format!("{lines} were refused: {why}"),
            Reason::Unknown(why) => format!("{lines} may be stored or not: {why}"),
            Reason::End(why) => why.clone(),
        };
        let mut said: Vec<_> = self.reasons.iter().map(reason).collect();
        let known = [
            ("stored", &self.stored),
            ("sent, and not stored", &self.absent),
            ("sent, and stored or not (`broker consume` shows what is)", &self.unknown),
        ];
        if self.stored.is_empty() {
            said.push("no line stored".into());
        }
        let lines = known.iter().filter(|(_, lines)| !lines.is_empty());
        said.extend(lines.map(|(what, lines)| format!("{what}: {lines}")));
        if self.last_sent > 0 {
            said.push(format!("not sent: whatever follows line {}", self.last_sent));
        }
        said.push(format!("to go on with the same input: {}", self.ways()));
        said.join("\n  ")
    }

    /// How to go on.
    fn ways(&self) -> String {
        let stored = self.passed.and(&self.stored);
        match self.unknown.is_empty() {
            true => self.way(&stored),
            false => {
                let all = self.way(&stored.and(&self.unknown));
                let are = if self.unknown.len() == 1 { "is" } else { "are" };
                format!("{all}, if {} {are} stored; if not: {}", self.unknown, self.way(&stored))
            }
        }
    }

    /// How to send all but these.
    fn way(&self, skip: &LineSet) -> String {
        if self.blamed.is_empty() {
            return skip_option(skip);
        }
        let (blamed, without) = (&self.blamed, skip.and(&self.blamed));
        let (are, them) = if blamed.len() == 1 { ("is", "it") } else { ("are", "them") };
        format!(
            "{} when {blamed} {are} mended, or {} without {them}",
            skip_option(skip),
            skip_option(&without)
        )
    }
}

/// How to say `--skip` of these: a long list is too long for a command line.
fn skip_option(skip: &LineSet) -> String {
    let lines = skip.as_skip();
    match lines.len() <= ARGUMENT_BYTES {
        true => format!("--skip {lines}"),
        false => format!("--skip @FILE with a file that holds {lines}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(lines: &[u64]) -> LineSet {
        lines.iter().copied().collect()
    }

    #[test]
    fn a_refused_line_is_named_with_both_ways_to_go_on() {
        let mut tally = Tally::new(set(&[1]));
        tally.add_sent(4);
        [2, 4].into_iter().for_each(|line| tally.add_stored(line));
        tally.add_refused(&set(&[3]), "too long");
        tally.blame(3);
        assert_eq!(
            tally.report(),
            "line 3 was refused: too long\n  stored: lines 2, 4\n  sent, and not stored: line 3\n  \
             not sent: whatever follows line 4\n  \
             to go on with the same input: --skip 2,4 when line 3 is mended, or --skip 4 without it"
        );
    }

    #[test]
    fn what_nobody_knows_is_said_so() {
        let mut tally = Tally::default();
        tally.add_sent(9);
        (1..=4).for_each(|line| tally.add_stored(line));
        tally.add_unknown(&set(&[5, 6]), "the disk failed");
        tally.add_unknown(&set(&[7]), "the disk failed");
        tally.add_refused(&set(&[8, 9]), "fenced");
        assert_eq!(
            tally.report(),
            "lines 5 to 7 may be stored or not: the disk failed\n  lines 8 to 9 were refused: fenced\n  \
             stored: lines 1 to 4\n  sent, and not stored: lines 8 to 9\n  \
             sent, and stored or not (`broker consume` shows what is): lines 5 to 7\n  \
             not sent: whatever follows line 9\n  to go on with the same input: --skip 7, \
             if lines 5 to 7 are stored; if not: --skip 4"
        );
    }
}
