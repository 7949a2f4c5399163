//! Points in time as RFC 3339 with microseconds, always in UTC.

use jiff::Timestamp;
use model::Moment;

pub fn show_time(moment: Moment) -> String {
    // The model can hold moments that no calendar names; they are shown as the last one that it does.
    let time = Timestamp::from_microsecond(moment.0).unwrap_or(if moment.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    });
    format!("{time:.6}")
}

pub fn parse_time(text: &str) -> Result<Moment, String> {
    text.parse::<Timestamp>()
        .map(|time| Moment(time.as_microsecond()))
        .map_err(|_| format!("'{text}' is not a time; write it like 2026-01-31T12:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_text() {
        assert_eq!(show_time(Moment(0)), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            show_time(Moment(1_767_225_600_123_456)),
            "2026-01-01T00:00:00.123456Z"
        );
        for moment in [Moment(0), Moment(1_767_225_600_123_456), Moment(-5)] {
            assert_eq!(parse_time(&show_time(moment)), Ok(moment));
        }
        assert_eq!(
            parse_time("2026-01-01T01:00:00+01:00"),
            Ok(Moment(1_767_225_600_000_000))
        );
        assert!(show_time(Moment(i64::MAX)).starts_with("9999-12-"));
        for bad in ["", "yesterday", "2026-01-01", "2026-13-01T00:00:00Z"] {
            assert!(parse_time(bad).is_err(), "{bad:?}");
        }
    }
}
