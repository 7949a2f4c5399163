//! Compares word by word, as the default validator of ICPC problem packages does.

use std::io::{self, Read};

use model::{TokenCheck, Tolerance};

use super::bytes::ByteReader;
use super::{Difference, QUOTED_BYTES, quoted};

/// The longest word that can be a number. The rest of a longer one is compared without keeping it.
const MAX_NUMBER: usize = 1024;

/// The beginning of a word.
struct Word {
    bytes: Vec<u8>,
    /// Whether `bytes` is all of it.
    is_whole: bool,
}

pub(super) fn compare(
    check: TokenCheck,
    mut expected: ByteReader<impl Read>,
    mut found: ByteReader<impl Read>,
) -> io::Result<Option<Difference>> {
    let mut number = 0_u64;
    loop {
        match check.space_sensitive {
            true => {
                if let Some(difference) = compare_spaces(&mut expected, &mut found)? {
                    return Ok(Some(difference));
                }
            }
            false => {
                expected.skip(is_separator)?;
                found.skip(is_separator)?;
            }
        }
        let place = (found.line, number + 1);
        number += 1;
        let (wanted, got) = (next_word(&mut expected)?, next_word(&mut found)?);
        let (wanted, got) = match (wanted, got) {
            (None, None) => return Ok(None),
            (Some(wanted), Some(got)) => (wanted, got),
            (wanted, got) => return Ok(Some(difference(place, wanted.as_ref(), got.as_ref()))),
        };
        let is_equal = match wanted.is_whole && got.is_whole {
            true => are_equal(check, &wanted.bytes, &got.bytes),
            false => {
                are_equal_texts(check, &wanted.bytes, &got.bytes)
                    && compare_rest(check, &mut expected, &mut found)?
            }
        };
        if !is_equal {
            return Ok(Some(difference(place, Some(&wanted), Some(&got))));
        }
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\x0c' | b'\n' | b'\r' | b'\t' | b'\x0b')
}

/// Both must have the same blanks before the next word.
fn compare_spaces(
    expected: &mut ByteReader<impl Read>,
    found: &mut ByteReader<impl Read>,
) -> io::Result<Option<Difference>> {
    loop {
        let place = found.place();
        match (expected.peek()?, found.peek()?) {
            (Some(wanted), Some(got)) if wanted == got && is_separator(got) => {
                expected.advance();
                found.advance();
            }
            (wanted, got) if wanted.is_some_and(is_separator) || got.is_some_and(is_separator) => {
                let shown = |byte: Option<u8>| match byte {
                    None => "the end".into(),
                    Some(byte) if is_separator(byte) => quoted(&[byte]),
                    Some(_) => "a word".into(),
                };
                let (wanted, got) = (shown(wanted), shown(got));
                return Ok(Some(Difference(format!(
                    "{place}: expected {wanted}, found {got}"
                ))));
            }
            _ => return Ok(None),
        }
    }
}

/// The next word, which begins here; `None` at the end.
fn next_word(stream: &mut ByteReader<impl Read>) -> io::Result<Option<Word>> {
    let mut bytes = Vec::new();
    while let Some(byte) = stream.peek()?.filter(|byte| !is_separator(*byte)) {
        if bytes.len() == MAX_NUMBER {
            let is_whole = false;
            return Ok(Some(Word { bytes, is_whole }));
        }
        bytes.push(byte);
        stream.advance();
    }
    let is_whole = true;
    Ok((!bytes.is_empty()).then_some(Word { bytes, is_whole }))
}

/// Whether the rest of two words is equal, at least one of which is too long to be a number.
fn compare_rest(
    check: TokenCheck,
    expected: &mut ByteReader<impl Read>,
    found: &mut ByteReader<impl Read>,
) -> io::Result<bool> {
    loop {
        let wanted = expected.peek()?.filter(|byte| !is_separator(*byte));
        let got = found.peek()?.filter(|byte| !is_separator(*byte));
        match (wanted, got) {
            (None, None) => return Ok(true),
            (Some(wanted), Some(got)) if are_equal_texts(check, &[wanted], &[got]) => {
                expected.advance();
                found.advance();
            }
            _ => return Ok(false),
        }
    }
}

fn are_equal(check: TokenCheck, wanted: &[u8], got: &[u8]) -> bool {
    if are_equal_texts(check, wanted, got) {
        return true;
    }
    match (check.absolute_tolerance, check.relative_tolerance) {
        (None, None) => false,
        (absolute, relative) => match (number(wanted), number(got)) {
            (Some(wanted), Some(got)) => are_close(wanted, got, absolute, relative),
            _ => false,
        },
    }
}

fn are_equal_texts(check: TokenCheck, wanted: &[u8], got: &[u8]) -> bool {
    match check.case_sensitive {
        true => wanted == got,
        false => wanted.eq_ignore_ascii_case(got),
    }
}

/// Whether either error is within its tolerance. A number that is not finite is only close to the same text.
fn are_close(wanted: f64, got: f64, absolute: Option<Tolerance>, relative: Option<Tolerance>) -> bool {
    let error = (wanted - got).abs();
    absolute.is_some_and(|tolerance| error <= tolerance.as_f64())
        || relative.is_some_and(|tolerance| wanted.is_finite() && error <= tolerance.as_f64() * wanted.abs())
}

fn number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn difference((line, number): (u64, u64), wanted: Option<&Word>, got: Option<&Word>) -> Difference {
    let shown = |word: Option<&Word>| match word {
        None => "the end".into(),
        Some(word) => quoted(&word.bytes),
    };
    let (expected, found) = (shown(wanted), shown(got));
    // What is quoted may be equal.
    let far = match (wanted, got) {
        (Some(wanted), Some(got)) if common_prefix(&wanted.bytes, &got.bytes) >= QUOTED_BYTES => {
            " (they differ further on)"
        }
        _ => "",
    };
    Difference(format!(
        "word {number} (line {line}): expected {expected}, found {found}{far}"
    ))
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let both = one.iter().zip(other);
    both.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::super::Comparison;
    use super::super::tests::check;
    use super::*;

    fn tolerances(absolute: Option<f64>, relative: Option<f64>) -> Comparison {
        Comparison::Tokens(TokenCheck {
            absolute_tolerance: absolute.and_then(Tolerance::new),
            relative_tolerance: relative.and_then(Tolerance::new),
            ..TokenCheck::default()
        })
    }

    #[test]
    fn words_are_compared_without_their_case_and_the_blanks_between_them() {
        let tokens = Comparison::Tokens(TokenCheck::default());
        let equal = |one, other| {
            check(tokens, one, other, None);
            check(tokens, other, one, None);
        };
        equal("", " \x0c\n\r\t\x0b");
        equal("a b\nc", "  A\tB  c\r\n");
        equal(&"x".repeat(5000), &"X".repeat(5000));
        let differ = |expected, found, difference| check(tokens, expected, found, Some(difference));
        differ("a b", "a\nc", "word 2 (line 2): expected 'b', found 'c'");
        differ("a b", "a", "word 2 (line 1): expected 'b', found the end");
        differ("a", "a b", "word 2 (line 1): expected the end, found 'b'");
        differ("1.0", "1", "word 1 (line 1): expected '1.0', found '1'");
        // Only the separators of the format divide words.
        differ(
            "a b",
            "a\u{a0}b",
            "word 1 (line 1): expected 'a', found 'a\u{a0}b'",
        );
        let long = "x".repeat(5000);
        let quote = format!("'{}...'", "x".repeat(60));
        for found in [
            format!("{long}x"),
            long[1..].to_string(),
            format!("{}y", &long[1..]),
        ] {
            let difference =
                format!("word 1 (line 1): expected {quote}, found {quote} (they differ further on)");
            check(tokens, &long, &found, Some(&difference));
        }
    }

    #[test]
    fn case_and_blanks_count_if_they_are_asked_for() {
        let sensitive = Comparison::Tokens(TokenCheck {
            case_sensitive: true,
            space_sensitive: true,
            ..TokenCheck::default()
        });
        check(sensitive, " a\tB\n", " a\tB\n", None);
        let differ = |expected, found, difference| check(sensitive, expected, found, Some(difference));
        differ("a", "A", "word 1 (line 1): expected 'a', found 'A'");
        differ("a b", "a  b", "line 1, column 3: expected a word, found ' '");
        differ("a b", "a\nb", "line 1, column 2: expected ' ', found '\\n'");
        differ("a\n", "a", "line 1, column 2: expected '\\n', found the end");
        differ("a", " a", "line 1, column 1: expected a word, found ' '");
        differ("ab", "a b", "word 1 (line 1): expected 'ab', found 'a'");
    }

    #[test]
    fn numbers_are_equal_if_either_error_is_within_its_tolerance() {
        let close = |absolute, relative, wanted, got| {
            check(tolerances(absolute, relative), wanted, got, None);
        };
        let far = |absolute, relative, wanted: &str, got: &str| {
            let difference = format!("word 1 (line 1): expected '{wanted}', found '{got}'");
            check(tolerances(absolute, relative), wanted, got, Some(&difference));
        };
        close(Some(1e-6), None, "0.1", "0.1000005");
        far(Some(1e-6), None, "0.1", "0.100002");
        far(Some(1e-6), None, "1000000", "1000000.5");
        close(None, Some(1e-6), "1000000", "1000000.5");
        far(None, Some(1e-6), "0", "0.0000001");
        close(Some(1e-6), Some(1e-6), "0", "0.0000001");
        close(Some(1e-6), Some(1e-6), "1000000", "1000000.5");
        close(Some(0.0), None, "1.50", "1.5e0");
        close(Some(0.5), None, "-1", "-1.5");
        // What is no number, or not finite, has to be the same word.
        far(Some(1.0), Some(1.0), "yes", "1");
        far(Some(1.0), Some(1.0), "1", "one");
        close(Some(1.0), Some(1.0), "nan", "NaN");
        close(Some(1.0), Some(1.0), "inf", "Inf");
        far(Some(1.0), Some(1.0), "1", "nan");
        far(Some(1.0), Some(1.0), "inf", "1");
        far(Some(1.0), Some(1.0), "1", "inf");
    }
}
