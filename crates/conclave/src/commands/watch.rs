//! `conclave watch`: prints each status of a task until it is done.

use std::process::ExitCode;

use anyhow::Result;
use api::{TaskEvent, format_time};

use crate::args::{ClientFlags, TaskRef, task_ref};
use crate::exit_code::{self, OutcomeSummary};
use crate::follow::TaskFollower;
use crate::print::{OutputFormat, Stdout, is_closed_pipe};
use crate::task_output::print_end_messages;

/// The arguments of `conclave watch`.
#[derive(clap::Args, Debug)]
#[command(after_help = exit_code::EXIT_CODES_HELP)]
pub(crate) struct WatchArgs {
    /// Id of the task, or a prefix of it
    #[arg(value_parser = task_ref)]
    id: TaskRef,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: WatchArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let format = args.client.output_format();
    let mut out = Stdout::open();
    let id = args.id.resolve(&client).await?;
    let task = TaskFollower::without_progress(id, &client)
        .until_done(|event| {
            let printed = match format {
                OutputFormat::Text => out.line(line(event)),
                OutputFormat::Json => out.json(event),
            };
            match printed {
                // A closed pipe, as in `watch ID | head -1`, does not change the exit code.
                Err(error) if !is_closed_pipe(&error) => Err(error),
                _ => Ok(()),
            }
        })
        .await?;
    print_end_messages(&task, &client).await?;
    Ok(ExitCode::from(exit_code::exit_code_for(OutcomeSummary::of(
        &task,
    ))))
}

fn line(event: &TaskEvent) -> String {
    let mut line = format!("{} {}", format_time(event.time), event.status);
    if let Some(executor) = &event.executor {
        line.push_str(&format!(" on {executor}"));
    }
    line
}
