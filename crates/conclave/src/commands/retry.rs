//! `conclave retry`: adds tasks that repeat others, by their ids or what did not succeed in a group.

use std::process::ExitCode;

use anyhow::Result;
use api::RetriedTasks;
use model::{GroupName, TaskId, UserName};
use serde::Serialize;

use crate::args::{ClientFlags, TaskLookupError, TaskRef, group_name, task_ref, user_name};
use crate::print::{OutputFormat, Stdout, print_message};

/// The arguments of `conclave retry`.
#[derive(clap::Args, Debug)]
pub(crate) struct RetryArgs {
    /// Ids of the tasks, or prefixes of them
    #[arg(value_name = "ID", value_parser = task_ref, required_unless_present = "group")]
    ids: Vec<TaskRef>,
    /// Retry the tasks of this group that are done and did not succeed
    #[arg(long, value_name = "NAME", value_parser = group_name, conflicts_with = "ids")]
    group: Option<GroupName>,
    /// User whose group it is; by default you
    #[arg(long, value_name = "NAME", value_parser = user_name, requires = "group")]
    user: Option<UserName>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What `conclave retry --group --json` prints for each new task.
#[derive(Serialize)]
struct RetriedTaskLine {
    id: String,
}

/// Continues after a task that cannot be retried, and then exits with 1.
pub(crate) async fn run(args: RetryArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let format = args.client.output_format();
    let mut out = Stdout::open();
    if let Some(group) = &args.group {
        let RetriedTasks { tasks, more } = client.retry_group(group, args.user.as_ref()).await?;
        print_ids(&tasks, format, &mut out)?;
        if more {
            print_message("the group has more tasks to retry; run the command again");
            return Ok(ExitCode::FAILURE);
        }
        if tasks.is_empty() {
            print_message("no task of the group is done without success");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut code = ExitCode::SUCCESS;
    for id in args.ids {
        let retried = match id.resolve(&client).await {
            Ok(id) => client.retry(id).await.map_err(TaskLookupError::from),
            Err(error) => Err(error),
        };
        match retried {
            Ok(task) => match format {
                OutputFormat::Text => out.line(task.id)?,
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

fn print_ids(ids: &[TaskId], format: OutputFormat, out: &mut Stdout) -> Result<()> {
    for id in ids {
        match format {
            OutputFormat::Text => out.line(id)?,
            OutputFormat::Json => out.json(&RetriedTaskLine { id: id.to_string() })?,
        }
    }
    Ok(())
}
