//! `conclave cancel`: ends tasks that are not done.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{ClientFlags, FindError, TaskRef, task_ref};
use crate::print::{Form, Out, complain};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Ids of the tasks, or the beginnings of them
    #[arg(required = true, value_name = "ID", value_parser = task_ref)]
    ids: Vec<TaskRef>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Goes on after one that cannot be cancelled, and says so at the end by its exit code.
pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let mut out = Out::open();
    let mut code = ExitCode::SUCCESS;
    for id in args.ids {
        let cancelled = match id.find(&client).await {
            Ok(id) => client.cancel(id).await.map_err(FindError::from),
            Err(error) => Err(error),
        };
        match cancelled {
            Ok(task) => match args.client.form() {
                Form::People => out.line(format_args!("{} {}", task.id, task.status))?,
                Form::Json => out.json(&task)?,
            },
            Err(error) if error.is_about_this_task() => {
                code = ExitCode::FAILURE;
                complain(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(code)
}
