//! Prints a task's outputs byte for byte, and messages on how the task ended.

use std::io::{self, Write};

use anyhow::Result;
use api::{HttpClient, Outcome, OutputName, StepName, Task};
use bytes::Bytes;
use model::{OutcomeReason, TaskStatus};

use crate::print::{Stdout, print_message};

/// Prints the outputs of both steps. Both outputs of the compile step go to stderr, so that stdout has only the execute step's.
pub(crate) async fn print_outputs(task: &Task, client: &HttpClient) -> Result<()> {
    let Some(result) = &task.result else {
        return Ok(());
    };
    if let Some(outcome) = &result.compile {
        for output in [OutputName::Stdout, OutputName::Stderr] {
            let bytes = exact_output(task, StepName::Compile, output, outcome, client).await?;
            io::stderr().write_all(&bytes)?;
        }
    }
    if let Some(outcome) = &result.execute {
        let stdout = exact_output(task, StepName::Execute, OutputName::Stdout, outcome, client).await?;
        let stderr = exact_output(task, StepName::Execute, OutputName::Stderr, outcome, client).await?;
        io::stderr().write_all(&stderr)?;
        Stdout::open().bytes(&stdout)?;
    }
    Ok(())
}

/// The bytes of an output. The task has it as text; a second request is made only where the text has a replacement character.
pub(crate) async fn exact_output(
    task: &Task,
    step: StepName,
    output: OutputName,
    outcome: &Outcome,
    client: &HttpClient,
) -> Result<Bytes> {
    let text = match output {
        OutputName::Stdout => &outcome.stdout,
        OutputName::Stderr => &outcome.stderr,
    };
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(client.output(task.id, step, output).await?);
    }
    Ok(Bytes::from(text.clone()))
}

/// Prints which outputs were truncated, and how the task ended where the exit code does not say it.
pub(crate) async fn print_end_messages(task: &Task, client: &HttpClient) -> Result<()> {
    for TruncatedOutput {
        step,
        output,
        outcome,
    } in truncated_outputs(task)
    {
        let kept = exact_output(task, step, output, outcome, client).await?.len();
        print_truncated(step, output, kept);
    }
    for message in end_messages(task) {
        print_message(message);
    }
    Ok(())
}

/// An output of a task of which only the beginning is kept, because the step wrote more than the limit.
pub(crate) struct TruncatedOutput<'a> {
    pub(crate) step: StepName,
    pub(crate) output: OutputName,
    pub(crate) outcome: &'a Outcome,
}

pub(crate) fn truncated_outputs(task: &Task) -> Vec<TruncatedOutput<'_>> {
    let Some(result) = &task.result else {
        return Vec::new();
    };
    let steps = [
        (StepName::Compile, &result.compile),
        (StepName::Execute, &result.execute),
    ];
    let mut found = Vec::new();
    for (step, outcome) in steps {
        let Some(outcome) = outcome else { continue };
        let outputs = [
            (OutputName::Stdout, outcome.stdout_truncated),
            (OutputName::Stderr, outcome.stderr_truncated),
        ];
        for (output, _) in outputs.into_iter().filter(|(_, truncated)| *truncated) {
            found.push(TruncatedOutput {
                step,
                output,
                outcome,
            });
        }
    }
    found
}

pub(crate) fn print_truncated(step: StepName, output: OutputName, kept: usize) {
    let flag = match step {
        StepName::Compile => "--compile-output",
        StepName::Execute => "--output",
    };
    let (step, output) = (step.as_str(), output.as_str());
    print_message(format_args!(
        "the {step} step's {output} was cut off after {kept} bytes; to keep more, add the task with a higher output limit \
         ({flag} SIZE, or {step}.limits.output)"
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
        OutcomeReason::Exited | OutcomeReason::Cancelled => return None,
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
            add_time: UnixTime(0),
            start_time: None,
            report_time: None,
            finish_time: None,
            source: Default::default(),
            data: Default::default(),
            compile: None,
            execute: step,
            result: execute.map(|execute| TaskResult {
                compile: None,
                execute: Some(execute),
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
            stdout_truncated: true,
            ..outcome(OutcomeReason::OutputLimit)
        };
        let flood = task(TaskStatus::RunFailed, Some(flood));
        let outputs: Vec<_> = truncated_outputs(&flood)
            .iter()
            .map(|cut| (cut.step, cut.output))
            .collect();
        assert_eq!(outputs, [(StepName::Execute, OutputName::Stdout)]);
        check(flood, &["output limit"]);
    }
}
