//! `conclave executors`: lists executors.

use std::process::ExitCode;

use anyhow::Result;
use api::format_time;

use crate::args::ClientFlags;
use crate::print::{OutputFormat, Stdout, TextTable};

/// The arguments of `conclave executors`.
#[derive(clap::Args, Debug)]
pub(crate) struct ExecutorsArgs {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: ExecutorsArgs) -> Result<ExitCode> {
    let executors = args.client.connect()?.executors().await?;
    let mut out = Stdout::open();
    match args.client.output_format() {
        OutputFormat::Json => out.json_lines(&executors)?,
        OutputFormat::Text => {
            let mut table = TextTable::new([
                "NAME", "HEALTH", "SLOTS", "TASKS", "HOST", "VERSION", "SINCE", "REPORTED",
            ])
            .right_align([2, 3]);
            for executor in executors {
                table.row([
                    executor.name.to_string(),
                    executor.health,
                    executor.slots.to_string(),
                    executor.tasks.to_string(),
                    executor.host,
                    executor.version,
                    format_time(executor.since),
                    format_time(executor.report_time),
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
