//! Passes a task's outputs through, byte for byte, and says in words how it ended where its exit code cannot.

use std::io::{self, Write};

use anyhow::Result;
use api::{Client, Outcome, Output, Step, Task};
use bytes::Bytes;
use model::{Reason, Status};

use crate::print::{Out, complain};

/// The compile step's words go to stderr, so that stdout is the execute step's alone.
pub(crate) async fn show_outputs(task: &Task, client: &Client) -> Result<()> {
    let Some(result) = &task.result else {
        return Ok(());
    };
    if let Some(outcome) = &result.compile {
        for output in [Output::Stdout, Output::Stderr] {
            let bytes = exact(task, Step::Compile, output, outcome, client).await?;
            io::stderr().write_all(&bytes)?;
        }
    }
    if let Some(outcome) = &result.execute {
        let stdout = exact(task, Step::Execute, Output::Stdout, outcome, client).await?;
        let stderr = exact(task, Step::Execute, Output::Stderr, outcome, client).await?;
        io::stderr().write_all(&stderr)?;
        Out::open().bytes(&stdout)?;
    }
    Ok(())
}

/// JSON has the output as text. Only where a byte may have been replaced is it worth another exchange.
pub(crate) async fn exact(
    task: &Task,
    step: Step,
    output: Output,
    outcome: &Outcome,
    client: &Client,
) -> Result<Bytes> {
    let text = match output {
        Output::Stdout => &outcome.stdout,
        Output::Stderr => &outcome.stderr,
    };
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(client.output(task.id, step, output).await?);
    }
    Ok(Bytes::from(text.clone()))
}

pub(crate) async fn tell_ending(task: &Task, client: &Client) -> Result<()> {
    for CutOff {
        step,
        output,
        outcome,
    } in cut_off(task)
    {
        let kept = exact(task, step, output, outcome, client).await?.len();
        tell_cut_off(step, output, kept);
    }
    for sentence in sentences(task) {
        complain(sentence);
    }
    Ok(())
}

/// An output of which only the beginning is kept.
pub(crate) struct CutOff<'a> {
    pub(crate) step: Step,
    pub(crate) output: Output,
    pub(crate) outcome: &'a Outcome,
}

pub(crate) fn cut_off(task: &Task) -> Vec<CutOff<'_>> {
    let Some(result) = &task.result else {
        return Vec::new();
    };
    let steps = [(Step::Compile, &result.compile), (Step::Execute, &result.execute)];
    let mut found = Vec::new();
    for (step, outcome) in steps {
        let Some(outcome) = outcome else { continue };
        let outputs = [
            (Output::Stdout, outcome.stdout_truncated),
            (Output::Stderr, outcome.stderr_truncated),
        ];
        for (output, _) in outputs.into_iter().filter(|(_, truncated)| *truncated) {
            found.push(CutOff {
                step,
                output,
                outcome,
            });
        }
    }
    found
}

pub(crate) fn tell_cut_off(step: Step, output: Output, kept: usize) {
    let flag = match step {
        Step::Compile => "--compile-output",
        Step::Execute => "--output",
    };
    let (step, output) = (step.as_str(), output.as_str());
    complain(format_args!(
        "the {step} step's {output} was cut off: {kept} bytes were kept; add the task with a higher output limit to \
         keep more ({flag} SIZE, or {step}.limits.output)"
    ));
}

fn sentences(task: &Task) -> Vec<String> {
    let mut said = Vec::new();
    let result = task.result.as_ref();
    let steps = [
        ("compile", result.and_then(|result| result.compile.as_ref())),
        ("execute", result.and_then(|result| result.execute.as_ref())),
    ];
    for (step, outcome) in steps {
        let Some(outcome) = outcome else { continue };
        said.extend(ended_early(step, outcome));
    }
    match task.status {
        Status::CompileFailed => said.push("the compile step failed, so the command did not run".to_string()),
        Status::Cancelled => said.push("the task was cancelled".to_string()),
        Status::SystemError => said.push(format!(
            "the platform could not run the task: {}",
            task.trouble.as_deref().unwrap_or("it does not say why")
        )),
        _ => {}
    }
    said
}

fn ended_early(step: &str, outcome: &Outcome) -> Option<String> {
    let wall = outcome.wall_seconds;
    let why = match outcome.reason {
        Reason::Exited | Reason::Cancelled => return None,
        Reason::Signalled => format!("signal {} ended it", outcome.signal.unwrap_or(0)),
        Reason::TimeLimit => format!("it used up its CPU time ({:.3} s)", outcome.cpu_seconds),
        Reason::WallLimit => format!("it ran longer than it may ({wall:.3} s)"),
        Reason::MemoryLimit => format!("it used more memory than it may ({} bytes)", outcome.memory_bytes),
        Reason::OutputLimit => "it wrote more than it may".to_string(),
        Reason::ProcessLimit => "it started more processes than it may".to_string(),
        // It may well have exited: a program that cannot write says so and gives up.
        Reason::DiskLimit => {
            return Some(format!(
                "the {step} step failed when the task's files had used up their space"
            ));
        }
    };
    Some(format!("the {step} step did not exit: {why}"))
}

#[cfg(test)]
mod tests {
    use api::{NewTask, TaskResult};
    use model::{Command, Moment, TaskId, UserName};

    use super::*;

    fn task(status: Status, execute: Option<Outcome>) -> Task {
        let NewTask { execute: step, .. } = NewTask::new(Command::Shell("x".into()));
        Task {
            id: TaskId::generate(),
            user: UserName::new("ada").unwrap(),
            priority: 0,
            status,
            done: true,
            executor: None,
            attempt: 1,
            add_time: Moment(0),
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

    fn outcome(reason: Reason) -> Outcome {
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
    fn an_ending_is_told_where_the_code_says_too_little() {
        let check = |task: Task, expected: &[&str]| {
            let said = sentences(&task);
            assert_eq!(said.len(), expected.len(), "{said:?}");
            for (sentence, part) in said.iter().zip(expected) {
                assert!(sentence.contains(part), "{sentence}");
            }
        };
        check(task(Status::Success, Some(outcome(Reason::Exited))), &[]);
        check(
            task(Status::RunFailed, Some(outcome(Reason::Signalled))),
            &["signal 9"],
        );
        check(
            task(Status::RunFailed, Some(outcome(Reason::WallLimit))),
            &["longer than it may (2.000 s)"],
        );
        check(
            task(Status::RunFailed, Some(outcome(Reason::DiskLimit))),
            &["used up their space"],
        );
        check(task(Status::Cancelled, None), &["cancelled"]);
        check(
            Task {
                trouble: Some("no disk".into()),
                ..task(Status::SystemError, None)
            },
            &["could not run the task: no disk"],
        );
        let flood = Outcome {
            stdout_truncated: true,
            ..outcome(Reason::OutputLimit)
        };
        let flood = task(Status::RunFailed, Some(flood));
        let outputs: Vec<_> = cut_off(&flood).iter().map(|cut| (cut.step, cut.output)).collect();
        assert_eq!(outputs, [(Step::Execute, Output::Stdout)]);
        check(flood, &["wrote more"]);
    }
}
