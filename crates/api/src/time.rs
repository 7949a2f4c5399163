//! Points in time as RFC 3339 text. They are written in UTC with microseconds.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use model::UnixTime;

pub fn format_time(time: UnixTime) -> String {
    // A `UnixTime` may be out of the range of `Timestamp`; it is shown as the nearest time in range.
    let time = Timestamp::from_microsecond(time.0).unwrap_or(if time.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    });
    format!("{time:.6}")
}

/// Accepts every RFC 3339 time, with any offset and any number of fractional digits.
pub fn parse_time(text: &str) -> Result<UnixTime, String> {
    timestamp(&to_nanoseconds(text))
        .map(|time| UnixTime(time.as_microsecond()))
        .ok_or_else(|| format!("'{text}' is not a time; write it like 2026-01-31T12:00:00Z"))
}

/// A time of the first or last supported day may be out of range in UTC; it becomes the first or last supported time.
fn timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let pieces = Pieces::parse(text).ok()?;
    let time = pieces.date().to_datetime(pieces.time()?);
    let offset = pieces.to_numeric_offset()?;
    Some(offset.to_timestamp(time).unwrap_or(if time.year() > 0 {
        Timestamp::MAX
    } else {
        Timestamp::MIN
    }))
}

/// Removes fractional digits beyond nanoseconds, which the parser does not accept.
fn to_nanoseconds(text: &str) -> Cow<'_, str> {
    const DIGITS: usize = 9;
    let Some((whole, rest)) = text.split_once('.') else {
        return text.into();
    };
    let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match &rest[..rest.len() - zone.len()] {
        fraction if fraction.len() > DIGITS => format!("{whole}.{}{zone}", &fraction[..DIGITS]).into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_text() {
        assert_eq!(format_time(UnixTime(0)), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            format_time(UnixTime(1_767_225_600_123_456)),
            "2026-01-01T00:00:00.123456Z"
        );
        for moment in [UnixTime(0), UnixTime(1_767_225_600_123_456), UnixTime(-5)] {
            assert_eq!(parse_time(&format_time(moment)), Ok(moment));
        }
        assert_eq!(
            parse_time("2026-01-01T01:00:00+01:00"),
            Ok(UnixTime(1_767_225_600_000_000))
        );
        assert_eq!(
            parse_time("2026-01-01T00:00:00.123456789012Z"),
            Ok(UnixTime(1_767_225_600_123_456))
        );
        for (time, day) in [
            ("9999-12-31T23:59:59-14:00", "9999-12-30"),
            ("9999-12-31T23:59:59.999999999999Z", "9999-12-30"),
            ("9999-12-31T23:59:60Z", "9999-12-30"),
            ("0000-01-01T00:00:00+14:00", "-000001-12-31"),
        ] {
            let shown = format_time(parse_time(time).unwrap());
            assert!(shown.starts_with(day), "{time} is shown as {shown}");
        }
        assert!(format_time(UnixTime(i64::MAX)).starts_with("9999-12-"));
        for bad in [
            "",
            "yesterday",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "9999-12-31T23:59:59",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00.Z",
        ] {
            assert!(parse_time(bad).is_err(), "{bad:?}");
        }
    }
}
