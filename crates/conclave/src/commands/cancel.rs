//! `conclave cancel`: cancels tasks.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{ClientFlags, TaskLookupError, TaskRef, task_ref};
use crate::print::{OutputFormat, Stdout, print_message};

/// The arguments of `conclave cancel`.
#[derive(clap::Args, Debug)]
pub(crate) struct CancelArgs {
    /// Ids of the tasks, or prefixes of them
    #[arg(required = true, value_name = "ID", value_parser = task_ref)]
    ids: Vec<TaskRef>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Continues after a task that cannot be cancelled, and then exits with 1.
pub(crate) async fn run(args: CancelArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let mut out = Stdout::open();
    let mut code = ExitCode::SUCCESS;
    for id in args.ids {
        let cancelled = match id.resolve(&client).await {
            Ok(id) => client.cancel(id).await.map_err(TaskLookupError::from),
            Err(error) => Err(error),
        };
        match cancelled {
            Ok(task) => match args.client.output_format() {
                OutputFormat::Text => out.line(format_args!("{} {}", task.id, task.status))?,
                OutputFormat::Json => out.json(&task)?,
            },
            Err(error) if error.is_about_this_task() => {
                code = ExitCode::FAILURE;
                print_message(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(code)
}
