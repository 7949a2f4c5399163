//! What the spool reads from a result.

use model::{
    AttemptEnd, CapturedOutput, OutputSource, StepName, StreamName, TaskResult, TaskStatus, Verdict,
};

use crate::collect::LISTED_FILE_BYTES;

/// About how many bytes an outcome has in a report, besides its output.
const OUTCOME_BYTES: usize = 100;

/// About how many bytes the mark of a case has in a report.
const MARK_BYTES: usize = 16;

/// About how many bytes the end of an attempt has in a report.
pub(super) fn report_bytes(end: &AttemptEnd) -> usize {
    match end {
        AttemptEnd::Broken(why) | AttemptEnd::PlatformFailure(why) => why.len(),
        AttemptEnd::Result(result) => {
            let outputs = result
                .outputs()
                .map(|output| output.head.len() + OUTCOME_BYTES / 2);
            let files = result
                .files
                .iter()
                .map(|file| file.path.as_str().len() + LISTED_FILE_BYTES);
            let judgement = result.judgement.iter().map(|judgement| {
                judgement.cases.inline_len() as usize + judgement.marks.len() * MARK_BYTES + OUTCOME_BYTES
            });
            outputs.chain(files).chain(judgement).sum()
        }
    }
}

/// The status under which a report names the attempt until its result can be reported.
pub(super) fn step_status(end: &AttemptEnd) -> Option<TaskStatus> {
    match end {
        AttemptEnd::Result(result) if result.execute.is_some() || has_run_cases(result) => {
            Some(TaskStatus::Running)
        }
        AttemptEnd::Result(result) if result.compile.is_some() => Some(TaskStatus::Compiling),
        AttemptEnd::Result(_) | AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_) => None,
    }
}

fn has_run_cases(result: &TaskResult) -> bool {
    let judgement = result.judgement.as_ref();
    judgement.is_some_and(|judgement| judgement.verdict != Verdict::CompileError)
}

/// An output stream of a result; empty if its step did not run. `None` if there is no result.
pub(super) fn output_of(end: &AttemptEnd, source: OutputSource) -> Option<CapturedOutput> {
    let result = match end {
        AttemptEnd::Result(result) => result,
        AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_) => return None,
    };
    let outcome = match source.step {
        StepName::Compile => &result.compile,
        StepName::Execute => &result.execute,
    };
    let output = outcome.as_ref().map(|outcome| match source.stream {
        StreamName::Stdout => outcome.stdout.clone(),
        StreamName::Stderr => outcome.stderr.clone(),
    });
    Some(output.unwrap_or_default())
}
