//! Durations and moments as texts: `5s`, `2024-01-01T00:00:00.250Z`.

use std::time::Duration;

const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads `5s`, `200ms`, `1h`.
pub fn read_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == &text[digits..])?;
    let nanos = text[..digits].parse::<u128>().ok()?.checked_mul(*unit)?;
    Some(Duration::new(
        u64::try_from(nanos / 1_000_000_000).ok()?,
        u32::try_from(nanos % 1_000_000_000).ok()?,
    ))
}

/// Writes a duration in the largest unit that says it exactly.
pub fn write_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0ms".to_owned();
    }
    let exact = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    exact.map_or_else(String::new, |(name, unit)| format!("{}{name}", nanos / unit))
}

const DAY_MS: i64 = 86_400_000;

/// Reads `2024-01-01T00:00:00Z`, with or without milliseconds; or `2024-01-01`, which is where that day begins.
pub fn read_moment(text: &str) -> Option<u64> {
    let (date, time) = match text.split_once('T') {
        Some((date, time)) => (date, time.strip_suffix('Z')?),
        None => (text, "00:00:00"),
    };
    let (time, ms) = match time.split_once('.') {
        Some((time, ms)) if ms.len() == 3 => (time, ms.parse::<i64>().ok()?),
        Some(_) => return None,
        None => (time, 0),
    };
    let [year, month, day] = three(date, '-')?;
    let [hour, minute, second] = three(time, ':')?;
    let days = days_from_civil(year, month, day);
    if !(1970..=9999).contains(&year) || civil_from_days(days) != (year, month, day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    u64::try_from(days * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms).ok()
}

/// Writes a moment of the years 2000 to 9999; small numbers are clearer as they are.
pub fn write_moment(ms: u64) -> Option<String> {
    let ms = i64::try_from(ms).ok()?;
    let (year, month, day) = civil_from_days(ms / DAY_MS);
    if !(2000..=9999).contains(&year) {
        return None;
    }
    let rest = ms % DAY_MS;
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    let fraction = if milli == 0 { String::new() } else { format!(".{milli:03}") };
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
}

fn three(text: &str, separator: char) -> Option<[i64; 3]> {
    let parts: Vec<i64> = text.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// Days since 1970 of a day in the Gregorian calendar. Years are taken to begin in March, so that the leap day is
/// their last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    march_year * 365 + march_year.div_euclid(4) - march_year.div_euclid(100)
        + march_year.div_euclid(400)
        + day_of_year
        - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (text, ms) in [
            ("2000-01-01T00:00:00Z", 946_684_800_000),
            ("2000-02-29T12:34:56.789Z", 951_827_696_789),
            ("2024-01-01T00:00:00Z", 1_704_067_200_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ] {
            assert_eq!(read_moment(text), Some(ms), "{text}");
            assert_eq!(write_moment(ms).as_deref(), Some(text));
        }
        assert_eq!(read_moment("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read_moment("2024-01-01"), read_moment("2024-01-01T00:00:00Z"));
        for wrong in ["2023-02-29", "2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01Z", "2024-01"]
        {
            assert_eq!(read_moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_written_in_their_largest_exact_unit() {
        for (text, ms) in
            [("90s", 90_000), ("2m", 120_000), ("1500ms", 1500), ("2d", 172_800_000), ("0ms", 0)]
        {
            assert_eq!(write_duration(Duration::from_millis(ms)), text);
            assert_eq!(read_duration(text), Some(Duration::from_millis(ms)));
        }
        for wrong in ["5", "s", "", "5 s", "-5s", "5sec", "99999999999999999999999999999999999999999s"] {
            assert_eq!(read_duration(wrong), None, "{wrong}");
        }
    }
}
