//! Compares byte by byte.

use std::io::{self, Read};

use super::bytes::ByteReader;
use super::{Difference, QUOTED_BYTES, quoted};

pub(super) fn compare(
    mut expected: ByteReader<impl Read>,
    mut found: ByteReader<impl Read>,
) -> io::Result<Option<Difference>> {
    loop {
        match (expected.peek()?, found.peek()?) {
            (None, None) => return Ok(None),
            (wanted, got) if wanted == got => {
                expected.advance();
                found.advance();
            }
            _ => return difference(&mut expected, &mut found).map(Some),
        }
    }
}

/// Describes a difference at the places where the streams are.
pub(super) fn difference(
    expected: &mut ByteReader<impl Read>,
    found: &mut ByteReader<impl Read>,
) -> io::Result<Difference> {
    let place = found.place();
    let (wanted, got) = (describe(&[], expected)?, describe(&[], found)?);
    Ok(Difference(format!("{place}: expected {wanted}, found {got}")))
}

/// The next bytes of a stream, after bytes that were skipped.
pub(super) fn describe(skipped: &[u8], stream: &mut ByteReader<impl Read>) -> io::Result<String> {
    Ok(match stream.peek()? {
        _ if !skipped.is_empty() => {
            let rest = stream.rest_of_line(QUOTED_BYTES)?;
            quoted(&[skipped, &rest].concat())
        }
        None => "the end".into(),
        Some(b'\n') => "the end of the line".into(),
        Some(_) => quoted(&stream.rest_of_line(QUOTED_BYTES)?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Comparison;
    use super::super::tests::check;

    #[test]
    fn every_byte_counts() {
        let exact = |expected, found, difference| check(Comparison::Exact, expected, found, difference);
        exact("", "", None);
        exact("a b\n", "a b\n", None);
        exact(
            "a b\n",
            "a b",
            Some("line 1, column 4: expected the end of the line, found the end"),
        );
        exact(
            "a\nb\n",
            "a\nc\n",
            Some("line 2, column 1: expected 'b', found 'c'"),
        );
        exact("a", "A", Some("line 1, column 1: expected 'a', found 'A'"));
        exact("a ", "a  ", Some("line 1, column 3: expected the end, found ' '"));
    }
}
