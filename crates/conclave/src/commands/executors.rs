//! `conclave executors`: lists executors.

use std::process::ExitCode;

use anyhow::Result;
use api::{ExecutorDrain, MachineLoad, format_time};

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
                "NAME", "HEALTH", "SLOTS", "TASKS", "LOAD", "HOST", "VERSION", "SINCE", "REPORTED", "DRAINED",
            ])
            .right_align([2, 3, 4]);
            for executor in executors {
                table.row([
                    executor.name.to_string(),
                    executor.health,
                    executor.slots.to_string(),
                    executor.tasks.to_string(),
                    executor.load.map(load).unwrap_or_default(),
                    executor.host,
                    executor.version,
                    format_time(executor.since),
                    format_time(executor.report_time),
                    executor.drain.map(drained).unwrap_or_default(),
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The load average, which is to be compared with the number of cores.
fn load(load: MachineLoad) -> String {
    format!("{:.2}/{}", load.load_average, load.cores)
}

fn drained(drain: ExecutorDrain) -> String {
    let since = format_time(drain.since);
    match drain.by {
        Some(user) => format!("since {since} by {user}: {}", drain.reason),
        None => format!("since {since}: {}", drain.reason),
    }
}
