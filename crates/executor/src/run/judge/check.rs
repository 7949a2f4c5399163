//! Checks an output without a program: compares it with the answer of its case.

use std::io::{self, Read};

use model::{Case, CaseDecision, CheckResult, Content, Verdict};

use super::super::{RunContext, RunFailure};
use super::case::{CheckedCase, read_stdout};
use crate::attempt_control::AttemptRevoked;
use crate::compare::{Comparison, Difference, compare};
use crate::outcome::StepOutcome;

/// The exit codes of built-in checks are those of a checker of an ICPC problem package.
const ACCEPTED: i32 = 42;
const REJECTED: i32 = 43;

/// The slot reports progress at least once for this many bytes.
const REPORTED_BYTES: usize = 4 << 20;

/// Reads an output and reports progress to the control of the attempt.
struct ReportingReader<'a, R> {
    context: RunContext<'a>,
    reader: R,
    unreported: usize,
}

pub(super) fn compare_output(
    context: RunContext<'_>,
    comparison: Comparison,
    case: &Case,
    outcome: &StepOutcome,
) -> Result<CheckedCase, RunFailure> {
    let step = "compare the output";
    context
        .control()
        .start_operation(step)
        .map_err(|AttemptRevoked| RunFailure::Revoked)?;
    let found = ReportingReader {
        context,
        reader: read_stdout(outcome),
        unreported: 0,
    };
    let answer = read_answer(context, case);
    match answer.and_then(|answer| compare(comparison, answer, found)) {
        Ok(difference) => Ok(decide(case, difference)),
        Err(_) if context.control().is_revoked() => Err(RunFailure::Revoked),
        Err(error) => {
            let name = &case.name;
            Err(RunFailure::ExecutorFailure(format!(
                "could not {step} of the case '{name}' with its answer: {error}"
            )))
        }
    }
}

fn decide(case: &Case, difference: Option<Difference>) -> CheckedCase {
    let (decision, exit_code) = match &difference {
        None => (CaseDecision::accepted(case.points), ACCEPTED),
        Some(_) => (CaseDecision::without_points(Verdict::WrongAnswer), REJECTED),
    };
    let check = CheckResult {
        exit_code: Some(exit_code),
        message: String::new(),
        judge_message: difference
            .map(|difference| difference.to_string())
            .unwrap_or_default(),
    };
    CheckedCase {
        decision,
        check: Some(check),
    }
}

/// Reads the answer of a case. One without an answer has an empty one.
fn read_answer<'a>(context: RunContext<'_>, case: &'a Case) -> io::Result<Box<dyn Read + 'a>> {
    match &case.answer {
        None => Ok(Box::new(io::empty())),
        Some(Content::Inline(bytes)) => Ok(Box::new(&bytes[..])),
        Some(Content::Blob(hash)) => Ok(Box::new(context.slot_pool.cache.open_blob(hash)?)),
    }
}

impl<R: Read> Read for ReportingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unreported >= REPORTED_BYTES {
            self.unreported = 0;
            let control = self.context.control();
            control
                .start_operation("compare the output")
                .map_err(io::Error::other)?;
        }
        let count = self.reader.read(buffer)?;
        self.unreported += count;
        Ok(count)
    }
}
