//! Formats values for pages.

use std::time::Duration;

use maud::{Markup, html};
use model::UnixTime;

/// The words of a name like `time_limit`.
pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// Encodes a text as a part of a URL.
pub(super) fn encode(text: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A time to the second. The tooltip shows the exact time. A script shows it in the reader's time zone.
pub(super) fn time(time: UnixTime) -> Markup {
    let exact = api::format_time(time);
    let (date, rest) = exact.split_once('T').unwrap_or((&exact, ""));
    let clock = rest.split('.').next().unwrap_or(rest);
    html! { time datetime=(exact) title={ (exact) " (UTC)" } { (date) " " (clock) " UTC" } }
}

/// A whole number with its thousands apart: `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// The singular or plural of a word.
pub(super) fn plural(count: impl Into<u64>, word: &str) -> String {
    match count.into() {
        1 => word.to_string(),
        _ => format!("{word}s"),
    }
}

pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if duration.subsec_nanos() == 0 && seconds < 120.0 {
        format!("{seconds} s")
    } else if seconds < 120.0 {
        format!("{seconds:.2} s")
    } else {
        let whole = duration.as_secs();
        let parts = [(whole / 3600, "h"), (whole / 60 % 60, "min"), (whole % 60, "s")];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let parts: Vec<_> = parts.map(|(number, unit)| format!("{number} {unit}")).collect();
        parts.join(" ")
    }
}

pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} {}", plural(bytes, "byte"))
    } else if amount.fract() == 0.0 {
        format!("{amount} {}", UNITS[unit])
    } else {
        format!("{amount:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn values_are_readable() {
        assert_eq!(duration(Duration::from_micros(2903)), "2.9 ms");
        assert_eq!(duration(Duration::from_millis(1500)), "1.50 s");
        for (seconds, expected) in [
            (60, "60 s"),
            (120, "2 min"),
            (221, "3 min 41 s"),
            (3600, "1 h"),
            (3725, "1 h 2 min 5 s"),
            (90_005, "25 h 5 s"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(bytes(17), "17 bytes");
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1 << 30), "1 GiB");
        assert_eq!(
            (plural(1u32, "slot"), plural(0u32, "slot")),
            ("slot".into(), "slots".into())
        );
        assert_eq!(bytes(3 << 19), "1.5 MiB");
        assert!(
            time(UnixTime(0))
                .into_string()
                .contains(">1970-01-01 00:00:00 UTC<")
        );
    }
}
