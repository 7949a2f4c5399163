//! `conclave run`: adds a task, waits for it, prints its output and exits with its exit code.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{HttpClient, NewTask, Task};
use model::TaskId;

use crate::args::{ClientFlags, TaskFlags};
use crate::exit_code::{self, OutcomeSummary};
use crate::follow::TaskFollower;
use crate::print::{OutputFormat, Stdout, is_closed_pipe};
use crate::task;
use crate::task_output::{print_end_messages, print_outputs};

/// The arguments of `conclave run`.
#[derive(clap::Args, Debug)]
#[command(after_help = exit_code::EXIT_CODES_HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// How long the request that adds the task waits for its end. A short task needs no second request.
const ADD_WAIT: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let mut new = task::build(&args.task, &client).await?;
    let id = *new.id.get_or_insert_with(task::new_task_id);
    let task = tokio::select! {
        task = add_and_wait(new.clone(), &client) => task?,
        signal = tokio::signal::ctrl_c() => {
            signal.context("could not listen for Ctrl-C")?;
            cancel_and_wait(id, &new, &client).await?
        }
    };
    let printed = match args.client.output_format() {
        OutputFormat::Json => Stdout::open().json(&task),
        OutputFormat::Text => print_outputs(&task, &client).await,
    };
    match printed {
        // A closed pipe does not change the exit code.
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        _ => print_end_messages(&task, &client).await?,
    }
    Ok(ExitCode::from(exit_code::exit_code_for(OutcomeSummary::of(
        &task,
    ))))
}

async fn add_and_wait(mut new: NewTask, client: &HttpClient) -> Result<Task> {
    let task = task::add(&mut new, Some(ADD_WAIT), client).await?;
    if task.done {
        return Ok(task);
    }
    TaskFollower::new(task.id, client).until_done(|_| Ok(())).await
}

/// Cancels the task after Ctrl-C. A second Ctrl-C ends the process at once.
async fn cancel_and_wait(id: TaskId, new: &NewTask, client: &HttpClient) -> Result<Task> {
    let cancelled = async {
        match client.cancel(id).await {
            // The first request may not have arrived yet. Adding the task again under the same id has no other effect, and
            // then it can be cancelled.
            Err(error) if error.problem().is_some_and(|problem| problem.status == 404) => {
                client.add(new, None).await?;
                client.cancel(id).await
            }
            answer => answer,
        }
    };
    let task = tokio::select! {
        task = cancelled => task,
        _ = tokio::signal::ctrl_c() => std::process::exit(130),
    };
    match task {
        // The task was done before the cancel arrived.
        Err(error) if error.problem().is_some_and(|problem| problem.status == 409) => {
            Ok(client.get(id, None).await?)
        }
        task => Ok(task.with_context(|| format!("could not cancel task {id}"))?),
    }
}
