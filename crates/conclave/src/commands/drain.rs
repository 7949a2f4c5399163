//! `conclave drain` and `conclave resume`: keep an executor from getting new tasks, and end that.

use std::process::ExitCode;

use anyhow::Result;
use api::ExecutorState;
use model::{DrainReason, ExecutorName};

use crate::args::{ClientFlags, executor_name};
use crate::print::{OutputFormat, Stdout};

/// The arguments of `conclave drain`.
#[derive(clap::Args, Debug)]
pub(crate) struct DrainArgs {
    /// Name of the executor
    #[arg(value_name = "NAME", value_parser = executor_name)]
    executor: ExecutorName,
    /// Why, for people to read: one line
    #[arg(long, value_name = "TEXT", value_parser = drain_reason)]
    reason: DrainReason,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The arguments of `conclave resume`.
#[derive(clap::Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Name of the executor
    #[arg(value_name = "NAME", value_parser = executor_name)]
    executor: ExecutorName,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: DrainArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let state = client.drain(&args.executor, args.reason).await?;
    print(&args.client, &state)
}

pub(crate) async fn run_resume(args: ResumeArgs) -> Result<ExitCode> {
    let state = args.client.connect()?.resume(&args.executor).await?;
    print(&args.client, &state)
}

fn print(flags: &ClientFlags, state: &ExecutorState) -> Result<ExitCode> {
    let mut out = Stdout::open();
    match flags.output_format() {
        OutputFormat::Json => out.json(state)?,
        OutputFormat::Text => out.line(summary(state))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(state: &ExecutorState) -> String {
    let ExecutorState { name, tasks, .. } = state;
    match (&state.drain, tasks) {
        (None, _) => format!("{name} takes tasks"),
        (Some(_), 0) => format!("{name} is drained; it has no tasks"),
        (Some(_), 1) => format!("{name} is drained; it ends the task that it has"),
        (Some(_), _) => format!("{name} is drained; it ends the {tasks} tasks that it has"),
    }
}

fn drain_reason(text: &str) -> Result<DrainReason, String> {
    DrainReason::new(text.trim()).map_err(|error| error.to_string())
}
