//! The lines that change files behind the broker's back.

use super::fields::Fields;
use super::kinds::{self, BITS, BYTES, Bad, NUMBER, Plain, TEXT, TIME};
use super::requests::{content, key, value};
use crate::scenario::Content;
use crate::scenario::surgery::{Entry, FilePosition, Surgery};

const PLACE: Plain<FilePosition> = Plain(
    |v| {
        let byte = v.as_integer().and_then(|n| i64::try_from(n).ok()).map(FilePosition::Byte);
        let percent = v.as_string().and_then(|text| text.strip_suffix('%')?.parse::<u8>().ok());
        let percent = percent.filter(|p| *p < 100).map(FilePosition::Percent);
        byte.or(percent)
            .map_or_else(|| Bad::wanted(r#"a byte (-1 is the last one), or "0%" to "99%" in quotes"#), Ok)
    },
    |place| match place {
        FilePosition::Byte(n) => n.to_string(),
        FilePosition::Percent(p) => kinds::quoted(&format!("{p}%")),
    },
);

/// The word of a change.
pub fn word(surgery: &Surgery) -> &'static str {
    match surgery {
        Surgery::Corrupt { .. } => "corrupt",
        Surgery::Truncate { .. } => "truncate",
        Surgery::Zeros { .. } => "zeros",
        Surgery::Write { .. } => "write",
        Surgery::WriteRecord { .. } => "write-record",
        Surgery::WriteEntry { .. } => "write-entry",
        Surgery::Delete { .. } => "delete",
        Surgery::Copy { .. } => "copy",
        Surgery::Rename { .. } => "rename",
        Surgery::MakeDir { .. } => "make-dir",
        Surgery::Unreadable { .. } => "unreadable",
    }
}

/// A change with nothing filled in, by its word.
pub fn blank(word: &str) -> Option<Surgery> {
    let file = String::new;
    let empty = Content::Text(String::new());
    Some(match word {
        "corrupt" => Surgery::Corrupt { file: file(), at: FilePosition::Byte(0), xor: 0xff, bytes: 1 },
        "truncate" => Surgery::Truncate { file: file(), to: FilePosition::Byte(0) },
        "zeros" => Surgery::Zeros { file: file(), at: None, bytes: 0 },
        "write" => Surgery::Write { file: file(), at: None, bytes: empty },
        "write-record" => {
            Surgery::WriteRecord { file: file(), at: None, offset: 0, timestamp: 0, key: None, value: empty }
        }
        "write-entry" => {
            Surgery::WriteEntry { file: file(), at: None, entry: Entry::Position { offset: 0, position: 0 } }
        }
        "delete" => Surgery::Delete { file: file() },
        "copy" => Surgery::Copy { file: file(), to: file() },
        "rename" => Surgery::Rename { file: file(), to: file() },
        "make-dir" => Surgery::MakeDir { dir: file() },
        "unreadable" => Surgery::Unreadable { file: file(), at: FilePosition::Byte(0) },
        _ => return None,
    })
}

/// The words of this file.
pub const WORDS: [&str; 11] = [
    "corrupt",
    "truncate",
    "zeros",
    "delete",
    "write",
    "write-record",
    "write-entry",
    "copy",
    "rename",
    "make-dir",
    "unreadable",
];

/// Arguments and properties of a change.
pub fn surgery(f: &mut impl Fields, surgery: &mut Surgery) {
    match surgery {
        Surgery::Corrupt { file, at, xor, bytes } => {
            f.arg("a file", &TEXT, file);
            f.need("at", &PLACE, at);
            f.or("xor", &BITS, xor, 0xff);
            f.or("bytes", &BYTES, bytes, 1);
        }
        Surgery::Truncate { file, to } => {
            f.arg("a file", &TEXT, file);
            f.need("to", &PLACE, to);
        }
        Surgery::Zeros { file, at, bytes } => {
            f.arg("a file", &TEXT, file);
            f.opt("at", &PLACE, at);
            f.need("bytes", &BYTES, bytes);
        }
        Surgery::Write { file, at, bytes } => {
            f.arg("a file", &TEXT, file);
            f.opt("at", &PLACE, at);
            written(f, bytes);
        }
        Surgery::WriteRecord { file, at, offset, timestamp, key: record_key, value: record_value } => {
            f.arg("a file", &TEXT, file);
            f.opt("at", &PLACE, at);
            f.need("offset", &NUMBER, offset);
            f.or("timestamp", &TIME, timestamp, 0);
            key(f, record_key);
            value(f, record_value);
        }
        Surgery::WriteEntry { file, at, entry: written } => {
            f.arg("a file", &TEXT, file);
            f.opt("at", &PLACE, at);
            entry(f, written);
        }
        Surgery::Delete { file } => f.arg("a file", &TEXT, file),
        Surgery::Copy { file, to } | Surgery::Rename { file, to } => {
            f.arg("a file", &TEXT, file);
            f.need("to", &TEXT, to);
        }
        Surgery::MakeDir { dir } => f.arg("a directory", &TEXT, dir),
        Surgery::Unreadable { file, at } => {
            f.arg("a file", &TEXT, file);
            f.need("at", &PLACE, at);
        }
    }
}

/// `text=`, `hex=`, `size=`: one of them.
fn written(f: &mut impl Fields, bytes: &mut Content) {
    let empty = Content::Text(String::new());
    let mut given = Some(bytes.clone());
    content(f, ["text", "hex", "size"], 1, &mut given);
    *bytes = given.unwrap_or(empty);
}

/// `offset= position=` or `timestamp= offset=`.
fn entry(f: &mut impl Fields, entry: &mut Entry) {
    let (mut timestamp, mut offset, mut position) = match *entry {
        Entry::Position { offset, position } => (None, offset, Some(position)),
        Entry::Time { timestamp, offset } => (Some(timestamp), offset, None),
    };
    f.opt("timestamp", &TIME, &mut timestamp);
    f.need("offset", &NUMBER, &mut offset);
    f.opt("position", &NUMBER, &mut position);
    f.count_of(&["timestamp", "position"], 1, 1);
    *entry = match (timestamp, position) {
        (Some(timestamp), _) => Entry::Time { timestamp, offset },
        (None, position) => Entry::Position { offset, position: position.unwrap_or(0) },
    };
}
