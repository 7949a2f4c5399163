//! `conclave run`: add, wait, pass the output through, exit as the task did.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{Client, NewTask, Task};
use model::TaskId;

use crate::args::{ClientFlags, TaskFlags};
use crate::exit;
use crate::follow::Follow;
use crate::outputs::{show_outputs, tell_ending};
use crate::print::{Form, Out, is_closed_pipe};
use crate::task;

#[derive(clap::Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    task: TaskFlags,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What a quick task needs: it is added and answered in one exchange.
const FIRST_WAIT: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let mut new = task::build(&args.task, &client).await?;
    let id = *new.id.get_or_insert_with(TaskId::generate);
    let task = tokio::select! {
        task = add_and_wait(new.clone(), &client) => task?,
        signal = tokio::signal::ctrl_c() => {
            signal.context("could not listen for Ctrl-C")?;
            cancel_and_wait(id, &new, &client).await?
        }
    };
    let shown = match args.client.form() {
        Form::Json => Out::open().json(&task),
        Form::People => show_outputs(&task, &client).await,
    };
    match shown {
        // That nobody reads the output does not change how the task ended.
        Err(error) if !is_closed_pipe(&error) => return Err(error),
        _ => tell_ending(&task, &client).await?,
    }
    Ok(ExitCode::from(exit::code(exit::Ending::of(&task))))
}

async fn add_and_wait(mut new: NewTask, client: &Client) -> Result<Task> {
    let task = task::add(&mut new, Some(FIRST_WAIT), client).await?;
    if task.done {
        return Ok(task);
    }
    Follow::new(task.id, client).until_done(|_| Ok(())).await
}

/// A second Ctrl-C finds nobody listening any more but this, and ends it at once.
async fn cancel_and_wait(id: TaskId, new: &NewTask, client: &Client) -> Result<Task> {
    let cancelled = async {
        match client.cancel(id).await {
            // The add may still be on its way. Adding again is adding once, and then it can be cancelled.
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
        // It was done before it could be cancelled.
        Err(error) if error.problem().is_some_and(|problem| problem.status == 409) => {
            Ok(client.get(id, None).await?)
        }
        task => Ok(task.with_context(|| format!("could not cancel task {id}"))?),
    }
}
