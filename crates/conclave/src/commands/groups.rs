//! `conclave groups`: lists groups of tasks.

use std::process::ExitCode;

use anyhow::Result;
use api::{GroupState, format_time};
use model::UserName;

use crate::args::{ClientFlags, user_name};
use crate::group_progress::ProgressCounts;
use crate::print::{OutputFormat, Stdout, TextTable, print_message};

/// The arguments of `conclave groups`.
#[derive(clap::Args, Debug)]
pub(crate) struct GroupsArgs {
    /// Only groups of this user
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    user: Option<UserName>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: GroupsArgs) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let mut out = Stdout::open();
    let mut after = None;
    let mut is_first = true;
    loop {
        let page = client.groups(args.user.as_ref(), after.as_ref()).await?;
        let table = table(&page.groups);
        match args.client.output_format() {
            OutputFormat::Json => out.json_lines(&page.groups)?,
            OutputFormat::Text if is_first && page.groups.is_empty() => print_message("No groups."),
            OutputFormat::Text if is_first => out.text(table)?,
            OutputFormat::Text => out.text(table.without_headings())?,
        }
        is_first = false;
        after = page.next;
        if after.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn table(groups: &[GroupState]) -> TextTable {
    let headings = [
        "GROUP", "USER", "TOTAL", "DONE", "RUNNING", "FAILED", "ADDED", "FINISHED",
    ];
    let mut table = TextTable::new(headings).right_align([2, 3, 4, 5]);
    for group in groups {
        let counts = ProgressCounts::of(group);
        table.row([
            group.group.to_string(),
            group.user.to_string(),
            counts.total.to_string(),
            counts.done.to_string(),
            counts.running.to_string(),
            counts.failed.to_string(),
            format_time(group.add_time),
            group.finish_time.map_or("-".to_string(), format_time),
        ]);
    }
    table
}
