//! Messages on how a task ended, and on what was cut off.

use api::{Outcome, Task};
use model::{OutcomeReason, OutputSource, StepName, StreamName, TaskStatus};

use crate::output_printer::{KeptOutput, outcome_of};
use crate::print::print_message;

/// Prints which outputs were truncated, and how the task ended where the exit code does not say it.
pub(crate) fn print_end_messages(task: &Task) {
    for cut in truncated_outputs(task) {
        print_truncated(&cut);
    }
    for message in end_messages(task) {
        print_message(message);
    }
}

/// An output of a task of which only the beginning is kept, because the step wrote more than the limit.
pub(crate) struct TruncatedOutput {
    pub(crate) step: StepName,
    pub(crate) stream: StreamName,
    /// How many bytes are kept.
    kept: u64,
    /// Whether the task's own limit ended the step there.
    by_limit: bool,
}

pub(crate) fn truncated_outputs(task: &Task) -> Vec<TruncatedOutput> {
    let mut found = Vec::new();
    for OutputSource { step, stream } in OutputSource::ALL {
        let Some(outcome) = outcome_of(task, step) else {
            continue;
        };
        let kept = KeptOutput::of(outcome, stream);
        if kept.truncated {
            found.push(TruncatedOutput {
                step,
                stream,
                kept: kept.size,
                by_limit: outcome.reason == OutcomeReason::OutputLimit,
            });
        }
    }
    found
}

pub(crate) fn print_truncated(cut: &TruncatedOutput) {
    let TruncatedOutput {
        step, stream, kept, ..
    } = cut;
    let advice = match cut.by_limit {
        true => "raise the task's limit of output",
        false => "write it to a file and keep that (--keep), or have the operator raise executor.keep_output",
    };
    print_message(format_args!(
        "the {step} step's {stream} was cut off after {kept} bytes; to keep more, {advice}"
    ));
}

fn end_messages(task: &Task) -> Vec<String> {
    let mut messages = Vec::new();
    let result = task.result.as_ref();
    let steps = [
        ("compile", result.and_then(|result| result.compile.as_ref())),
        ("execute", result.and_then(|result| result.execute.as_ref())),
    ];
    for (step, outcome) in steps {
        let Some(outcome) = outcome else { continue };
        messages.extend(abnormal_end(step, outcome));
    }
    match task.status {
        TaskStatus::CompileFailed => {
            messages.push("the compile step failed, so the execute step did not run".to_string())
        }
        TaskStatus::Cancelled => messages.push("the task was cancelled".to_string()),
        TaskStatus::SystemError => messages.push(format!(
            "the platform could not run the task: {}",
            task.trouble.as_deref().unwrap_or("no reason is given")
        )),
        _ => {}
    }
    messages
}

/// Why a step did not exit by itself.
fn abnormal_end(step: &str, outcome: &Outcome) -> Option<String> {
    let wall = outcome.wall_seconds;
    let why = match outcome.reason {
        OutcomeReason::Exited
        | OutcomeReason::Cancelled
        | OutcomeReason::WrongAnswer
        | OutcomeReason::JudgeError => return None,
        OutcomeReason::Signalled => format!("it was ended by signal {}", outcome.signal.unwrap_or(0)),
        OutcomeReason::TimeLimit => format!("it exceeded its CPU time limit ({:.3} s)", outcome.cpu_seconds),
        OutcomeReason::WallLimit => format!("it exceeded its wall time limit ({wall:.3} s)"),
        OutcomeReason::MemoryLimit => {
            format!("it exceeded its memory limit ({} bytes)", outcome.memory_bytes)
        }
        OutcomeReason::OutputLimit => "it exceeded its output limit".to_string(),
        OutcomeReason::ProcessLimit => "it exceeded its limit on processes".to_string(),
        // The program may have exited by itself after a failed write, so this is not an abnormal end.
        OutcomeReason::DiskLimit => {
            return Some(format!(
                "the {step} step failed when the task's files exceeded their space limit"
            ));
        }
    };
    Some(format!("the {step} step did not exit: {why}"))
}

#[cfg(test)]
mod tests {
    use api::{NewTask, TaskResult};
    use model::{StepCommand, TaskId, UnixTime, UserName};

    use super::*;

    fn task(status: TaskStatus, execute: Option<Outcome>) -> Task {
        let NewTask { execute: step, .. } = NewTask::new(StepCommand::Shell("x".into()));
        Task {
            id: TaskId(uuid::Uuid::now_v7()),
            user: UserName::new("ada").unwrap(),
            priority: 0,
            status,
            done: true,
            executor: None,
            attempt: 1,
            attempts: Some(3),
            labels: Default::default(),
            group: None,
            retry_of: None,
            language: None,
            root: None,
            add_time: UnixTime(0),
            start_time: None,
            report_time: None,
            finish_time: None,
            ran_on: Vec::new(),
            source: Default::default(),
            data: Default::default(),
            compile: None,
            execute: step,
            cases: None,
            check: None,
            interact: None,
            stop: None,
            groups: Default::default(),
            problem: None,
            keep: Vec::new(),
            result: execute.map(|execute| TaskResult {
                compile: None,
                execute: Some(execute),
                verdict: None,
                score: None,
                max_score: None,
                cases: None,
                files: Vec::new(),
                files_left_out: Default::default(),
            }),
            trouble: None,
        }
    }

    fn outcome(reason: OutcomeReason) -> Outcome {
        Outcome {
            reason,
            exit_code: None,
            signal: Some(9),
            wall_seconds: 2.0,
            cpu_seconds: 1.0,
            memory_bytes: 7,
            stdout: String::new(),
            stderr: String::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_truncated: false,
            stderr_truncated: false,
        }
    }

    #[test]
    fn messages_explain_what_the_exit_code_does_not() {
        let check = |task: Task, expected: &[&str]| {
            let messages = end_messages(&task);
            assert_eq!(messages.len(), expected.len(), "{messages:?}");
            for (message, part) in messages.iter().zip(expected) {
                assert!(message.contains(part), "{message}");
            }
        };
        check(
            task(TaskStatus::Success, Some(outcome(OutcomeReason::Exited))),
            &[],
        );
        check(
            task(TaskStatus::RunFailed, Some(outcome(OutcomeReason::Signalled))),
            &["signal 9"],
        );
        check(
            task(TaskStatus::RunFailed, Some(outcome(OutcomeReason::WallLimit))),
            &["wall time limit (2.000 s)"],
        );
        check(
            task(TaskStatus::RunFailed, Some(outcome(OutcomeReason::DiskLimit))),
            &["exceeded their space limit"],
        );
        check(task(TaskStatus::Cancelled, None), &["cancelled"]);
        check(
            Task {
                trouble: Some("no disk".into()),
                ..task(TaskStatus::SystemError, None)
            },
            &["could not run the task: no disk"],
        );
        let flood = Outcome {
            stdout_bytes: 7,
            stdout_truncated: true,
            ..outcome(OutcomeReason::OutputLimit)
        };
        let flood = task(TaskStatus::RunFailed, Some(flood));
        let outputs: Vec<_> = truncated_outputs(&flood)
            .iter()
            .map(|cut| (cut.step, cut.stream, cut.kept))
            .collect();
        assert_eq!(outputs, [(StepName::Execute, StreamName::Stdout, 7)]);
        check(flood, &["output limit"]);
    }
}
