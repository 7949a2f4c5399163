//! `conclave cancel`: ends tasks that are not done.

use std::process::ExitCode;

use anyhow::Result;
use model::TaskId;

use crate::args::{ClientFlags, task_id};
use crate::print::{Form, Out, complain};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Ids of the tasks
    #[arg(required = true, value_name = "ID", value_parser = task_id)]
    ids: Vec<TaskId>,
    #[command(flatten)]
    client: ClientFlags,
}

/// Goes on after one that cannot be cancelled, and says so at the end by its exit code.
pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let mut out = Out::open();
    let mut code = ExitCode::SUCCESS;
    for id in args.ids {
        match client.cancel(id).await {
            Ok(task) => match args.client.form() {
                Form::People => out.line(format_args!("{id} {}", task.status))?,
                Form::Json => out.json_line(&task)?,
            },
            Err(error) if error.problem().is_some() => {
                code = ExitCode::FAILURE;
                complain(format_args!("task {id} was not cancelled: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(code)
}
