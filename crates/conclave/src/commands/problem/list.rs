//! `conclave problem list`: lists the problems of a server.

use std::process::ExitCode;

use anyhow::Result;
use api::format_time;

use crate::args::ClientFlags;
use crate::print::{OutputFormat, Stdout, TextTable, print_message};

/// The arguments of `conclave problem list`.
#[derive(clap::Args, Debug)]
pub(super) struct ListProblemsArgs {
    #[command(flatten)]
    pub(super) client: ClientFlags,
}

pub(super) async fn run(args: ListProblemsArgs) -> Result<ExitCode> {
    let problems = args.client.connect()?.problems().await?;
    let mut out = Stdout::open();
    match args.client.output_format() {
        OutputFormat::Json => out.json_lines(&problems)?,
        OutputFormat::Text if problems.is_empty() => print_message("No problems."),
        OutputFormat::Text => {
            let mut table = TextTable::new(["NAME", "OWNER", "CASES", "UPDATED", "TITLE"]).right_align([2]);
            for problem in problems {
                table.row([
                    problem.name.to_string(),
                    problem.owner.to_string(),
                    problem.cases.to_string(),
                    format_time(problem.update_time),
                    problem.title,
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
