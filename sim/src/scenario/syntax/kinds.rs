//! The kinds of values that properties take: how each is written, and how it is read back.

use std::time::Duration;

use kdl::KdlValue;

use super::time;
use crate::scenario::{Rate, Span};

/// Why a value cannot be read.
pub struct Bad {
    /// What would have been right, to follow "expected".
    pub wanted: String,
    /// Words that would have been right, where it is one of a few.
    pub options: Vec<&'static str>,
}

impl Bad {
    /// Something of this sort was expected.
    pub fn wanted<T>(wanted: impl Into<String>) -> Result<T, Bad> {
        Err(Bad { wanted: wanted.into(), options: Vec::new() })
    }
}

/// A way to write values of a type.
pub trait Kind<T> {
    /// Reads a value.
    fn read(&self, value: &KdlValue) -> Result<T, Bad>;
    /// Writes one, so that [`Kind::read`] gives it back.
    fn write(&self, value: &T) -> String;
}

/// A kind made of two functions.
pub struct Plain<T>(pub fn(&KdlValue) -> Result<T, Bad>, pub fn(&T) -> String);

impl<T> Kind<T> for Plain<T> {
    fn read(&self, value: &KdlValue) -> Result<T, Bad> {
        (self.0)(value)
    }

    fn write(&self, value: &T) -> String {
        (self.1)(value)
    }
}

/// One of a few words.
pub struct Choice<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Kind<T> for Choice<T> {
    fn read(&self, value: &KdlValue) -> Result<T, Bad> {
        let found = value.as_string().and_then(|text| self.0.iter().find(|(name, _)| *name == text));
        found.map(|(_, value)| *value).ok_or_else(|| one_of(self.0.iter().map(|(name, _)| *name).collect()))
    }

    fn write(&self, value: &T) -> String {
        self.0.iter().find(|(_, v)| v == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

/// One of these words was expected.
pub fn one_of(options: Vec<&'static str>) -> Bad {
    Bad { wanted: format!("one of {}", options.join(", ")), options }
}

fn integer<T: TryFrom<i128>>(value: &KdlValue, least: i128, most: i128) -> Result<T, Bad> {
    let number = value.as_integer();
    let read = number.filter(|n| (least..=most).contains(n)).and_then(|n| T::try_from(n).ok());
    let wanted = match number {
        Some(number) if number > most => format!("a whole number, {least} to {most}"),
        _ => format!("a whole number, {least} or more"),
    };
    read.map_or_else(|| Bad::wanted(wanted), Ok)
}

const MOST_64: i128 = u64::MAX as i128;
const MOST_32: i128 = u32::MAX as i128;

/// A number.
pub const NUMBER: Plain<u64> = Plain(|v| integer(v, 0, MOST_64), u64::to_string);
/// A number of 32 bits.
pub const NUMBER_32: Plain<u32> = Plain(|v| integer(v, 0, MOST_32), u32::to_string);
/// A number of at least 1.
pub const COUNT: Plain<u32> = Plain(|v| integer(v, 1, MOST_32), u32::to_string);

/// A kind of which only the values from one to another can be.
pub struct Within<T: 'static>(pub Plain<T>, pub T, pub T);

impl<T: PartialOrd> Kind<T> for Within<T> {
    fn read(&self, value: &KdlValue) -> Result<T, Bad> {
        let Self(kind, least, most) = self;
        let above = || Bad::wanted(format!("at most {}", kind.write(most)));
        match kind.read(value) {
            Ok(read) if read < *least => Bad::wanted(format!("at least {}", kind.write(least))),
            Ok(read) if read > *most => above(),
            // More than the type can hold.
            Err(_) if value.as_integer().is_some_and(|n| n > 0) => above(),
            read => read,
        }
    }

    fn write(&self, value: &T) -> String {
        self.0.write(value)
    }
}

/// Bits to flip in a byte.
pub const BITS: Plain<u8> = Plain(
    |v| match v.as_integer() {
        Some(n @ 1..=255) => Ok(u8::try_from(n).unwrap_or(u8::MAX)),
        _ => Bad::wanted("the bits of a byte, 0x01 to 0xff"),
    },
    |n| format!("{n:#04x}"),
);
/// A number of bytes: `4096`, `"64KiB"`, `"1MiB"`.
pub const BYTES: Plain<u64> = Plain(bytes, |n| write_bytes(*n));
/// A number of bytes that fits 32 bits.
pub const BYTES_32: Plain<u32> = Plain(
    |v| {
        let n = bytes(v)?;
        u32::try_from(n).map_or_else(|_| Bad::wanted(format!("at most {MOST_32} bytes")), Ok)
    },
    |n| write_bytes(u64::from(*n)),
);
/// Yes or no.
pub const YES_NO: Plain<bool> = Plain(
    |v| match (v, v.as_string()) {
        (KdlValue::Bool(b), _) => Ok(*b),
        (_, Some("yes")) => Ok(true),
        (_, Some("no")) => Ok(false),
        _ => Err(one_of(vec!["yes", "no"])),
    },
    |b| if *b { "yes".to_owned() } else { "no".to_owned() },
);
/// A text; always in quotes.
pub const TEXT: Plain<String> = Plain(text, |s| quoted(s));
/// A name; in quotes where it must be.
pub const NAME: Plain<String> = Plain(text, |s| name(s));
/// Bytes as hexadecimal digits.
pub const HEX: Plain<Vec<u8>> = Plain(hex, |bytes| {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    quoted(&digits)
});
/// A duration: `"5s"`.
pub const DURATION: Plain<Duration> = Plain(
    |v| {
        let read = v.as_string().and_then(time::read_duration);
        read.map_or_else(|| Bad::wanted(r#"a duration in quotes, like "5s" or "200ms""#), Ok)
    },
    |d| quoted(&time::write_duration(*d)),
);
/// A duration in which something can happen.
pub const SOME_TIME: Plain<Duration> = Plain(
    |v| match DURATION.read(v)? {
        Duration::ZERO => Bad::wanted("a time longer than 0"),
        time => Ok(time),
    },
    |d| DURATION.write(d),
);
/// A duration in milliseconds that may go backwards: `"-1h"`.
pub const JUMP: Plain<i64> = Plain(
    |v| {
        let read = v.as_string().and_then(|text| {
            let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
            let duration = time::read_duration(rest)?;
            Some(sign * i64::try_from(duration.as_millis()).ok()?)
        });
        read.map_or_else(|| Bad::wanted(r#"a duration in quotes, like "1h" or "-1h""#), Ok)
    },
    |ms| {
        let sign = if *ms < 0 { "-" } else { "" };
        quoted(&format!("{sign}{}", time::write_duration(Duration::from_millis(ms.unsigned_abs()))))
    },
);
/// A duration, or a range of durations: `"1ms"`, `"0ms..5ms"`.
pub const SPAN: Plain<Span> = Plain(
    |v| {
        let read = v.as_string().and_then(|text| {
            let (min, max) = text.split_once("..").unwrap_or((text, text));
            let span = Span { min: time::read_duration(min)?, max: time::read_duration(max)? };
            (span.min <= span.max).then_some(span)
        });
        read.map_or_else(|| Bad::wanted(r#"a duration or a range in quotes, like "1ms" or "0ms..5ms""#), Ok)
    },
    |span| {
        let (min, max) = (time::write_duration(span.min), time::write_duration(span.max));
        quoted(&if min == max { min } else { format!("{min}..{max}") })
    },
);
/// A moment, in milliseconds since the Unix epoch: a number, or `"2024-01-01T00:00:00Z"`.
pub const TIME: Plain<u64> = Plain(moment, |ms| write_moment(*ms));
/// A probability: `0.05`, `"5%"`.
pub const RATE: Plain<Rate> = Plain(rate, |rate| {
    let digits = format!("{}.{:06}", rate.millionths / 1_000_000, rate.millionths % 1_000_000);
    let short = digits.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
});

/// A moment; see [`TIME`].
pub fn moment(value: &KdlValue) -> Result<u64, Bad> {
    let read = match value {
        KdlValue::Integer(ms) => u64::try_from(*ms).ok(),
        KdlValue::String(text) => time::read_moment(text),
        _ => None,
    };
    read.map_or_else(
        || {
            Bad::wanted(
                r#"a time: milliseconds since 1970, or "2024-01-01" or "2024-01-01T00:00:00Z" in quotes"#,
            )
        },
        Ok,
    )
}

/// Writes a moment; see [`TIME`].
pub fn write_moment(ms: u64) -> String {
    time::write_moment(ms).map_or_else(|| ms.to_string(), |text| quoted(&text))
}

fn text(value: &KdlValue) -> Result<String, Bad> {
    value.as_string().map_or_else(|| Bad::wanted("text in quotes"), |s| Ok(s.to_owned()))
}

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

fn bytes(value: &KdlValue) -> Result<u64, Bad> {
    let read = match value {
        KdlValue::Integer(n) => Some(*n),
        KdlValue::String(text) => {
            let unit = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
            let (digits, size) = unit.unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
            digits.trim_end().parse::<u64>().ok().map(|n| i128::from(n) * i128::from(size))
        }
        _ => None,
    };
    let most = u64::MAX;
    match read.map(|n| (u64::try_from(n), n)) {
        Some((Ok(n), _)) => Ok(n),
        Some((Err(_), n)) if n > 0 => Bad::wanted(format!("at most {most} bytes")),
        _ => Bad::wanted(r#"a number of bytes, like 4096 or "64KiB""#),
    }
}

fn write_bytes(n: u64) -> String {
    let round = UNITS.iter().find(|(_, size)| n >= 16 << 10 && n.is_multiple_of(*size));
    round.map_or_else(|| n.to_string(), |(unit, size)| quoted(&format!("{}{unit}", n / size)))
}

fn hex(value: &KdlValue) -> Result<Vec<u8>, Bad> {
    let read = value.as_string().and_then(|text| {
        let digits: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
        let nibbles: Option<Vec<u32>> = digits.iter().map(|c| c.to_digit(16)).collect();
        let nibbles = nibbles.filter(|n| n.len().is_multiple_of(2))?;
        nibbles.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok()).collect()
    });
    read.map_or_else(|| Bad::wanted(r#"pairs of hexadecimal digits in quotes, like "00ff" or "00 ff""#), Ok)
}

fn rate(value: &KdlValue) -> Result<Rate, Bad> {
    let fraction = match value {
        KdlValue::Integer(n @ 0..=1) => Some(if *n == 1 { 1.0 } else { 0.0 }),
        KdlValue::Float(f) => Some(*f),
        KdlValue::String(s) => {
            s.strip_suffix('%').and_then(|p| p.trim().parse::<f64>().ok()).map(|p| p / 100.0)
        }
        _ => None,
    };
    let fraction = fraction.filter(|f| (0.0..=1.0).contains(f));
    let Some(fraction) = fraction else {
        return Bad::wanted(r#"a probability from 0.0 to 1.0, or "5%" in quotes"#);
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000,000")]
    let millionths = (fraction * 1e6).round() as u32;
    Ok(Rate { millionths })
}

/// A text in quotes, with what cannot stand in them escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if must_escape(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Control characters, line separators, and what KDL forbids: direction marks and the byte order mark.
pub fn must_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A name: bare where it cannot be taken for anything else, in quotes otherwise.
pub fn name(text: &str) -> String {
    let mut chars = text.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !["true", "false", "null", "inf", "nan"].contains(&text);
    if plain { text.to_owned() } else { quoted(text) }
}
