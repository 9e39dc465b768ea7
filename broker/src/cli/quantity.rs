//! Sizes and times as people write them: `64MiB`, `500kB`, `5s`, `1h30m`.

use std::fmt::Display;
use std::time::Duration;

use broker::settings::Settings;
use broker::units::Timestamp;

const SIZES: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

const TIMES: [(&str, u64); 7] = [
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("d", 86_400 * 1_000_000_000),
];

/// A host and a port. Whether there is such a host, only the system knows.
pub fn address(text: &str) -> Result<String, String> {
    let has_port =
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    // Of an address with colons nobody knows which one is before the port.
    let is_clear = text.starts_with('[') || text.matches(':').count() == 1;
    match has_port && is_clear {
        true => Ok(text.to_owned()),
        false => Err("a host and a port are wanted, as in 127.0.0.1:7070 or [::1]:7070".into()),
    }
}

/// Bytes: a plain number, or one with a unit (`64MiB` = 67108864, `64MB` = 64000000).
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write 4096, 64KiB, 16MiB, 1.5GiB, 500MB");
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    match parts(text, &SIZES).ok_or_else(wrong)?[..] {
        [bytes] => Ok(bytes),
        _ => Err(wrong()),
    }
}

/// The same, for memory.
pub fn memory(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| format!("{text} is more than this machine can address"))
}

/// The same, up to 4 GiB.
pub fn size_u32(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("{text} is too large: the limit is 4 GiB"))
}

/// A time: numbers with units, which add up (`1h30m`, `250ms`, `7d`).
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write 250ms, 5s, 10m, 1h30m, 7d");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let nanos = parts(text, &TIMES).ok_or_else(wrong)?;
    let nanos = nanos.iter().try_fold(0u64, |sum, &n| sum.checked_add(n)).ok_or_else(wrong)?;
    Ok(Duration::from_nanos(nanos))
}

/// For how long records are kept. Their times are whole milliseconds: less than one would keep nothing.
pub fn age(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        age if age < Duration::from_millis(1) => {
            Err(format!("{text} would keep nothing; write at least 1ms, such as 7d"))
        }
        age => Ok(age),
    }
}

/// Numbers with units, each as a multiple of the smallest unit.
fn parts(text: &str, units: &[(&str, u64)]) -> Option<Vec<u64>> {
    let mut rest = text.trim();
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(number);
        let after = after.trim_start();
        let unit = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, after) = after.split_at(unit);
        let name = name.to_ascii_lowercase();
        let factor = units.iter().find(|(unit, _)| *unit == name)?.1;
        parts.push(multiple(digits, factor)?);
        rest = after.trim_start();
    }
    (!parts.is_empty()).then_some(parts)
}

/// A decimal number times a factor, rounded down.
fn multiple(digits: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(factor);
    let fraction_of = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / fraction_of;
    u64::try_from(whole + fraction).ok()
}

/// A whole number, 0 or more.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    if !is_whole(text) {
        return Err("expected a whole number, 0 or more".into());
    }
    let number = text.parse().ok().and_then(|number: u64| T::try_from(number).ok());
    number.ok_or_else(|| {
        format!("too large: the largest possible is {}", u64::MAX >> (64 - 8 * size_of::<T>()))
    })
}

fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// How many partitions a topic is to have.
pub fn partitions(text: &str) -> Result<u32, String> {
    let max = Settings::PARTITIONS_MAX;
    match text.parse() {
        Ok(count) if (1..=max).contains(&count) => Ok(count),
        _ if is_whole(text) => Err(format!("a topic has 1 to {max} partitions")),
        _ => Err("expected a whole number, 1 or more".into()),
    }
}

/// How many of what, for people: `1 line`, `2 lines`.
pub fn count(n: impl Display + PartialEq + From<u8>, what: &str) -> String {
    let s = if n == 1.into() { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// Bytes for people, with one digit after the point.
pub fn show_bytes(bytes: u64) -> String {
    for (unit, factor) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor {
            let tenths = u128::from(bytes) * 10 / u128::from(factor);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{bytes} B")
}

/// A time as it may be written: `7d`, `1h30m`, `250ms`. Of less than a microsecond, nothing is shown.
pub fn show_duration(duration: Duration) -> String {
    let (mut left, mut text) = (duration.as_nanos(), String::new());
    for (unit, nanos) in [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)]
        .map(|(u, s)| (u, s * 1_000_000_000))
        .into_iter()
        .chain([("ms", 1_000_000), ("us", 1_000)])
    {
        if left >= nanos {
            text += &format!("{}{unit}", left / nanos);
            left %= nanos;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Milliseconds since the Unix epoch, or a date and time in UTC (`2026-11-29`, `2026-11-29T13:00:00Z`).
pub fn timestamp(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("{text:?} is not a time; write milliseconds since 1970, or 2026-11-29T13:00:00Z");
    if let Ok(ms) = text.parse() {
        return Ok(Timestamp::from_millis(ms));
    }
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let ms = days(date).zip(millis_of_day(time.trim_end_matches('Z'))).map(|(d, ms)| d * 86_400_000 + ms);
    ms.map(Timestamp::from_millis).ok_or_else(wrong)
}

fn fields<const N: usize>(text: &str, separator: char) -> Option<[u64; N]> {
    let fields: Option<Vec<u64>> = text.split(separator).map(|f| f.parse().ok()).collect();
    fields?.try_into().ok()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(date: &str) -> Option<u64> {
    let [year, month, day] = fields(date, '-')?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let length = |m: u64| match m {
        2 => 28 + u64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1..=length(month)).contains(&day) {
        return None;
    }
    let years: u64 = (1970..year).map(|y| 365 + u64::from(leap(y))).sum();
    Some(years + (1..month).map(length).sum::<u64>() + day - 1)
}

fn millis_of_day(time: &str) -> Option<u64> {
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = match fields(time, ':') {
        Some(all) => all,
        None => fields::<2>(time, ':').map(|[hour, minute]| [hour, minute, 0])?,
    };
    let ms = multiple(&format!("0.{fraction}"), 1000)?;
    (hour < 24 && minute < 60 && second < 60).then_some(((hour * 60 + minute) * 60 + second) * 1000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for right in ["127.0.0.1:7070", "localhost:0", "[::1]:65535"] {
            assert_eq!(address(right).as_deref(), Ok(right));
        }
        for wrong in [
            "",
            "127.0.0.1",
            "7070",
            ":7070",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "::1:7070",
            "::1",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65536),
            ("64 kib", 65536),
            ("64KB", 64000),
            ("1.5GiB", 3 << 29),
            ("16MiB", 16 << 20),
            ("12B", 12),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "64XB", "-1", "1.", "1..5MiB", "64MiB3", "1MiB2KiB", "99999999999TiB", "1e3"]
        {
            assert!(size(text).is_err(), "{text}");
        }
        assert!(size_u32("4GiB").is_err());
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, ms) in [
            ("0", 0),
            ("250ms", 250),
            ("5s", 5000),
            ("1.5s", 1500),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "5x", "-5s", "99999999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn points_in_time_are_read_in_utc() {
        for (text, ms) in [
            ("0", 0),
            ("1732885200000", 1_732_885_200_000),
            ("1970-01-01", 0),
            ("2000-03-01T00:00:00Z", 951_868_800_000),
            ("2024-02-29 12:30", 1_709_209_800_000),
            ("2026-11-29T13:00:00.250Z", 1_795_957_200_250),
        ] {
            assert_eq!(timestamp(text), Ok(Timestamp::from_millis(ms)), "{text}");
        }
        for text in ["", "yesterday", "2023-02-29", "2024-13-01", "2024-01-01T25:00:00Z", "1900-01-01"] {
            assert!(timestamp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_told_apart_from_what_is_none_and_from_what_is_too_large() {
        assert_eq!(number::<u32>("4294967295"), Ok(u32::MAX));
        for (text, why) in
            [("4294967296", "4294967295"), ("99999999999999999999", "4294967295"), ("-1", "whole")]
        {
            assert!(number::<u32>(text).is_err_and(|e| e.contains(why)), "{text}");
        }
        assert!(number::<u64>("99999999999999999999").is_err_and(|e| e.contains("18446744073709551615")));
        assert_eq!(partitions("10000"), Ok(10_000));
        for (text, why) in
            [("0", "1 to 10000"), ("10001", "1 to 10000"), ("5000000000", "1 to 10000"), ("x", "whole")]
        {
            assert!(partitions(text).is_err_and(|e| e.contains(why)), "{text}");
        }
    }

    #[test]
    fn times_are_shown_as_they_may_be_written() {
        for text in ["7d", "1h30m", "250ms", "1d2h3m4s5ms6us", "0s"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn one_of_something_is_not_several() {
        assert_eq!([0u64, 1, 2].map(|n| count(n, "line")), ["0 lines", "1 line", "2 lines"]);
    }

    #[test]
    fn bytes_are_shown_in_their_unit() {
        assert_eq!([0, 1023, 1536, 3 << 20].map(show_bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
    }
}
