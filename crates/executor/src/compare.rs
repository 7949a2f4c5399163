//! Compares the output of a judged program with the expected one.
//!
//! Both are read as streams with bounded memory, because a program may write gigabytes, and everything in one word. The
//! result says where the first difference is, for the owner of the cases.

mod bytes;
mod exact;
mod lines;
mod tokens;

use std::fmt;
use std::io::{self, Read};

use model::TokenCheck;

use self::bytes::ByteReader;

/// How two outputs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Byte by byte.
    Exact,
    /// Line by line, without blanks at the end of lines and without empty lines at the end.
    Lines,
    /// Word by word.
    Tokens(TokenCheck),
}

/// Where two outputs differ first, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference(String);

/// The longest part of an output that a [`Difference`] quotes.
const QUOTED_BYTES: usize = 60;

/// The first difference between the outputs, or `None` if they count as equal. An error is that of a read.
pub(crate) fn compare(
    comparison: Comparison,
    expected: impl Read,
    found: impl Read,
) -> io::Result<Option<Difference>> {
    let (expected, found) = (ByteReader::new(expected), ByteReader::new(found));
    match comparison {
        Comparison::Exact => exact::compare(expected, found),
        Comparison::Lines => lines::compare(expected, found),
        Comparison::Tokens(check) => tokens::compare(check, expected, found),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A part of an output in quotes, shortened and on one line.
fn quoted(bytes: &[u8]) -> String {
    let is_long = bytes.len() > QUOTED_BYTES;
    let shown = &bytes[..bytes.len().min(QUOTED_BYTES)];
    let text = String::from_utf8_lossy(shown);
    let text: String = text.chars().flat_map(shown_char).collect();
    match is_long {
        true => format!("'{text}...'"),
        false => format!("'{text}'"),
    }
}

fn shown_char(char: char) -> Vec<char> {
    match char.is_control() {
        true => char.escape_default().collect(),
        false => vec![char],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts one byte at a time, so that every word is in several parts.
    struct SingleBytes<'a>(&'a [u8]);

    impl Read for SingleBytes<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1).min(self.0.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    pub(super) fn check(comparison: Comparison, expected: &str, found: &str, difference: Option<&str>) {
        let whole = compare(comparison, expected.as_bytes(), found.as_bytes()).unwrap();
        let in_parts = compare(
            comparison,
            SingleBytes(expected.as_bytes()),
            SingleBytes(found.as_bytes()),
        );
        assert_eq!(whole, in_parts.unwrap(), "{expected:?} {found:?}");
        let whole = whole.map(|difference| difference.to_string());
        assert_eq!(whole.as_deref(), difference, "{expected:?} {found:?}");
    }

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quoted(b"a\tb\n"), "'a\\tb\\n'");
        assert_eq!(quoted(&[b'x'; 70]), format!("'{}...'", "x".repeat(60)));
        assert_eq!(quoted(b"\xff"), "'\u{fffd}'");
    }
}
