//! Sizes that a person writes: a number of bytes, or text with a unit.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// A size in bytes that a user writes in JSON, options or settings, with or without a unit. It is read from `1048576`,
/// `"1MiB"`, `"1MB"` or `"64k"`, and written as a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// The stores and the kernel use signed 64-bit numbers.
pub(crate) const MAX: u64 = i64::MAX as u64;

/// As in coreutils: a letter alone and a letter with `iB` count in powers of 1024, a letter with `B` in powers of 1000.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1000),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

const EXPECTED_FORM: &str = "give bytes, or text like \"256MiB\" or \"64k\"";

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let text = text.trim();
        if text.starts_with('-') {
            return Err(format!("must not be negative; {EXPECTED_FORM}"));
        }
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (amount, unit) = text.split_at(digits);
        let unit = unit.trim();
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == unit.to_ascii_lowercase())
            .ok_or_else(|| {
                format!("'{unit}' is not a unit of size; there are B, KiB, MiB, GiB, TiB, kB, MB, GB and TB")
            })?;
        match amount.parse::<u64>() {
            Ok(amount) => amount
                .checked_mul(*factor)
                .filter(|bytes| *bytes <= MAX)
                .map(ByteSize)
                .ok_or_else(too_large),
            // The amount has more digits than fit a u64, or a fraction.
            Err(_) => match amount.parse::<f64>() {
                Ok(amount) => from_float((amount * *factor as f64).round()),
                Err(_) => Err(format!("'{text}' is not a size; {EXPECTED_FORM}")),
            },
        }
    }
}

/// The letter of each unit with its number of digits, chosen so that the amount stays below the limit.
const LETTERS: [(&str, u8); 4] = [("[kK]", 15), ("[mM]", 12), ("[gG]", 9), ("[tT]", 6)];

/// A regular expression for sizes above zero and below the limit.
pub(crate) fn pattern() -> String {
    format!("^(?:[1-9][0-9]{{0,17}} ?[bB]?|{})$", with_letters(&LETTERS))
}

/// Like [`pattern`], for sizes of at least 64 KiB, the minimum for a stack.
pub(crate) fn stack_pattern() -> String {
    let kibibytes = "(?:6[4-9]|[7-9][0-9]|[1-9][0-9]{2,14}) ?[kK](?:[iI][bB])?";
    let kilobytes = "(?:6[6-9]|[7-9][0-9]|[1-9][0-9]{2,14}) ?[kK][bB]";
    let bytes =
        "(?:6553[6-9]|655[4-9][0-9]|65[6-9][0-9]{2}|6[6-9][0-9]{3}|[7-9][0-9]{4}|[1-9][0-9]{5,17}) ?[bB]?";
    let whole = with_whole_letters(&LETTERS[1..]);
    format!("^(?:{bytes}|{kibibytes}|{kilobytes}|{whole})$")
}

fn with_letters(letters: &[(&str, u8)]) -> String {
    let fraction = |(letter, _): &(&str, u8)| format!(r"0?\.[0-9]{{0,2}}[1-9] ?{letter}(?:[iI]?[bB])?");
    let fractions: Vec<_> = letters.iter().map(fraction).collect();
    format!("{}|{}", with_whole_letters(letters), fractions.join("|"))
}

/// Amounts of one or more.
fn with_whole_letters(letters: &[(&str, u8)]) -> String {
    let one = |(letter, digits): &(&str, u8)| {
        format!(
            r"[1-9][0-9]{{0,{}}}(?:\.[0-9]{{1,3}})? ?{letter}(?:[iI]?[bB])?",
            digits - 1
        )
    };
    letters.iter().map(one).collect::<Vec<_>>().join("|")
}

fn from_float(bytes: f64) -> Result<ByteSize, String> {
    if bytes.is_nan() || bytes < 0.0 {
        Err(format!("must not be negative; {EXPECTED_FORM}"))
    } else if bytes >= MAX as f64 {
        Err(too_large())
    } else if bytes.fract() != 0.0 {
        Err(format!("must be a whole number of bytes; {EXPECTED_FORM}"))
    } else {
        Ok(ByteSize(bytes as u64))
    }
}

fn too_large() -> String {
    format!("is too large; the limit is {MAX} bytes")
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)]
            .into_iter()
            .find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        match exact {
            Some((unit, shift)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        /// A serde visitor that parses a [`ByteSize`] from a JSON number of bytes or from text with a unit.
        struct ByteSizeVisitor;

        impl Visitor<'_> for ByteSizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or text like \"256MiB\" or \"64k\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_f64<E: Error>(self, bytes: f64) -> Result<ByteSize, E> {
                from_float(bytes).map_err(E::custom)
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteSize, E> {
                if bytes <= MAX {
                    Ok(ByteSize(bytes))
                } else {
                    Err(E::custom(too_large()))
                }
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteSize, E> {
                self.visit_f64(bytes as f64)
            }
        }

        deserializer.deserialize_any(ByteSizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        let check = |json: &str, bytes: u64| {
            let size: ByteSize = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(size.0, bytes, "{json}");
            assert_eq!(serde_json::to_string(&size).unwrap(), bytes.to_string());
        };
        check("0", 0);
        check("1048576", 1 << 20);
        check("1e6", 1_000_000);
        check("\"256MiB\"", 256 << 20);
        check("\"256 MiB\"", 256 << 20);
        check("\"1MB\"", 1_000_000);
        check("\"64k\"", 64 << 10);
        check("\"64K\"", 64 << 10);
        check("\"1.5GiB\"", 3 << 29);
        check("\"17\"", 17);
        check("\"17B\"", 17);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let check = |json: &str, problem: &str| {
            let error = serde_json::from_str::<ByteSize>(json).unwrap_err().to_string();
            assert!(error.contains(problem), "{json}: {error}");
        };
        check("-1", "negative");
        check("\"-1MiB\"", "negative");
        check("1.5", "whole number");
        check("1e300", "too large");
        check("18446744073709551615", "too large");
        check("\"99999999999TiB\"", "too large");
        check("\"99999999999999999999999\"", "too large");
        check("\"1 elephant\"", "'elephant' is not a unit of size");
        check("\"MiB\"", "not a size");
        check("\"\"", "not a size");
        check("\"1.2.3k\"", "not a size");
        check("[]", "a number of bytes");
    }

    #[test]
    fn sizes_are_shown_to_people() {
        assert_eq!(ByteSize(256 << 20).to_string(), "256 MiB");
        assert_eq!(ByteSize(1000).to_string(), "1000 bytes");
        assert_eq!(ByteSize(0).to_string(), "0 bytes");
    }
}
