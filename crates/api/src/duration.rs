//! Durations that a person writes: a number of seconds, or text with units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// A duration that a user writes in JSON, options or settings, with or without units. It is read from `2`, `0.25`,
/// `"2s"`, `"250ms"` or `"1m30s"`, and written as seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

/// A hundred years: longer than any task, and small enough that arithmetic on it cannot overflow.
pub(crate) const MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
];

impl HumanDuration {
    pub fn from_seconds(seconds: f64) -> Result<HumanDuration, String> {
        if seconds.is_nan() || seconds.is_sign_negative() && seconds != 0.0 {
            return Err("must not be negative; give seconds, or text like \"10s\" or \"250ms\"".into());
        }
        match Duration::try_from_secs_f64(seconds.abs()) {
            Ok(span) if span <= MAX => Ok(HumanDuration(span)),
            _ => Err(format!("is too long; the limit is {} seconds", MAX.as_secs())),
        }
    }
}

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<HumanDuration, String> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err("is empty; give seconds, or text like \"10s\" or \"250ms\"".into());
        }
        if rest.starts_with('-') {
            return HumanDuration::from_seconds(-1.0);
        }
        if let Some(seconds) = number(rest) {
            return HumanDuration::from_seconds(seconds);
        }
        let mut total = 0.0;
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (amount, after) = rest.split_at(digits);
            let letters = after
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            let amount = number(amount).ok_or_else(|| {
                format!("'{text}' is not a duration; write it like \"10s\", \"250ms\" or \"1m30s\"")
            })?;
            let (_, factor) = UNITS
                .iter()
                .find(|(name, _)| *name == unit.trim())
                .ok_or_else(|| {
                    format!(
                        "'{}' is not a unit of time; there are ns, us, ms, s, m, h and d",
                        unit.trim()
                    )
                })?;
            total += amount * factor;
            rest = after;
        }
        HumanDuration::from_seconds(total)
    }
}

/// Accepts decimal digits and a point only: the parser of `f64` also accepts `inf`, `nan` and exponents.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    if plain { text.parse().ok() } else { None }
}

/// A regular expression for durations above zero and below the limit. It requires the units in descending order, each
/// at most once, which is stricter than the parser.
pub(crate) fn pattern() -> String {
    format!("^(?:{})$", positive_pattern())
}

/// Like [`pattern`], but also accepts zero.
pub(crate) fn pattern_with_zero() -> String {
    format!("^(?:{}|0(?:ns|us|ms|s|m|h|d)?)$", positive_pattern())
}

fn positive_pattern() -> String {
    /// Each unit with its number of digits, chosen so that the sum stays below the limit.
    const PARTS: [(&str, u8); 7] = [
        ("d", 4),
        ("h", 5),
        ("m", 7),
        ("s", 9),
        ("ms", 9),
        ("us", 9),
        ("ns", 9),
    ];
    let seconds = r"[1-9][0-9]{0,8}(?:\.[0-9]{1,9})?|0?\.[0-9]{0,8}[1-9]".to_string();
    let fraction = r"(?:[1-9][0-9]{0,3}\.[0-9]{1,3}|0?\.[0-9]{0,2}[1-9])(?:us|ms|s|m|h|d)".to_string();
    let from_each_unit = PARTS.iter().enumerate().map(|(first, (unit, digits))| {
        let rest: String = PARTS[first + 1..]
            .iter()
            .map(|(unit, digits)| format!("(?:[0-9]{{1,{digits}}}{unit})?"))
            .collect();
        format!("[1-9][0-9]{{0,{}}}{unit}{rest}", digits - 1)
    });
    let all: Vec<_> = [seconds, fraction].into_iter().chain(from_each_unit).collect();
    all.join("|")
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.subsec_nanos() == 0 {
            serializer.serialize_u64(self.0.as_secs())
        } else {
            serializer.serialize_f64(self.0.as_secs_f64())
        }
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HumanDuration, D::Error> {
        /// A serde visitor that parses a [`HumanDuration`] from a JSON number of seconds or from text with units.
        struct HumanDurationVisitor;

        impl Visitor<'_> for HumanDurationVisitor {
            type Value = HumanDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds, or text like \"10s\" or \"250ms\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<HumanDuration, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<HumanDuration, E> {
                HumanDuration::from_seconds(seconds).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<HumanDuration, E> {
                // An f64 holds integers exactly up to far beyond the limit.
                self.visit_f64(seconds as f64)
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<HumanDuration, E> {
                self.visit_f64(seconds as f64)
            }
        }

        deserializer.deserialize_any(HumanDurationVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        let check = |json: &str, millis: u64, written: &str| {
            let span: HumanDuration =
                serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(span.0, Duration::from_millis(millis), "{json}");
            let again = serde_json::to_string(&span).unwrap();
            assert_eq!(again, written);
            assert_eq!(serde_json::from_str::<HumanDuration>(&again).unwrap(), span);
        };
        check("2", 2000, "2");
        check("0.25", 250, "0.25");
        check("0", 0, "0");
        check("\"10s\"", 10_000, "10");
        check("\"10\"", 10_000, "10");
        check("\"250ms\"", 250, "0.25");
        check("\"2m\"", 120_000, "120");
        check("\"1h\"", 3_600_000, "3600");
        check("\"1m30s\"", 90_000, "90");
        check("\"1m 30.5s\"", 90_500, "90.5");
        check("\"2000us\"", 2, "0.002");
        check("\"1d\"", 86_400_000, "86400");
    }

    #[test]
    fn impossible_durations_are_refused() {
        let check = |json: &str, problem: &str| {
            let error = serde_json::from_str::<HumanDuration>(json)
                .unwrap_err()
                .to_string();
            assert!(error.contains(problem), "{json}: {error}");
        };
        check("-1", "negative");
        check("-0.5", "negative");
        check("\"-2s\"", "negative");
        check("1e30", "too long");
        check("18446744073709551615", "too long");
        check("\"99999999999999999999h\"", "too long");
        check("\"10parsecs\"", "'parsecs' is not a unit of time");
        check("\"s\"", "not a duration");
        check("\"NaN\"", "not a duration");
        check("\"inf\"", "not a duration");
        check("\"1.2.3s\"", "not a duration");
        check("\"1m30\"", "is not a unit of time");
        check("\"\"", "empty");
        check("true", "a number of seconds");
        check("null", "a number of seconds");
    }
}
