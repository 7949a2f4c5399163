//! `conclave search`: tasks that match, a page or all of them.

use std::process::ExitCode;

use anyhow::Result;
use api::{Brief, Client, Page, parse_time, show_time};
use clap::builder::RangedU64ValueParser;
use model::{Cursor, ExecutorName, Moment, Order, Query, Status, TaskId, UserName};

use crate::args::{ClientFlags, TaskRef, executor_name, task_ref, user_name};
use crate::print::{Form, Out, Table, complain};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only these ids; of one alone the beginning is enough, and all tasks whose ids begin so are listed
    #[arg(value_name = "ID", value_parser = task_ref)]
    ids: Vec<TaskRef>,
    /// Only tasks of this user
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    user: Option<UserName>,
    /// Only tasks with this status; repeatable
    #[arg(long, value_name = "STATUS")]
    status: Vec<Status>,
    /// Only tasks that this executor holds
    #[arg(long, value_name = "NAME", value_parser = executor_name)]
    executor: Option<ExecutorName>,
    /// Only tasks added at this time or later, like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Moment>,
    /// Only tasks added before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Moment>,
    /// Only tasks with this text in their command
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Oldest first
    #[arg(long, conflicts_with = "newest")]
    oldest: bool,
    /// Newest first; the default
    #[arg(long)]
    newest: bool,
    /// Tasks on a page
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = RangedU64ValueParser::<usize>::new().range(1..=Query::LIMIT as u64))]
    limit: usize,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Every page, one after the other
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let (ids, id_prefix) = match &args.ids[..] {
        [TaskRef::Prefix(prefix)] => (Vec::new(), Some(prefix.clone())),
        several => (find_all(several, &client).await?, None),
    };
    let mut query = Query {
        ids,
        id_prefix,
        user: args.user,
        statuses: args.status,
        executor: args.executor,
        from: args.from,
        until: args.until,
        text: args.text,
        order: match args.oldest {
            true => Order::Oldest,
            false => Order::Newest,
        },
        limit: args.limit,
        after: args.after,
    };
    let mut out = Out::open();
    let mut found = 0;
    loop {
        let page = client.search(&query).await?;
        found += page.tasks.len();
        match args.client.form() {
            Form::People if page.tasks.is_empty() => {}
            Form::People if found == page.tasks.len() => out.text(table(&page))?,
            Form::People => out.text(table(&page).without_headings())?,
            Form::Json => out.json_lines(&page.tasks)?,
        }
        // What follows is on stderr: it is no part of the list.
        match (page.next, args.all) {
            (Some(next), true) => query.after = Some(next),
            (Some(next), false) if !page.complete => {
                complain(format_args!(
                    "the search looked at part of the tasks only; to go on, add --after {next}, or --all"
                ));
                break;
            }
            (Some(next), false) => {
                complain(format_args!("there are more; add --after {next}, or --all"));
                break;
            }
            (None, _) => {
                if found == 0 {
                    complain("No matching tasks.");
                }
                break;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn find_all(ids: &[TaskRef], client: &Client) -> Result<Vec<TaskId>> {
    let mut found = Vec::new();
    for id in ids {
        found.push(id.find(client).await?);
    }
    Ok(found)
}

fn table(page: &Page) -> Table {
    let mut table = Table::new([
        "ID", "STATUS", "USER", "PRIO", "EXECUTOR", "ADDED", "TOOK", "COMMAND",
    ])
    .right([3, 6]);
    for task in &page.tasks {
        table.row(row(task));
    }
    table
}

fn row(task: &Brief) -> [String; 8] {
    let took = match (task.start_time, task.finish_time) {
        (Some(start), Some(finish)) => format!("{:.3}s", finish.since(start).as_secs_f64()),
        _ => "-".to_string(),
    };
    [
        task.id.to_string(),
        task.status.to_string(),
        task.user.to_string(),
        task.priority.to_string(),
        task.executor
            .as_ref()
            .map_or("-".to_string(), ToString::to_string),
        show_time(task.add_time),
        took,
        task.command.chars().take(COMMAND_WIDTH).collect(),
    ]
}

const COMMAND_WIDTH: usize = 60;
