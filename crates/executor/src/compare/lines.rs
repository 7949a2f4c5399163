//! Compares line by line, without blanks at the end of lines and without empty lines at the end.

use std::io::{self, Read};

use super::Difference;
use super::bytes::ByteReader;
use super::exact::{describe, difference};

pub(super) fn compare(
    mut expected: ByteReader<impl Read>,
    mut found: ByteReader<impl Read>,
) -> io::Result<Option<Difference>> {
    loop {
        let (wanted, got) = (expected.peek()?, found.peek()?);
        match (wanted, got) {
            (None, None) => return Ok(None),
            _ if wanted == got => {
                expected.advance();
                found.advance();
            }
            // All that both have read of the line is equal. So the lines are equal if only blanks follow on both sides.
            _ => {
                let place = found.place();
                let (skipped, found_skipped) = (expected.skip(is_blank)?, found.skip(is_blank)?);
                match (expected.peek()?, found.peek()?) {
                    (None, None) | (Some(b'\n'), Some(b'\n')) => {}
                    // What follows the last line is a difference, unless it is blank.
                    (None, Some(b'\n')) | (Some(b'\n'), None) => {
                        expected.skip(is_blank_or_newline)?;
                        found.skip(is_blank_or_newline)?;
                        if expected.peek()? != found.peek()? {
                            return difference(&mut expected, &mut found).map(Some);
                        }
                    }
                    _ => {
                        let wanted = describe(&skipped, &mut expected)?;
                        let got = describe(&found_skipped, &mut found)?;
                        return Ok(Some(Difference(format!(
                            "{place}: expected {wanted}, found {got}"
                        ))));
                    }
                }
            }
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\x0b' | b'\x0c')
}

fn is_blank_or_newline(byte: u8) -> bool {
    is_blank(byte) || byte == b'\n'
}

#[cfg(test)]
mod tests {
    use super::super::Comparison;
    use super::super::tests::check;

    #[test]
    fn blanks_at_the_end_of_lines_and_empty_lines_at_the_end_do_not_count() {
        let equal = |one, other| {
            check(Comparison::Lines, one, other, None);
            check(Comparison::Lines, other, one, None);
        };
        equal("", "");
        equal("", " \n\t\r\n");
        equal("a\nb", "a\nb\n");
        equal("a  \nb\t\r\n\n", "a\nb");
        equal("a \t\nb", "a\t \nb");
        equal("a\n \n\nb\n", "a\n\n\t\nb\n\n\n");
        equal("a\r\nb\r\n", "a\nb\n");
    }

    #[test]
    fn everything_else_counts() {
        let differ = |expected, found, difference| {
            check(Comparison::Lines, expected, found, Some(difference));
        };
        differ("a b", "a  b", "line 1, column 3: expected 'b', found ' b'");
        differ("a", "A", "line 1, column 1: expected 'a', found 'A'");
        differ(" a", "a", "line 1, column 1: expected ' a', found 'a'");
        differ(
            "a\nb",
            "a\n\nb",
            "line 2, column 1: expected 'b', found the end of the line",
        );
        differ(
            "a\n\nb",
            "a\nb",
            "line 2, column 1: expected the end of the line, found 'b'",
        );
        differ("a\n", "a\nb", "line 2, column 1: expected the end, found 'b'");
        differ("a", "a\n\nb", "line 3, column 1: expected the end, found 'b'");
        differ("a\n\n\nb", "a\n", "line 2, column 1: expected 'b', found the end");
    }
}
