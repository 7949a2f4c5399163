//! Looking for a text in the commands of a task, whatever the case of its letters.

use rusqlite::Row;

/// Columns of `BRIEF`.
const EXECUTE: usize = 4;
const COMPILE: usize = 10;

pub(super) struct Needle {
    lower: String,
}

impl Needle {
    pub(super) fn new(text: &str) -> Needle {
        Needle {
            lower: text.to_lowercase(),
        }
    }

    pub(super) fn is_in(&self, row: &Row<'_>) -> bool {
        [EXECUTE, COMPILE]
            .into_iter()
            .filter_map(|column| row.get_ref(column).ok()?.as_str().ok())
            .any(|command| self.is_part_of(command))
    }

    fn is_part_of(&self, text: &str) -> bool {
        if self.lower.is_empty() {
            return true;
        }
        // Nearly every command is plain ASCII, and this runs over many of them: without a copy of each.
        if text.is_ascii() {
            let lower = self.lower.as_bytes();
            return text
                .as_bytes()
                .windows(lower.len())
                .any(|part| part.eq_ignore_ascii_case(lower));
        }
        text.to_lowercase().contains(&self.lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
