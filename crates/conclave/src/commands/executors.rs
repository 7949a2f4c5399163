//! `conclave executors`: who runs tasks.

use std::process::ExitCode;

use anyhow::Result;
use api::show_time;

use crate::args::ClientFlags;
use crate::print::{Form, Out, Table};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let executors = args.client.connect()?.executors().await?;
    let mut out = Out::open();
    match args.client.form() {
        Form::Json => out.json_lines(&executors)?,
        Form::People => {
            let mut table = Table::new([
                "NAME", "HEALTH", "SLOTS", "TASKS", "HOST", "VERSION", "SINCE", "REPORTED",
            ])
            .right([2, 3]);
            for executor in executors {
                table.row([
                    executor.name.to_string(),
                    executor.health,
                    executor.slots.to_string(),
                    executor.tasks.to_string(),
                    executor.host,
                    executor.version,
                    show_time(executor.since),
                    show_time(executor.report_time),
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
