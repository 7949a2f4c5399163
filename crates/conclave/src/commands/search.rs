//! `conclave search`: lists matching tasks, one page or all.

use std::process::ExitCode;

use anyhow::Result;
use api::{HttpClient, Page, TaskSummary, format_time};
use clap::builder::RangedU64ValueParser;
use model::{SearchCursor, SortOrder, TaskId, TaskQuery};

use crate::args::{ClientFlags, TaskFilterFlags, TaskRef, task_ref};
use crate::print::{OutputFormat, Stdout, TextTable, print_message};

/// The arguments of `conclave search`.
#[derive(clap::Args, Debug)]
pub(crate) struct SearchArgs {
    /// Only tasks with these ids; a single prefix of an id lists all tasks whose ids begin with it
    #[arg(value_name = "ID", value_parser = task_ref)]
    ids: Vec<TaskRef>,
    #[command(flatten)]
    filter: TaskFilterFlags,
    /// Oldest tasks first
    #[arg(long, conflicts_with = "newest")]
    oldest: bool,
    /// Newest tasks first; the default
    #[arg(long)]
    newest: bool,
    /// Number of tasks on a page
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = RangedU64ValueParser::<usize>::new().range(1..=TaskQuery::MAX_PAGE as u64))]
    limit: usize,
    /// Cursor at which the previous page ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<SearchCursor>,
    /// List all pages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: SearchArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let (ids, id_prefix) = match &args.ids[..] {
        [TaskRef::Prefix(prefix)] => (Vec::new(), Some(prefix.clone())),
        several => (resolve_all(several, &client).await?, None),
    };
    let mut query = TaskQuery {
        ids,
        id_prefix,
        order: match args.oldest {
            true => SortOrder::Oldest,
            false => SortOrder::Newest,
        },
        limit: args.limit,
        after: args.after,
        ..args.filter.query()?
    };
    let mut out = Stdout::open();
    let mut found = 0;
    loop {
        let page = client.search(&query).await?;
        found += page.tasks.len();
        match args.client.output_format() {
            OutputFormat::Text if page.tasks.is_empty() => {}
            OutputFormat::Text if found == page.tasks.len() => out.text(table(&page))?,
            OutputFormat::Text => out.text(table(&page).without_headings())?,
            OutputFormat::Json => out.json_lines(&page.tasks)?,
        }
        // These messages go to stderr, because they are not part of the list.
        match (page.next, args.all) {
            (Some(next), true) => query.after = Some(next),
            (Some(next), false) if !page.complete => {
                print_message(format_args!(
                    "the search has scanned only a part of the tasks; to continue, add --after {next}, or --all"
                ));
                break;
            }
            (Some(next), false) => {
                print_message(format_args!("there are more; add --after {next}, or --all"));
                break;
            }
            (None, _) => {
                if found == 0 {
                    print_message("No matching tasks.");
                }
                break;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn resolve_all(ids: &[TaskRef], client: &HttpClient) -> Result<Vec<TaskId>> {
    let mut found = Vec::new();
    for id in ids {
        found.push(id.resolve(client).await?);
    }
    Ok(found)
}

fn table(page: &Page) -> TextTable {
    let mut table = TextTable::new([
        "ID", "STATUS", "REASON", "USER", "GROUP", "PRIO", "EXECUTOR", "ADDED", "TOOK", "COMMAND",
    ])
    .right_align([5, 8]);
    for task in &page.tasks {
        table.row(row(task));
    }
    table
}

fn row(task: &TaskSummary) -> [String; 10] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    let took = match (task.start_time, task.finish_time) {
        (Some(start), Some(finish)) => format!("{:.3}s", finish.since(start).as_secs_f64()),
        _ => "-".to_string(),
    };
    [
        task.id.to_string(),
        task.status.to_string(),
        or_dash(task.reason.map(|reason| reason.to_string())),
        task.user.to_string(),
        or_dash(task.group.as_ref().map(ToString::to_string)),
        task.priority.to_string(),
        or_dash(task.executor.as_ref().map(ToString::to_string)),
        format_time(task.add_time),
        took,
        task.command.chars().take(COMMAND_WIDTH).collect(),
    ]
}

const COMMAND_WIDTH: usize = 60;
