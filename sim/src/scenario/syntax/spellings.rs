//! What somebody may have meant by a value that cannot be read: the same, written otherwise.

use kdl::KdlValue;

/// A value as it would be written, without quotes.
pub fn shown(value: &KdlValue) -> String {
    match value {
        KdlValue::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What one of several listed values can be: a number, where it is one, and a text. Which of them, the property knows.
pub fn listed(text: &str) -> Vec<KdlValue> {
    let hexadecimal = text.strip_prefix("0x").and_then(|digits| i128::from_str_radix(digits, 16).ok());
    let integer = text.parse().ok().or(hexadecimal).map(KdlValue::Integer);
    let begins = text.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
    let float = text.parse().ok().filter(|_| begins && text.contains('.')).map(KdlValue::Float);
    integer.into_iter().chain(float).chain([KdlValue::String(text.to_owned())]).collect()
}

/// How to write this value so that it `reads`, if another spelling of it does.
pub fn spelling(value: &KdlValue, reads: impl Fn(&KdlValue) -> bool) -> Option<String> {
    let text = shown(value);
    if let Some(number) = text.parse().ok().map(KdlValue::Integer).filter(|_| value.is_string())
        && reads(&number)
    {
        return Some(format!("write `{text}`, without quotes"));
    }
    let mut texts = texts(&text).into_iter();
    let found = texts.find(|text| reads(&KdlValue::String(text.clone())))?;
    Some(format!("write `\"{found}\"`"))
}

/// What to do where several values stand in the place of one: only `each` and `draw` choose.
pub fn several(value: &KdlValue, reads: impl Fn(&KdlValue) -> bool) -> Option<String> {
    let text = value.as_string()?;
    let first = text.split_once("..").or_else(|| text.split_once('|'))?.0.trim();
    let value = first.parse().map_or_else(|_| KdlValue::String(first.to_owned()), KdlValue::Integer);
    reads(&value).then(|| "to try several values, put `each` before the line".to_owned())
}

/// Other ways to write a text: without spaces, with the language's units, in smaller whole ones.
fn texts(text: &str) -> Vec<String> {
    let joined = text.replace(' ', "");
    let number = joined.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(joined.len());
    let (digits, unit) = joined.split_at(number);
    let unit = unit.to_lowercase();
    let mut texts = vec![joined.clone()];
    if !digits.is_empty() {
        texts.extend(bytes(&unit).map(|unit| format!("{digits}{unit}")));
        texts.extend(in_whole_units(digits, if unit.is_empty() { "ms" } else { &unit }));
    }
    texts
}

/// A unit of bytes without its `i`.
fn bytes(unit: &str) -> Option<&'static str> {
    match unit {
        "k" | "kb" | "kib" => Some("KiB"),
        "m" | "mb" | "mib" => Some("MiB"),
        "g" | "gb" | "gib" => Some("GiB"),
        _ => None,
    }
}

/// A time in the largest unit of which it is a whole number: `1.5s` is `1500ms`.
fn in_whole_units(digits: &str, unit: &str) -> Option<String> {
    const UNITS: [(&str, u64); 7] =
        [("d", 24), ("h", 60), ("m", 60), ("s", 1000), ("ms", 1000), ("us", 1000), ("ns", 1)];
    let unit = match unit {
        "day" | "days" => "d",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "min" | "mins" | "minute" | "minutes" => "m",
        "sec" | "secs" | "second" | "seconds" => "s",
        "msec" | "msecs" | "millis" => "ms",
        "µs" | "usec" | "micros" => "us",
        other => other,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut number: u64 = whole.parse().ok()?;
    // What is behind the point, as so many of so many parts.
    let mut rest: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let parts = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let mut units = UNITS.iter().skip_while(|(name, _)| *name != unit);
    loop {
        let (name, of_the_next) = units.next()?;
        if rest == 0 {
            return Some(format!("{number}{name}"));
        }
        let scaled = rest.checked_mul(*of_the_next)?;
        number = number.checked_mul(*of_the_next)?.checked_add(scaled / parts)?;
        rest = scaled % parts;
    }
}
