//! Lines of standard input become records, a batch at a time.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use broker::record::NewRecord;
use broker::settings::Settings;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::Args;
use super::lines::LineSet;
use crate::cli::output::say;
use crate::cli::quantity::count;

/// A request holds lines up to about this many bytes; a longer line is alone in its own.
const BATCH_BYTES: usize = 1 << 20;

/// A record that was a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Counting from 1.
    pub number: u64,
    pub record: NewRecord,
}

impl Line {
    /// Bytes of key and value.
    pub fn bytes(&self) -> usize {
        self.record.key.as_ref().map_or(0, Bytes::len) + self.record.value.len()
    }
}

/// The lines of one request, in their order.
pub type Batch = VecDeque<Line>;

/// Why there are no more lines.
#[derive(Clone, Debug, PartialEq)]
pub struct BadInput {
    /// The line that is to blame, where one is.
    pub line: Option<u64>,
    pub why: String,
}

/// Reads lines on a thread of its own, since standard input can only be waited for by blocking. An error: there is no thread for it.
pub fn read_lines(args: &Args) -> io::Result<mpsc::Receiver<Result<Batch, BadInput>>> {
    let (sender, receiver) = mpsc::channel(2);
    let mut reader = Reader::new(args);
    let read = move || {
        let mut input = io::BufReader::with_capacity(256 << 10, io::stdin().lock());
        // Ends when the input does, or when nobody wants it any more.
        while let Some(read) = reader.next(&mut input).transpose() {
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
        if let Some(said) = reader.skipped_beyond_the_end() {
            say(format_args!("{said}"));
        }
    };
    std::thread::Builder::new().name("input".into()).spawn(read)?;
    Ok(receiver)
}

/// What was read.
enum Read {
    Line(Line),
    PassedOver,
    End,
}

/// Makes records of lines.
struct Reader {
    key: Option<Bytes>,
    separator: Option<String>,
    batch: usize,
    skip: LineSet,
    /// No server takes a longer one.
    line_bytes: usize,
    /// The number of the last line read.
    number: u64,
    /// What was read and belongs into the next batch.
    ahead: Option<Result<Line, BadInput>>,
}

impl Reader {
    fn new(args: &Args) -> Self {
        let separator = args.key_separator.clone();
        let record = Settings::RECORD_BYTES_MAX as usize;
        Self {
            key: args.key.as_ref().map(|key| Bytes::from(key.clone())),
            line_bytes: record + separator.as_ref().map_or(0, String::len),
            separator,
            batch: args.batch as usize,
            skip: args.skip.clone(),
            number: 0,
            ahead: None,
        }
    }

    /// The next lines: as many as are there, up to a full batch. A person who types does not wait for a thousand lines.
    /// What is wrong with a line is told when those before it have been given out.
    fn next(&mut self, input: &mut io::BufReader<impl io::Read>) -> Result<Option<Batch>, BadInput> {
        let (mut batch, mut bytes) = (Batch::new(), 0);
        while batch.len() < self.batch {
            let next = match self.ahead.take() {
                Some(next) => next,
                None if !batch.is_empty() && !input.buffer().contains(&b'\n') => break,
                None => match self.read(input) {
                    Ok(Read::Line(line)) => Ok(line),
                    Ok(Read::PassedOver) => continue,
                    Ok(Read::End) => break,
                    Err(bad) => Err(bad),
                },
            };
            match next {
                Ok(line) if batch.is_empty() || bytes + line.bytes() <= BATCH_BYTES => {
                    bytes += line.bytes();
                    batch.push_back(line);
                }
                Err(bad) if batch.is_empty() => return Err(bad),
                next => {
                    self.ahead = Some(next);
                    break;
                }
            }
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Reads the next line.
    fn read(&mut self, input: &mut impl BufRead) -> Result<Read, BadInput> {
        let number = self.number + 1;
        let failed =
            |e| BadInput { line: None, why: format!("cannot read the input from line {number} on: {e}") };
        if self.skip.contains(number) {
            if input.skip_until(b'\n').map_err(failed)? == 0 {
                return Ok(Read::End);
            }
            self.number = number;
            return Ok(Read::PassedOver);
        }
        let mut line = Vec::new();
        // One for the line feed.
        io::Read::take(&mut *input, self.line_bytes as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        if line.is_empty() {
            return Ok(Read::End);
        }
        self.number = number;
        line.pop_if(|last| *last == b'\n');
        self.line(line).map(Read::Line).map_err(|why| BadInput { line: Some(number), why })
    }

    /// At the end of the input: whether it was to go on longer. It may be another input than the one that `--skip` was made for.
    fn skipped_beyond_the_end(&self) -> Option<String> {
        let last = self.skip.last().filter(|last| *last > self.number)?;
        Some(format!(
            "--skip names lines up to {last}, and the input has {}: is it the same input?",
            count(self.number, "line")
        ))
    }

    fn line(&self, line: Vec<u8>) -> Result<Line, String> {
        let number = self.number;
        if line.len() > self.line_bytes {
            return Err(format!(
                "line {number} is longer than {} bytes, which is more than any server stores in one record",
                self.line_bytes
            ));
        }
        let line = Bytes::from(line);
        let Some(separator) = &self.separator else {
            return Ok(Line { number, record: NewRecord { key: self.key.clone(), value: line } });
        };
        let at = line.windows(separator.len().max(1)).position(|w| w == separator.as_bytes());
        let at = at.ok_or_else(|| format!("line {number} has no {separator:?} between key and value"))?;
        let (key, value) = (Some(line.slice(..at)), line.slice(at + separator.len()..));
        Ok(Line { number, record: NewRecord { key, value } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(separator: Option<&str>, batch: usize, skip: &str) -> Reader {
        let (separator, skip) = (separator.map(str::to_owned), LineSet::parse_skip(skip).unwrap());
        Reader { key: None, separator, batch, skip, line_bytes: 4 << 20, number: 0, ahead: None }
    }

    /// The batches, and what is wrong with what follows.
    fn read(text: &[u8], mut reader: Reader) -> (Vec<Batch>, Option<BadInput>) {
        let mut input = io::BufReader::new(text);
        let mut all = Vec::new();
        loop {
            match reader.next(&mut input) {
                Ok(Some(batch)) => all.push(batch),
                Ok(None) => return (all, None),
                Err(bad) => return (all, Some(bad)),
            }
        }
    }

    fn line(number: u64, value: &'static str) -> Line {
        Line { number, record: NewRecord { key: None, value: value.into() } }
    }

    #[test]
    fn each_line_is_a_record_byte_for_byte() {
        let (all, bad) = read(b"a\r\n\n b", reader(None, 2, "0"));
        assert_eq!(all, [vec![line(1, "a\r"), line(2, "")], vec![line(3, " b")]]);
        assert_eq!(bad, None);
        assert_eq!(read(b"", reader(None, 2, "0")), (vec![], None));
    }

    #[test]
    fn skipped_lines_are_counted() {
        let text = b"a\nb\nc\nd\ne\n";
        let (all, _) = read(text, reader(None, 2, "1"));
        assert_eq!(all, [vec![line(2, "b"), line(3, "c")], vec![line(4, "d"), line(5, "e")]]);
        let (all, _) = read(text, reader(None, 2, "0,2-3"));
        assert_eq!(all, [vec![line(1, "a"), line(4, "d")], vec![line(5, "e")]]);
        assert_eq!(read(text, reader(None, 2, "5")), (vec![], None));
        assert_eq!(read(text, reader(None, 2, "9")), (vec![], None));
    }

    #[test]
    fn lines_that_the_input_does_not_have_are_told() {
        let said = |text: &[u8], skip| {
            let (mut reader, mut input) = (reader(None, 2, skip), io::BufReader::new(text));
            while reader.next(&mut input).unwrap().is_some() {}
            reader.skipped_beyond_the_end()
        };
        for (text, skip) in [("a\nb", "0"), ("a\nb", "2"), ("a\nb\n", "0,2"), ("", "0")] {
            assert_eq!(said(text.as_bytes(), skip), None, "{skip}");
        }
        for (text, skip, lines) in
            [("a\nb", "3", "2 lines"), ("a\n", "0,2-9", "1 line"), ("", "1", "0 lines")]
        {
            let said = said(text.as_bytes(), skip).unwrap();
            assert!(said.contains(&format!("the input has {lines}:")), "{said}");
        }
    }

    #[test]
    fn a_separator_splits_once() {
        let (all, bad) = read(b"k::v::w\n::\nno\nk::v\n", reader(Some("::"), 9, "0"));
        let line = |number, key: &'static str, value: &'static str| Line {
            number,
            record: NewRecord { key: Some(key.into()), value: value.into() },
        };
        assert_eq!(all, [vec![line(1, "k", "v::w"), line(2, "", "")]], "those before it are not lost");
        let why = "line 3 has no \"::\" between key and value".to_owned();
        assert_eq!(bad, Some(BadInput { line: Some(3), why }));
    }

    /// So that it is refused alone, if it is.
    #[test]
    fn a_long_line_is_alone_in_its_batch() {
        let text = [b"a\nb\n", &vec![b'x'; BATCH_BYTES][..], b"\nc\nd\n"].concat();
        let numbers = |skip| -> Vec<Vec<u64>> {
            let (all, _) = read(&text, reader(None, 100, skip));
            all.iter().map(|batch| batch.iter().map(|line| line.number).collect()).collect()
        };
        assert_eq!(numbers("0"), [vec![1, 2], vec![3], vec![4, 5]]);
        assert_eq!(numbers("0,3"), [[1, 2], [4, 5]]);
    }

    #[test]
    fn a_line_is_read_up_to_its_bound_and_passed_over_whole() {
        let with = |skip| Reader { line_bytes: 4, ..reader(None, 9, skip) };
        let (all, bad) = read(b"abcd\nabcde\nf\n", with("0"));
        assert_eq!(all, [[line(1, "abcd")]]);
        let bad = bad.unwrap();
        assert_eq!(bad.line, Some(2));
        assert!(bad.why.starts_with("line 2 is longer than 4 bytes"), "{bad:?}");
        assert_eq!(read(b"abcd\nabcde\nf\n", with("0,2")).0, [[line(1, "abcd"), line(3, "f")]]);
        assert_eq!(read(b"abcde", with("0")).1.unwrap().line, Some(1));
        assert_eq!(read(b"abcd", with("0")), (vec![[line(1, "abcd")].into()], None));
    }
}
