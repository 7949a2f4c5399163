//! Case-insensitive search for a text in the commands of a task.

use memchr::memmem::Finder;

/// The text of a task search, prepared for case-insensitive matching of tasks' commands in linear time.
pub(crate) struct TextMatcher {
    finder: Finder<'static>,
}

impl TextMatcher {
    pub(crate) fn new(text: &str) -> TextMatcher {
        TextMatcher {
            finder: Finder::new(&text.to_lowercase()).into_owned(),
        }
    }

    /// Whether `text` contains the wanted text. Takes linear time even in the worst case, because users choose both.
    pub(crate) fn matches(&self, text: &str) -> bool {
        // Nearly every command is plain ASCII, which is faster to convert.
        let lower = match text.is_ascii() {
            true => text.to_ascii_lowercase(),
            false => text.to_lowercase(),
        };
        self.finder.find(lower.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_text_that_nearly_matches_everywhere_is_searched_in_linear_time() {
        let matcher = TextMatcher::new(&format!("{}b", "A".repeat(1023)));
        for text in ["a".repeat(60_000), format!("é{}", "a".repeat(60_000))] {
            let began = Instant::now();
            for _ in 0..300 {
                assert!(!matcher.matches(&text));
            }
            let took = began.elapsed();
            assert!(took < Duration::from_secs(3), "{took:?}");
        }
    }

    #[test]
    fn matching_ignores_case_and_has_no_wildcards() {
        let check = |wanted: &str, text: &str, expected: bool| {
            assert_eq!(
                TextMatcher::new(wanted).matches(text),
                expected,
                "{wanted:?} in {text:?}"
            );
        };
        check("G++", "g++ -O2 a.cc", true);
        check("", "anything", true);
        check("a%b", "a%b", true);
        check("a%b", "axb", false);
        check("a_b", "axb", false);
        check("ÉTÉ", "échos d'été", true);
        check("ete", "été", false);
        check("longer than the text", "text", false);
    }
}
