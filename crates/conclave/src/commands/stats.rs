//! `conclave stats`: shows counts of tasks and rates.

use std::process::ExitCode;

use anyhow::Result;
use model::TaskStatus;

use crate::args::ClientFlags;
use crate::print::{KeyValueList, OutputFormat, Stdout};

/// The arguments of `conclave stats`.
#[derive(clap::Args, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: StatsArgs) -> Result<ExitCode> {
    let stats = args.client.connect()?.stats().await?;
    let mut out = Stdout::open();
    match args.client.output_format() {
        OutputFormat::Json => out.json(&stats)?,
        OutputFormat::Text => {
            let mut list = KeyValueList::default();
            // In the order in which a task passes through them, not in alphabetical order.
            for status in TaskStatus::ALL {
                list.add_if_some(status.as_str(), stats.counts.get(status.as_str()));
            }
            list.add("executors", stats.executors);
            list.add("slots", stats.slots);
            list.add("held", stats.held);
            list.add("queued", stats.queued);
            let age = stats.oldest_queued_seconds.map(|age| format!("{age:.0} s"));
            list.add_if_some("oldest queued", age);
            list.add(
                "tasks/s",
                format!(
                    "{:.1} over the last {:.0} s",
                    stats.tasks_per_second, stats.window_seconds
                ),
            );
            list.add_if_some("note", stats.note.as_ref());
            out.text(list)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
