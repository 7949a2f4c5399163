//! The verdicts of cases as they come: the live stdout of a judged task has a line for each.

use std::collections::BTreeMap;

use model::{CaseMark, Judging, Verdict};

/// Longer than any mark: its name has a bounded length.
const MAX_LINE: usize = 1 << 10;

/// The verdicts on the cases of one attempt so far.
#[derive(Debug, Default)]
pub(super) struct LiveMarks {
    /// By the places of the cases in their task.
    pub(super) verdicts: BTreeMap<usize, Verdict>,
    /// A line whose end has not come yet.
    line: Vec<u8>,
}

impl LiveMarks {
    /// Takes a piece of the stdout. Returns whether there is a new verdict. A line that is no mark is left out: a newer
    /// executor may send what this gateway does not know.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let before = self.verdicts.len();
        for byte in bytes {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.line);
                    self.take_line(&line);
                }
                _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                _ => {}
            }
        }
        self.verdicts.len() > before
    }

    fn take_line(&mut self, line: &[u8]) {
        let mark = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
        if let Some(CaseMark { index, verdict, .. }) = mark
            && index < Judging::MAX_CASES
        {
            self.verdicts.insert(index, verdict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_in_pieces() {
        let check = |pieces: &[&str], expected: &[(usize, Verdict)]| {
            let mut marks = LiveMarks::default();
            for piece in pieces {
                marks.push(piece.as_bytes());
            }
            let found: Vec<_> = marks.verdicts.into_iter().collect();
            assert_eq!(found, expected, "{pieces:?}");
        };
        check(&[], &[]);
        check(&["0 accepted a\n"], &[(0, Verdict::Accepted)]);
        check(
            &["0 accep", "ted a b", "\n1 wrong_answer c\n2 ti"],
            &[(0, Verdict::Accepted), (1, Verdict::WrongAnswer)],
        );
        check(&["nonsense\n", "7 unheard_of a\n", "99999999 accepted a\n"], &[]);
        let long = format!("0 accepted {}\n1 accepted a\n", "x".repeat(MAX_LINE));
        check(&[&long], &[(1, Verdict::Accepted)]);
    }

    #[test]
    fn only_new_verdicts_count_as_changes() {
        let mut marks = LiveMarks::default();
        assert!(!marks.push(b"0 accepted"));
        assert!(marks.push(b" a\n"));
        assert!(!marks.push(b"0 accepted a\n"));
    }
}
