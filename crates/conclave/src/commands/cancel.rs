//! `conclave cancel`: cancels tasks by their ids, or all that match a filter.

use std::process::ExitCode;

use anyhow::Result;
use api::{CancelledTasks, HttpClient};
use model::{TaskQuery, TaskStatus};

use crate::args::{CancelFilterFlags, ClientFlags, TaskLookupError, TaskRef, task_ref};
use crate::print::{OutputFormat, Stdout, confirm, print_message};

/// The arguments of `conclave cancel`.
#[derive(clap::Args, Debug)]
pub(crate) struct CancelArgs {
    /// Ids of the tasks, or prefixes of them
    #[arg(
        required_unless_present_any = ["group", "user", "status", "label", "language"],
        value_name = "ID",
        value_parser = task_ref
    )]
    ids: Vec<TaskRef>,
    #[command(flatten)]
    filter: CancelFilterFlags,
    /// Cancel all tasks that match without asking
    #[arg(long, short = 'y', conflicts_with = "ids")]
    yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Counting stops here: the question is whether the filter is right, and a count of a million tasks takes long.
const MAX_COUNT: u64 = 10_000;

pub(crate) async fn run(args: CancelArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    match args.filter.query()? {
        Some(query) => cancel_matching(&query, &args, &client).await,
        None => cancel_each(&args, &client).await,
    }
}

/// Continues after a task that cannot be cancelled, and then exits with 1.
async fn cancel_each(args: &CancelArgs, client: &HttpClient) -> Result<ExitCode> {
    let mut out = Stdout::open();
    let mut code = ExitCode::SUCCESS;
    for id in &args.ids {
        let cancelled = match id.resolve(client).await {
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

async fn cancel_matching(query: &TaskQuery, args: &CancelArgs, client: &HttpClient) -> Result<ExitCode> {
    let mut cancelled = 0;
    match count(query, client).await? {
        0 => print_message("No matching tasks."),
        count => {
            let tasks = in_words(count);
            let question = format!("Cancel {tasks}?");
            let refusal = format!("{tasks} would be cancelled; add --yes to cancel without a question");
            if !args.yes && !confirm(&question, &refusal)? {
                print_message("nothing was cancelled");
                return Ok(ExitCode::FAILURE);
            }
            cancelled = client.cancel_matching(query).await?;
        }
    }
    match args.client.output_format() {
        OutputFormat::Text => Stdout::open().line(format_args!("{cancelled} cancelled"))?,
        OutputFormat::Json => Stdout::open().json(&CancelledTasks { cancelled })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How many tasks match and are not done, up to `MAX_COUNT`.
async fn count(query: &TaskQuery, client: &HttpClient) -> Result<u64> {
    let mut query = TaskQuery {
        limit: TaskQuery::MAX_PAGE,
        ..query.clone()
    };
    if query.statuses.is_empty() {
        let unfinished = TaskStatus::ALL.into_iter().filter(|status| !status.is_done());
        query.statuses = unfinished.collect();
    }
    let mut count = 0;
    loop {
        let page = client.search(&query).await?;
        count += page.tasks.len() as u64;
        query.after = page.next;
        if query.after.is_none() || count >= MAX_COUNT {
            return Ok(count);
        }
    }
}

fn in_words(count: u64) -> String {
    match count {
        1 => "1 task".to_string(),
        MAX_COUNT.. => format!("{count} or more tasks"),
        _ => format!("{count} tasks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_in_words() {
        assert_eq!(in_words(1), "1 task");
        assert_eq!(in_words(9_999), "9999 tasks");
        assert_eq!(in_words(10_000), "10000 or more tasks");
    }
}
