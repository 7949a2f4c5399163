//! Splits text into words as a shell does, and quotes words for a shell.

/// Why a text could not be split into words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SplitWordsError {
    #[error("has a {0} without a closing one")]
    OpenQuote(char),
    #[error("ends with a backslash; write it twice for the character itself")]
    TrailingBackslash,
}

/// The words of a text: separated by white space, unless quotes or a backslash keep it. There are no variables, patterns or
/// comments, so `$`, `*` and `#` are ordinary characters.
pub(super) fn split_words(text: &str) -> Result<Vec<String>, SplitWordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            character if character.is_ascii_whitespace() => words.extend(word.take()),
            quote @ ('\'' | '"') => read_quoted(quote, &mut characters, word.get_or_insert_default())?,
            '\\' => match characters.next() {
                None => return Err(SplitWordsError::TrailingBackslash),
                // A line that continues on the next one.
                Some('\n') => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

fn read_quoted(
    quote: char,
    characters: &mut std::str::Chars<'_>,
    word: &mut String,
) -> Result<(), SplitWordsError> {
    while let Some(character) = characters.next() {
        match character {
            end if end == quote => return Ok(()),
            '\\' if quote == '"' => match characters.next() {
                None => break,
                Some('\n') => {}
                Some(special @ ('"' | '\\' | '$' | '`')) => word.push(special),
                Some(other) => word.extend(['\\', other]),
            },
            plain => word.push(plain),
        }
    }
    Err(SplitWordsError::OpenQuote(quote))
}

/// A word as a shell reads it, quoted only if it needs that.
pub(in crate::pages) fn quote_word(word: &str) -> String {
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | '@' | ':' | '=' | '%')
    };
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The words as a text that [`split_words`] and a shell split into them again.
pub(super) fn join_words<'a>(words: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    let quoted: Vec<_> = words.into_iter().map(quote_word).collect();
    quoted.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(split_words(text).unwrap(), expected, "{text}");
        };
        check("", &[]);
        check("  a  b\n\tc ", &["a", "b", "c"]);
        check("'a b' \"c d\" e\\ f", &["a b", "c d", "e f"]);
        check("''  \"\"", &["", ""]);
        check("a'b'\"c\"d", &["abcd"]);
        check("\"a\\\"b\\n\\\\\" '\\n'", &["a\"b\\n\\", "\\n"]);
        check("$HOME *.c #x `id` a;b", &["$HOME", "*.c", "#x", "`id`", "a;b"]);
        check("one \\\ntwo 'three\nfour'", &["one", "two", "three\nfour"]);
        check("naïve 日本 e\u{301}", &["naïve", "日本", "e\u{301}"]);
    }

    #[test]
    fn what_is_not_closed_is_refused() {
        let check = |text: &str, expected: SplitWordsError| {
            assert_eq!(split_words(text), Err(expected), "{text}");
        };
        check("a 'b", SplitWordsError::OpenQuote('\''));
        check("a \"b", SplitWordsError::OpenQuote('"'));
        check("\"a\\", SplitWordsError::OpenQuote('"'));
        check("a\\", SplitWordsError::TrailingBackslash);
    }

    #[test]
    fn quoted_words_are_split_into_themselves() {
        for word in [
            "",
            "plain-1.txt",
            "a b",
            "it's",
            "\"",
            "\\",
            "$x",
            "a\nb",
            "'",
            "''",
            "é",
            "!!",
            "~",
            "-x",
            "{a,b}",
            "a\r\nb",
        ] {
            assert_eq!(split_words(&quote_word(word)).unwrap(), [word], "{word:?}");
        }
        let words = ["a b", "", "c"];
        assert_eq!(split_words(&join_words(words, "\n")).unwrap(), words);
    }
}
