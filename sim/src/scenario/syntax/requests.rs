//! The lines of clients: requests, and raw bytes.

use std::fmt;
use std::time::Duration;

use kdl::KdlValue;

use super::fields::Fields;
use super::kinds::{
    self, BYTES, BYTES_32, Bad, COUNT, DURATION, HEX, Kind, NAME, NUMBER, NUMBER_32, Plain, TEXT, one_of,
};
use crate::scenario::placeholder;
use crate::scenario::request::Code;
use crate::scenario::{
    Consume, Content, CreateTopic, Expect, ListPartitions, LookUp, LookUpExpect, OffsetAt, Open, Produce,
    Receive, ReceiveExpect, Send, SendLength,
};

/// The codes of errors, by the names they have in the protocol.
pub const CODES: [(&str, Code); 17] = [
    ("INVALID_REQUEST", Code::InvalidRequest),
    ("FRAME_TOO_LARGE", Code::FrameTooLarge),
    ("INVALID_TOPIC", Code::InvalidTopic),
    ("UNKNOWN_TOPIC", Code::UnknownTopic),
    ("TOPIC_EXISTS", Code::TopicExists),
    ("UNKNOWN_PARTITION", Code::UnknownPartition),
    ("OFFSET_OUT_OF_RANGE", Code::OffsetOutOfRange),
    ("RECORD_TOO_LARGE", Code::RecordTooLarge),
    ("CORRUPT", Code::Corrupt),
    ("STORAGE_FULL", Code::StorageFull),
    ("STORAGE_FAILED", Code::StorageFailed),
    ("FENCED", Code::Fenced),
    ("OUTCOME_UNKNOWN", Code::OutcomeUnknown),
    ("TOO_MANY_CONNECTIONS", Code::TooManyConnections),
    ("SHUTTING_DOWN", Code::ShuttingDown),
    ("TIMEOUT", Code::Timeout),
    ("UNAVAILABLE", Code::Unavailable),
];

/// The name of a code.
pub fn code_name(code: Code) -> &'static str {
    CODES.iter().find(|(_, c)| *c == code).map_or("?", |(name, _)| name)
}

/// One of these words, or a code.
fn word_or_code<T: Copy>(
    value: &KdlValue,
    words: &[(&'static str, T)],
    code: fn(Code) -> T,
) -> Result<T, Bad> {
    let text = value.as_string().unwrap_or_default();
    let word = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let found = word.or_else(|| CODES.iter().find(|(name, _)| *name == text).map(|(_, c)| code(*c)));
    found.ok_or_else(|| {
        let names = words.iter().map(|(name, _)| *name).chain(CODES.iter().map(|(name, _)| *name));
        one_of(names.collect())
    })
}

const EXPECT: Plain<Expect> = Plain(
    |v| {
        let words = [
            ("ok", Expect::Ok),
            ("refused", Expect::Refused),
            ("unknown", Expect::Unknown),
            ("any", Expect::Any),
        ];
        word_or_code(v, &words, Expect::Code)
    },
    |expect| {
        let word = match expect {
            Expect::Ok => "ok",
            Expect::Refused => "refused",
            Expect::Unknown => "unknown",
            Expect::Any => "any",
            Expect::Code(code) => code_name(*code),
        };
        word.to_owned()
    },
);

const RECEIVE: Plain<ReceiveExpect> = Plain(
    |v| {
        let words = [
            ("any", ReceiveExpect::Any),
            ("ok", ReceiveExpect::Ok),
            ("closed", ReceiveExpect::Closed),
            ("nothing", ReceiveExpect::Nothing),
        ];
        word_or_code(v, &words, ReceiveExpect::Code)
    },
    |expect| {
        let word = match expect {
            ReceiveExpect::Any => "any",
            ReceiveExpect::Ok => "ok",
            ReceiveExpect::Closed => "closed",
            ReceiveExpect::Nothing => "nothing",
            ReceiveExpect::Code(code) => code_name(*code),
        };
        word.to_owned()
    },
);

const LOOK_UP: Plain<LookUpExpect> = Plain(
    |v| {
        if v.is_integer() {
            return NUMBER.read(v).map(LookUpExpect::Offset);
        }
        let words = [("any", LookUpExpect::Any), ("none", LookUpExpect::None)];
        word_or_code(v, &words, LookUpExpect::Code)
            .map_err(|bad| Bad { wanted: format!("an offset, or {}", bad.wanted), ..bad })
    },
    |expect| match expect {
        LookUpExpect::Any => "any".to_owned(),
        LookUpExpect::None => "none".to_owned(),
        LookUpExpect::Offset(offset) => offset.to_string(),
        LookUpExpect::Code(code) => code_name(*code).to_owned(),
    },
);

const OFFSET_AT: Plain<OffsetAt> = Plain(
    |v| match v.as_string() {
        Some("earliest") => Ok(OffsetAt::Earliest),
        Some("latest") => Ok(OffsetAt::Latest),
        _ => kinds::moment(v).map(OffsetAt::Time).map_err(|bad| Bad {
            wanted: format!("earliest, latest, or {}", bad.wanted),
            options: vec!["earliest", "latest"],
        }),
    },
    |at| match at {
        OffsetAt::Earliest => "earliest".to_owned(),
        OffsetAt::Latest => "latest".to_owned(),
        OffsetAt::Time(ms) => kinds::write_moment(*ms),
    },
);

const SEND_LENGTH: Plain<SendLength> = Plain(
    |v| match v.as_string() {
        Some("right") => Ok(SendLength::Right),
        _ => NUMBER_32
            .read(v)
            .map(SendLength::Is)
            .map_err(|_| Bad { wanted: "a number of 32 bits, or right".to_owned(), options: vec!["right"] }),
    },
    |length| match length {
        SendLength::Right => "right".to_owned(),
        SendLength::Is(n) if *n < 1 << 16 => n.to_string(),
        SendLength::Is(n) => format!("{n:#x}"),
    },
);

/// What is expected, as it is written.
impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&EXPECT.write(self))
    }
}

/// What is expected, as it is written.
impl fmt::Display for ReceiveExpect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&RECEIVE.write(self))
    }
}

/// What is expected, as it is written.
impl fmt::Display for LookUpExpect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&LOOK_UP.write(self))
    }
}

/// A text with places for a run to fill in.
const FILLED: Plain<String> = Plain(
    |v| {
        let text = TEXT.read(v)?;
        match placeholder::mistyped(&text) {
            None => Ok(text),
            Some(found) => Bad::wanted(format!(
                "`{}`, the record's number, or `{}`, the round of a `repeat`, in the place of `{found}`; \
                 other words in braces are written in hexadecimal",
                placeholder::RECORD,
                placeholder::ROUND
            )),
        }
    },
    |text| TEXT.write(text),
);

/// Bytes that may be given as a text, as hexadecimal digits, or by their number.
pub fn content(f: &mut impl Fields, names: [&'static str; 3], least: usize, slot: &mut Option<Content>) {
    let (mut text, mut hex, mut size) = match slot.take() {
        Some(Content::Text(text)) => (Some(text), None, None),
        Some(Content::Hex(bytes)) => (None, Some(bytes), None),
        Some(Content::Size(size)) => (None, None, Some(size)),
        None => (None, None, None),
    };
    f.opt(names[0], &FILLED, &mut text);
    f.opt(names[1], &HEX, &mut hex);
    f.opt(names[2], &BYTES, &mut size);
    f.count_of(&names, least, 1);
    *slot = text.map(Content::Text).or(hex.map(Content::Hex)).or(size.map(Content::Size));
}

/// A value that is empty where none is given.
pub fn value(f: &mut impl Fields, slot: &mut Content) {
    let empty = Content::Text(String::new());
    let mut given = Some(std::mem::replace(slot, empty.clone())).filter(|value| *value != empty);
    content(f, ["value", "value-hex", "size"], 0, &mut given);
    *slot = given.unwrap_or(empty);
}

/// A key, or none.
pub fn key(f: &mut impl Fields, slot: &mut Option<Content>) {
    content(f, ["key", "key-hex", "key-size"], 0, slot);
}

/// `expect=`
pub fn expect(f: &mut impl Fields, slot: &mut Expect) {
    f.or("expect", &EXPECT, slot, Expect::Ok);
}

/// `topic NAME partitions= …`
pub fn topic(f: &mut impl Fields, topic: &mut CreateTopic) {
    f.arg("a name", &NAME, &mut topic.name);
    f.or("partitions", &NUMBER_32, &mut topic.partitions, 1);
    f.opt("retention-bytes", &BYTES, &mut topic.retention_bytes);
    f.opt("retention-age", &DURATION, &mut topic.retention_age);
    expect(f, &mut topic.expect);
}

/// `list-topics …`
pub fn list_topics(f: &mut impl Fields, expected: &mut Expect, expect_count: &mut Option<u32>) {
    expect(f, expected);
    f.opt("expect-count", &NUMBER_32, expect_count);
}

/// `list-partitions TOPIC …`
pub fn list_partitions(f: &mut impl Fields, list: &mut ListPartitions) {
    f.arg("a topic", &NAME, &mut list.topic);
    expect(f, &mut list.expect);
    f.opt("expect-count", &NUMBER_32, &mut list.expect_count);
}

/// `produce TOPIC …`
pub fn produce(f: &mut impl Fields, produce: &mut Produce) {
    f.arg("a topic", &NAME, &mut produce.topic);
    f.opt("partition", &NUMBER_32, &mut produce.partition);
    key(f, &mut produce.key);
    value(f, &mut produce.value);
    f.or("count", &COUNT, &mut produce.count, 1);
    f.or("batch", &COUNT, &mut produce.batch, 1);
    expect(f, &mut produce.expect);
    f.opt("expect-partition", &NUMBER_32, &mut produce.expect_partition);
    f.opt("expect-offset", &NUMBER, &mut produce.expect_offset);
    let placed = produce.expect_partition.is_some() || produce.expect_offset.is_some();
    if placed && !matches!(produce.expect, Expect::Ok | Expect::Any) {
        let message = "a record that is not acknowledged has no partition and no offset to expect";
        f.wrong(message.to_owned(), "remove `expect-partition=` and `expect-offset=`, or the `expect=`");
    }
}

/// `consume TOPIC …` and `fetch TOPIC …`
pub fn consume(f: &mut impl Fields, consume: &mut Consume) {
    f.arg("a topic", &NAME, &mut consume.topic);
    f.opt("partition", &NUMBER_32, &mut consume.partition);
    f.opt("from", &NUMBER, &mut consume.from);
    f.opt("until", &NUMBER, &mut consume.until);
    f.opt("max-bytes", &BYTES_32, &mut consume.max_bytes);
    f.opt("wait", &DURATION, &mut consume.wait);
    expect(f, &mut consume.expect);
    f.opt("expect-count", &NUMBER, &mut consume.expect_count);
    content(f, ["expect-value", "expect-value-hex", "expect-size"], 0, &mut consume.expect_value);
    f.opt("expect-start", &NUMBER, &mut consume.expect_start);
    f.opt("expect-end", &NUMBER, &mut consume.expect_end);
}

/// `offsets TOPIC partition= at= expect=`
pub fn look_up(f: &mut impl Fields, look_up: &mut LookUp) {
    f.arg("a topic", &NAME, &mut look_up.topic);
    f.or("partition", &NUMBER_32, &mut look_up.partition, 0);
    f.or("at", &OFFSET_AT, &mut look_up.at, OffsetAt::Latest);
    f.or("expect", &LOOK_UP, &mut look_up.expect, LookUpExpect::Any);
}

/// `open count=`
pub fn open(f: &mut impl Fields, open: &mut Open) {
    f.or("count", &COUNT, &mut open.count, 1);
}

/// `send hex= length= …`
pub fn send(f: &mut impl Fields, send: &mut Send) {
    let empty = Content::Text(String::new());
    f.opt("length", &SEND_LENGTH, &mut send.length);
    let needed = send.length.is_none();
    let mut bytes = Some(send.bytes.clone()).filter(|bytes| needed || *bytes != empty);
    content(f, ["text", "hex", "size"], usize::from(needed), &mut bytes);
    send.bytes = bytes.unwrap_or(empty);
    f.opt("chunk-bytes", &COUNT, &mut send.chunk_bytes);
    f.opt("every", &DURATION, &mut send.every);
}

/// `receive expect= within=`
pub fn receive(f: &mut impl Fields, receive: &mut Receive) {
    f.or("expect", &RECEIVE, &mut receive.expect, ReceiveExpect::Any);
    f.or("within", &DURATION, &mut receive.within, Duration::from_secs(1));
}
