//! `conclave get`: shows one task, or prints one of its outputs.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api::{HttpClient, HumanDuration, Outcome, OutputName, StepName, Task, format_time};
use clap::ValueEnum;
use model::TaskId;

use crate::args::{ClientFlags, TaskRef, task_ref};
use crate::exit_code::{self, OutcomeSummary};
use crate::print::{KeyValueList, OutputFormat, Stdout, is_closed_pipe, print_message};
use crate::task_output::{exact_output, print_truncated, truncated_outputs};

/// The arguments of `conclave get`.
#[derive(clap::Args, Debug)]
#[command(after_help = exit_code::GET_EXIT_CODES_HELP)]
pub(crate) struct GetArgs {
    /// Id of the task, or a prefix of it
    #[arg(value_parser = task_ref)]
    id: TaskRef,
    /// Wait this long for the task to be done, like 10s
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<HumanDuration>,
    /// Print only this output, byte for byte
    #[arg(long, value_name = "WHICH", conflicts_with = "json")]
    only: Option<OutputSelection>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The output of a task that `conclave get --only` prints: stdout or stderr of one of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputSelection {
    Stdout,
    Stderr,
    CompileStdout,
    CompileStderr,
}

impl OutputSelection {
    fn step_and_output(self) -> (StepName, OutputName) {
        match self {
            OutputSelection::Stdout => (StepName::Execute, OutputName::Stdout),
            OutputSelection::Stderr => (StepName::Execute, OutputName::Stderr),
            OutputSelection::CompileStdout => (StepName::Compile, OutputName::Stdout),
            OutputSelection::CompileStderr => (StepName::Compile, OutputName::Stderr),
        }
    }
}

/// The longest wait of one request, so that a dead connection is noticed.
const MAX_REQUEST_WAIT: Duration = Duration::from_secs(20);
const RETRY_DELAY: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: GetArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let id = args.id.resolve(&client).await?;
    let task = match args.wait {
        Some(HumanDuration(wait)) => get_within(id, wait, &client).await?,
        None => client.get(id, None).await?,
    };
    let printed = match (args.only, args.client.output_format()) {
        (Some(only), _) if task.done => {
            let (step, output) = only.step_and_output();
            let bytes = client.output(task.id, step, output).await?;
            Stdout::open().bytes(&bytes)
        }
        (Some(_), _) if args.wait.is_none() => bail!(
            "task {} is {} and has no output yet; wait for its end with --wait",
            task.id,
            task.status
        ),
        (Some(_), _) => Ok(()),
        (None, OutputFormat::Json) => Stdout::open().json(&task),
        (None, OutputFormat::Text) => Stdout::open().text(describe(&task)),
    };
    match printed {
        // A closed pipe does not change the exit code.
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        _ => {}
    }
    let is_truncated = print_if_truncated(&task, args.only, &client).await?;
    Ok(ExitCode::from(match args.wait {
        Some(wait) if !task.done => {
            print_message(format_args!(
                "task {} is still {} after {wait}",
                task.id, task.status
            ));
            exit_code::WAIT_TIMEOUT
        }
        Some(_) => exit_code::exit_code_for(OutcomeSummary::of(&task)),
        None if is_truncated => exit_code::OUTPUT_TRUNCATED,
        None => 0,
    }))
}

async fn get_within(id: TaskId, wait: Duration, client: &HttpClient) -> Result<Task> {
    let began = Instant::now();
    loop {
        let left = wait.saturating_sub(began.elapsed());
        let (request_wait, request_start) = (left.min(MAX_REQUEST_WAIT), Instant::now());
        let task = client.get(id, Some(request_wait)).await?;
        if task.done || left.is_zero() {
            return Ok(task);
        }
        // The server's own limit may be shorter, or the server may be stopping. The delay avoids a busy loop.
        if request_start.elapsed() < request_wait {
            tokio::time::sleep(RETRY_DELAY.min(left)).await;
        }
    }
}

/// Prints a message for each truncated output among the printed ones. Returns whether there was one.
async fn print_if_truncated(task: &Task, only: Option<OutputSelection>, client: &HttpClient) -> Result<bool> {
    let mut any = false;
    for cut in truncated_outputs(task) {
        if only.is_some_and(|only| only.step_and_output() != (cut.step, cut.output)) {
            continue;
        }
        let kept = exact_output(task, cut.step, cut.output, cut.outcome, client)
            .await?
            .len();
        print_truncated(cut.step, cut.output, kept);
        any = true;
    }
    Ok(any)
}

fn describe(task: &Task) -> String {
    let mut list = KeyValueList::default();
    list.add("id", task.id);
    list.add("status", task.status);
    list.add("user", &task.user);
    list.add("priority", task.priority);
    list.add("attempt", task.attempt);
    list.add_if_some("executor", task.executor.as_ref());
    list.add("added", format_time(task.add_time));
    list.add_if_some("started", task.start_time.map(format_time));
    list.add_if_some("finished", task.finish_time.map(format_time));
    list.add_if_some(
        "compile",
        task.compile.as_ref().map(|step| step.command.display()),
    );
    list.add("execute", task.execute.command.display());
    list.add_if_some("trouble", task.trouble.as_ref());
    let mut text = list.to_string();
    if let Some(result) = &task.result {
        for (step, outcome) in [("compile", &result.compile), ("execute", &result.execute)] {
            if let Some(outcome) = outcome {
                text.push_str(&describe_outcome(step, outcome));
            }
        }
    }
    text
}

fn describe_outcome(step: &str, outcome: &Outcome) -> String {
    let how = match (outcome.exit_code, outcome.signal) {
        (Some(code), _) => format!("{} with {code}", outcome.reason),
        (None, Some(signal)) => format!("{} (signal {signal})", outcome.reason),
        (None, None) => outcome.reason.to_string(),
    };
    let mut text = format!(
        "\n{step}: {how}, {:.3} s wall time, {:.3} s CPU time, {} KiB memory\n",
        outcome.wall_seconds,
        outcome.cpu_seconds,
        outcome.memory_bytes >> 10
    );
    for (name, output, truncated) in [
        ("stdout", &outcome.stdout, outcome.stdout_truncated),
        ("stderr", &outcome.stderr, outcome.stderr_truncated),
    ] {
        if output.is_empty() {
            continue;
        }
        let cut = match truncated {
            true => " (truncated)",
            false => "",
        };
        text.push_str(&format!("--- {name}{cut}\n{output}"));
        if !output.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
