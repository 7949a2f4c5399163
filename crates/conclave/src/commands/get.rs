//! `conclave get`: one task, or exactly what one of its steps wrote.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use api::{Client, Outcome, Output, Span, Step, Task, show_time};
use clap::ValueEnum;
use model::TaskId;

use crate::args::{ClientFlags, TaskRef, task_ref};
use crate::exit;
use crate::outputs::{cut_off, exact, tell_cut_off};
use crate::print::{Form, Out, Pairs, complain, is_closed_pipe};

#[derive(clap::Args, Debug)]
#[command(after_help = exit::GET_HELP)]
pub(crate) struct Args {
    /// Id of the task, or the beginning of it
    #[arg(value_parser = task_ref)]
    id: TaskRef,
    /// Wait this long for the task to be done, like 10s
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Span>,
    /// Write only this output, byte for byte
    #[arg(long, value_name = "WHICH", conflicts_with = "json")]
    only: Option<Only>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    Stdout,
    Stderr,
    CompileStdout,
    CompileStderr,
}

impl Only {
    fn which(self) -> (Step, Output) {
        match self {
            Only::Stdout => (Step::Execute, Output::Stdout),
            Only::Stderr => (Step::Execute, Output::Stderr),
            Only::CompileStdout => (Step::Compile, Output::Stdout),
            Only::CompileStderr => (Step::Compile, Output::Stderr),
        }
    }
}

/// One call waits no longer than this, so that a connection that died is noticed.
const ONE_WAIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let id = args.id.find(&client).await?;
    let task = match args.wait {
        Some(Span(wait)) => get_within(id, wait, &client).await?,
        None => client.get(id, None).await?,
    };
    let shown = match (args.only, args.client.form()) {
        (Some(only), _) if task.done => {
            let (step, output) = only.which();
            let bytes = client.output(task.id, step, output).await?;
            Out::open().bytes(&bytes)
        }
        (Some(_), _) if args.wait.is_none() => bail!(
            "task {} is {} and has no output yet; wait for it with --wait",
            task.id,
            task.status
        ),
        (Some(_), _) => Ok(()),
        (None, Form::Json) => Out::open().json(&task),
        (None, Form::People) => Out::open().text(describe(&task)),
    };
    match shown {
        // That nobody reads the output does not change how the task ended.
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        _ => {}
    }
    let is_cut_off = tell_if_cut_off(&task, args.only, &client).await?;
    Ok(ExitCode::from(match args.wait {
        Some(wait) if !task.done => {
            complain(format_args!(
                "task {} is still {} after {wait}",
                task.id, task.status
            ));
            exit::OUT_OF_TIME
        }
        Some(_) => exit::code(exit::Ending::of(&task)),
        None if is_cut_off => exit::CUT_OFF,
        None => 0,
    }))
}

async fn get_within(id: TaskId, wait: Duration, client: &Client) -> Result<Task> {
    let began = Instant::now();
    loop {
        let left = wait.saturating_sub(began.elapsed());
        let (asked, asking) = (left.min(ONE_WAIT), Instant::now());
        let task = client.get(id, Some(asked)).await?;
        if task.done || left.is_zero() {
            return Ok(task);
        }
        // A server may be set to wait less than it is asked to, or stop.
        if asking.elapsed() < asked {
            tokio::time::sleep(PAUSE.min(left)).await;
        }
    }
}

/// Of the outputs that were shown.
async fn tell_if_cut_off(task: &Task, only: Option<Only>, client: &Client) -> Result<bool> {
    let mut any = false;
    for cut in cut_off(task) {
        if only.is_some_and(|only| only.which() != (cut.step, cut.output)) {
            continue;
        }
        let kept = exact(task, cut.step, cut.output, cut.outcome, client)
            .await?
            .len();
        tell_cut_off(cut.step, cut.output, kept);
        any = true;
    }
    Ok(any)
}

fn describe(task: &Task) -> String {
    let mut pairs = Pairs::default();
    pairs.add("id", task.id);
    pairs.add("status", task.status);
    pairs.add("user", &task.user);
    pairs.add("priority", task.priority);
    pairs.add("attempt", task.attempt);
    pairs.add_if_some("executor", task.executor.as_ref());
    pairs.add("added", show_time(task.add_time));
    pairs.add_if_some("started", task.start_time.map(show_time));
    pairs.add_if_some("finished", task.finish_time.map(show_time));
    pairs.add_if_some(
        "compile",
        task.compile.as_ref().map(|step| step.command.display()),
    );
    pairs.add("execute", task.execute.command.display());
    pairs.add_if_some("trouble", task.trouble.as_ref());
    let mut text = pairs.to_string();
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
        "\n{step}: {how}, {:.3} s on the clock, {:.3} s of CPU, {} KiB of memory\n",
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
            true => ", its end is missing",
            false => "",
        };
        text.push_str(&format!("--- {name}{cut}\n{output}"));
        if !output.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
