//! `conclave get`: shows one task, prints its outputs, or lists and downloads its kept files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api::{AttemptRecord, HttpClient, HumanDuration, KeptFile, Outcome, Task, TaskStreamEvent, format_time};
use clap::ValueEnum;
use model::{StepName, StreamName, TaskId, TaskStatus};

use crate::args::{ClientFlags, TaskRef, task_ref};
use crate::exit_code::{self, OutcomeSummary};
use crate::follow::{FollowedContent, FollowedTask};
use crate::judge::case_report;
use crate::kept_files::{self, DownloadFolder, ExistingFiles, kept_files};
use crate::output_printer::{OutputPrinter, outcome_of};
use crate::print::{KeyValueList, OutputFormat, Stdout, TextTable, is_closed_pipe, print_message};
use crate::task_output::{print_end_messages, print_truncated, truncated_outputs};

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
    /// Print the output while it is written, until the task is done
    #[arg(long, conflicts_with_all = ["wait", "json"])]
    pub(crate) follow: bool,
    /// Print only this output, byte for byte
    #[arg(long, value_name = "WHICH", conflicts_with = "json")]
    only: Option<OutputSelection>,
    /// List the files that the task kept
    #[arg(long, conflicts_with_all = ["follow", "only"])]
    files: bool,
    /// With --files: download the kept files to this folder
    #[arg(long, value_name = "DIR", requires = "files")]
    to: Option<PathBuf>,
    /// Replace existing files in the folder of --to
    #[arg(long, requires = "to")]
    force: bool,
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
    fn step_and_stream(self) -> (StepName, StreamName) {
        match self {
            OutputSelection::Stdout => (StepName::Execute, StreamName::Stdout),
            OutputSelection::Stderr => (StepName::Execute, StreamName::Stderr),
            OutputSelection::CompileStdout => (StepName::Compile, StreamName::Stdout),
            OutputSelection::CompileStderr => (StepName::Compile, StreamName::Stderr),
        }
    }

    fn printer(self) -> OutputPrinter {
        let (step, stream) = self.step_and_stream();
        OutputPrinter::only(step, stream)
    }
}

/// The longest wait of one request, so that a dead connection is noticed.
const MAX_REQUEST_WAIT: Duration = Duration::from_secs(20);
const RETRY_DELAY: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: GetArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let id = args.id.resolve(&client).await?;
    if args.follow {
        return follow(id, args.only, &client).await;
    }
    let task = match args.wait {
        Some(HumanDuration(wait)) => get_within(id, wait, &client).await?,
        None => client.get(id, None).await?,
    };
    let printed = match (args.only, args.client.output_format()) {
        _ if args.files => print_files(&task, &args, &client).await,
        (Some(only), _) if task.done => print_only(&task, only, &client).await,
        (Some(_), _) if args.wait.is_none() => bail!(
            "task {} is {}; print its output while it is written with --follow, or wait for its end with --wait",
            task.id,
            task.status
        ),
        (Some(_), _) => Ok(()),
        (None, OutputFormat::Json) => Stdout::open().json(&task),
        (None, OutputFormat::Text) => {
            let waits = wait_sentences(&task, &client).await;
            Stdout::open().text(describe(&task, &waits))
        }
    };
    match printed {
        // A closed pipe does not change the exit code.
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        _ => {}
    }
    let is_truncated = !args.files && print_if_truncated(&task, args.only);
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

/// Prints the output while it is written. Exits as the task did.
async fn follow(id: TaskId, only: Option<OutputSelection>, client: &HttpClient) -> Result<ExitCode> {
    let mut printer = only.map_or_else(OutputPrinter::all, OutputSelection::printer);
    let task = FollowedTask::without_progress(id, FollowedContent::StatusAndOutput, client)
        .until_done(async |event| match event {
            // The result has the cases as well.
            TaskStreamEvent::Status(_) | TaskStreamEvent::Case(_) => Ok(()),
            TaskStreamEvent::Output(output) => printer.print_event(&output).await,
        })
        .await?;
    printer.print_rest(&task, client).await?;
    print_end_messages(&task);
    Ok(ExitCode::from(exit_code::exit_code_for(OutcomeSummary::of(
        &task,
    ))))
}

async fn print_only(task: &Task, only: OutputSelection, client: &HttpClient) -> Result<()> {
    let (step, _) = only.step_and_stream();
    if outcome_of(task, step).is_none() {
        bail!(
            "task {} is {}, and its {step} step has no output",
            task.id,
            task.status
        );
    }
    only.printer().print_rest(task, client).await
}

/// Lists the kept files, or downloads them.
async fn print_files(task: &Task, args: &GetArgs, client: &HttpClient) -> Result<()> {
    match (task.done, args.wait) {
        (true, _) => {}
        // The exit code and a message say that the wait is over.
        (false, Some(_)) => return Ok(()),
        (false, None) => bail!(
            "task {} is {} and has no kept files yet; wait for its end with --wait",
            task.id,
            task.status
        ),
    }
    match &args.to {
        Some(path) => {
            let folder = DownloadFolder::open(path, ExistingFiles::from_force(args.force))?;
            kept_files::download(task, &folder, client).await?;
        }
        None => match args.client.output_format() {
            OutputFormat::Json => Stdout::open().json_lines(kept_files(task))?,
            OutputFormat::Text => Stdout::open().text(file_table(kept_files(task)))?,
        },
    }
    kept_files::print_left_out(task);
    Ok(())
}

fn file_table(files: &[KeptFile]) -> TextTable {
    let mut table = TextTable::new(["SIZE", "SHA256", "EXECUTABLE", "PATH"]).right_align([0]);
    for file in files {
        let executable = match file.executable {
            true => "yes",
            false => "no",
        };
        table.row([
            file.size.to_string(),
            file.sha256.to_string(),
            executable.to_string(),
            file.path.to_string(),
        ]);
    }
    table
}

pub(crate) async fn get_within(id: TaskId, wait: Duration, client: &HttpClient) -> Result<Task> {
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
fn print_if_truncated(task: &Task, only: Option<OutputSelection>) -> bool {
    let mut any = false;
    for cut in truncated_outputs(task) {
        if only.is_none_or(|only| only.step_and_stream() == (cut.step, cut.stream)) {
            print_truncated(&cut);
            any = true;
        }
    }
    any
}

/// Why the task has not begun to run. None from a gateway of an older version.
async fn wait_sentences(task: &Task, client: &HttpClient) -> Vec<String> {
    match task.status {
        TaskStatus::Pending | TaskStatus::Retrying => match client.waiting(task.id).await {
            Ok(wait) => wait.sentences(),
            Err(_) => vec![],
        },
        _ => vec![],
    }
}

fn describe(task: &Task, waits: &[String]) -> String {
    let mut list = KeyValueList::default();
    list.add("id", task.id);
    list.add("status", task.status);
    for sentence in waits {
        list.add("waits", sentence);
    }
    list.add("user", &task.user);
    list.add("priority", task.priority);
    list.add("attempt", task.attempt);
    list.add_if_some("executor", task.executor.as_ref());
    list.add_if_some("group", task.group.as_ref());
    for (key, value) in task.labels.iter() {
        list.add("label", format_args!("{key}={value}"));
    }
    list.add_if_some("retry of", task.retry_of);
    list.add("added", format_time(task.add_time));
    list.add_if_some("started", task.start_time.map(format_time));
    list.add_if_some("finished", task.finish_time.map(format_time));
    for record in &task.ran_on {
        list.add("ran on", describe_attempt(record));
    }
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
        if let Some(cases) = case_report(task) {
            text.push_str(&format!("\n{cases}"));
        }
        if !result.files.is_empty() {
            text.push_str(&format!("\nkept files\n{}", file_table(&result.files)));
        }
    }
    text
}

/// `w1, attempt 1, 2026-01-31T12:00:00.000000Z to 2026-01-31T12:01:00.000000Z, lost`.
fn describe_attempt(record: &AttemptRecord) -> String {
    let start = format_time(record.start_time);
    let begin = format!("{}, attempt {}, {start}", record.executor, record.attempt);
    match (record.end_time, record.end) {
        (Some(time), Some(end)) => format!("{begin} to {}, {}", format_time(time), end.as_str()),
        _ => format!("{begin}, running"),
    }
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
    let outputs = [
        (
            "stdout",
            &outcome.stdout,
            outcome.stdout_bytes,
            outcome.stdout_truncated,
        ),
        (
            "stderr",
            &outcome.stderr,
            outcome.stderr_bytes,
            outcome.stderr_truncated,
        ),
    ];
    for (name, output, bytes, truncated) in outputs {
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
        if bytes > MAX_SHOWN_BYTES {
            text.push_str(&format!(
                "--- {name} has {bytes} bytes; --only prints all of them\n"
            ));
        }
    }
    text
}

/// A task contains this much of each output.
const MAX_SHOWN_BYTES: u64 = model::CapturedOutput::MAX_HEAD as u64;
