//! `conclave get`: one task, or exactly what one of its steps wrote.

use std::process::ExitCode;

use anyhow::{Result, bail};
use api::{Outcome, Output, Span, Step, Task, show_time};
use clap::ValueEnum;
use model::TaskId;

use crate::args::{ClientFlags, task_id};
use crate::print::{Form, Out, Pairs};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Id of the task
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// Wait this long for the task to be done, like 10s
    #[arg(long, value_name = "TIME")]
    wait: Option<Span>,
    /// Write only this output, byte for byte
    #[arg(long, value_name = "WHICH", conflicts_with = "json")]
    only: Option<Only>,
    #[command(flatten)]
    client: ClientFlags,
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

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let task = client.get(args.id, args.wait.map(|Span(wait)| wait)).await?;
    let mut out = Out::open();
    match (args.only, args.client.form()) {
        (Some(only), _) => {
            let (step, output) = only.which();
            if !task.done {
                bail!(
                    "task {} is {} and has no output yet; wait for it with --wait",
                    task.id,
                    task.status
                );
            }
            out.bytes(&client.output(task.id, step, output).await?)?;
        }
        (None, Form::Json) => out.json(&task)?,
        (None, Form::People) => out.text(describe(&task))?,
    }
    Ok(ExitCode::SUCCESS)
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
