//! Looking for a text in the commands of a task, whatever the case of its letters.

use memchr::memmem::Finder;

pub(crate) struct Needle {
    lower: Finder<'static>,
}

impl Needle {
    pub(crate) fn new(text: &str) -> Needle {
        Needle {
            lower: Finder::new(&text.to_lowercase()).into_owned(),
        }
    }

    /// In time linear in both: whoever may add and search chooses the text and the needle.
    pub(crate) fn is_part_of(&self, text: &str) -> bool {
        // Nearly every command is plain ASCII, for which there is a quicker way.
        let lower = match text.is_ascii() {
            true => text.to_ascii_lowercase(),
            false => text.to_lowercase(),
        };
        self.lower.find(lower.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_needle_that_nearly_matches_everywhere_is_searched_for_in_linear_time() {
        let needle = Needle::new(&format!("{}b", "A".repeat(1023)));
        for text in ["a".repeat(60_000), format!("é{}", "a".repeat(60_000))] {
            let began = Instant::now();
            for _ in 0..300 {
                assert!(!needle.is_part_of(&text));
            }
            let took = began.elapsed();
            assert!(took < Duration::from_secs(3), "{took:?}");
        }
    }

    #[test]
    fn case_does_not_matter_and_nothing_is_a_wildcard() {
        let check = |needle: &str, text: &str, expected: bool| {
            assert_eq!(
                Needle::new(needle).is_part_of(text),
                expected,
                "{needle:?} in {text:?}"
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
