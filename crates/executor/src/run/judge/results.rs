//! What a result keeps of the cases of a task.

use model::{CapturedOutput, Case, CaseResult, Content, Points, Verdict};

use super::super::{RunContext, RunFailure};
use crate::attempt_control::AttemptRevoked;
use crate::outgoing::OutgoingFiles;

/// How many bytes of output and messages all cases of a task keep together, and how many each of them has at least.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
const MIN_TEXT_BYTES: usize = 256;
/// The two output streams and the two messages of a case.
const TEXTS_PER_CASE: usize = 4;
/// Encoded results up to this size travel within the result of the task.
const MAX_INLINE_BYTES: usize = CapturedOutput::MAX_HEAD;

/// Divides the bytes of output and messages that a result keeps among the cases of a task.
pub(super) struct OutputBudget {
    bytes_left: usize,
    texts_left: usize,
}

impl OutputBudget {
    pub(super) fn for_cases(cases: usize) -> OutputBudget {
        OutputBudget {
            bytes_left: MAX_OUTPUT_BYTES,
            texts_left: cases * TEXTS_PER_CASE,
        }
    }

    /// Shortens the texts of the next case. What a case does not use is left for later ones.
    pub(super) fn trim(&mut self, result: &mut CaseResult) {
        let texts_after = self.texts_left.saturating_sub(TEXTS_PER_CASE);
        // Messages come first: they are short, and say more than the output.
        if let Some(check) = &mut result.check {
            for message in [&mut check.message, &mut check.judge_message] {
                truncate_text(message, self.share());
                self.take(message.len());
            }
        }
        if let Some(execute) = &mut result.execute {
            for output in [&mut execute.stderr, &mut execute.stdout] {
                keep_first(output, self.share());
                self.take(output.head.len());
            }
        }
        self.texts_left = texts_after;
    }

    /// How many bytes the next text may have.
    fn share(&self) -> usize {
        let share = self.bytes_left / self.texts_left.max(1);
        share.clamp(MIN_TEXT_BYTES, CapturedOutput::MAX_HEAD)
    }

    fn take(&mut self, bytes: usize) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.texts_left = self.texts_left.saturating_sub(1);
    }
}

/// Cuts a text to this many bytes, between two characters.
fn truncate_text(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
}

/// Keeps the first bytes of an output, and none of what is not in its head.
fn keep_first(output: &mut CapturedOutput, bytes: usize) {
    if output.head.len() > bytes {
        // A copy, so that the rest does not stay in memory.
        output.head = output.head.slice(..bytes).to_vec().into();
    }
    let kept = output.head.len() as u64;
    output.truncated |= output.size > kept;
    (output.size, output.blob) = (kept, None);
}

pub(super) fn skipped(case: &Case) -> CaseResult {
    CaseResult {
        name: case.name.clone(),
        verdict: Verdict::Skipped,
        points: Points::ZERO,
        execute: None,
        check: None,
    }
}

/// The encoded results, as a blob if they are many.
pub(super) fn keep_results(
    context: RunContext<'_>,
    results: &[CaseResult],
    files: &mut OutgoingFiles,
) -> Result<Content, RunFailure> {
    let encoded = rpc::encode_case_results(results);
    if encoded.len() <= MAX_INLINE_BYTES {
        return Ok(Content::Inline(encoded));
    }
    let progress = || context.control().start_operation("keep the results of the cases");
    let failed = |why: String| {
        let problem = "could not keep the results of the cases for their upload";
        RunFailure::ExecutorFailure(format!("{problem}: {why}"))
    };
    let reserved = context
        .slot_pool
        .outgoing
        .reserve(encoded.len() as u64, files, &progress);
    match reserved {
        Err(AttemptRevoked) => Err(RunFailure::Revoked),
        Ok(Err(_)) => Err(failed("too much output waits for its upload".into())),
        Ok(Ok(room)) => match room.fill(&encoded, files) {
            Ok(hash) => Ok(Content::Blob(hash)),
            Err(error) => Err(failed(error.to_string())),
        },
    }
}

#[cfg(test)]
mod tests {
    use model::CaseName;

    use super::*;
    use crate::fixtures;

    fn result(stdout: usize, stderr: usize) -> CaseResult {
        let mut execute = fixtures::outcome();
        execute.stdout = CapturedOutput::small(vec![b'o'; stdout]);
        execute.stderr = CapturedOutput::small(vec![b'e'; stderr]);
        CaseResult {
            name: CaseName::new("1").unwrap(),
            verdict: Verdict::Accepted,
            points: Points::ONE,
            execute: Some(execute),
            check: None,
        }
    }

    /// How many bytes of each stdout and stderr are kept, if all cases write this much.
    fn kept(cases: usize, written: (usize, usize)) -> Vec<(usize, usize)> {
        let mut budget = OutputBudget::for_cases(cases);
        let results = (0..cases).map(|_| {
            let mut result = result(written.0, written.1);
            budget.trim(&mut result);
            let execute = result.execute.unwrap();
            for (output, written) in [(&execute.stdout, written.0), (&execute.stderr, written.1)] {
                assert_eq!(output.truncated, output.head.len() < written);
                assert_eq!((output.size, output.blob), (output.head.len() as u64, None));
            }
            (execute.stdout.head.len(), execute.stderr.head.len())
        });
        results.collect()
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let check = |text: &str, bytes: usize, expected: &str| {
            let mut text = text.to_string();
            truncate_text(&mut text, bytes);
            assert_eq!(text, expected);
        };
        check("abc", 3, "abc");
        check("abc", 2, "ab");
        check("a\u{e9}b", 2, "a");
        check("\u{e9}", 1, "");
    }

    #[test]
    fn few_cases_keep_much_and_many_cases_keep_something() {
        let head = CapturedOutput::MAX_HEAD;
        assert_eq!(kept(2, (head, 10)), [(head, 10); 2]);
        assert_eq!(kept(2, (10 * head, 0)), [(head, 0); 2]);
        // What stderr does not use is left for stdout.
        let many = kept(1000, (head, 0));
        assert!(many.iter().all(|(stdout, _)| *stdout >= 1 << 10));
        assert!(many.last().unwrap().0 > many[0].0);
        let total: usize = many.iter().map(|(stdout, _)| stdout).sum();
        assert!(total <= MAX_OUTPUT_BYTES, "{total}");
        let most = kept(5000, (head, head));
        assert!(
            most.iter()
                .all(|kept| kept.0 >= MIN_TEXT_BYTES && kept.1 >= MIN_TEXT_BYTES)
        );
        let total: usize = most.iter().map(|(stdout, stderr)| stdout + stderr).sum();
        assert!(
            total <= MAX_OUTPUT_BYTES + most.len() * 2 * MIN_TEXT_BYTES,
            "{total}"
        );
    }
}
