//! `conclave stats`: counts and rates.

use std::process::ExitCode;

use anyhow::Result;
use model::Status;

use crate::args::ClientFlags;
use crate::print::{Form, Out, Pairs};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let stats = args.client.connect()?.stats().await?;
    let mut out = Out::open();
    match args.client.form() {
        Form::Json => out.json(&stats)?,
        Form::People => {
            let mut pairs = Pairs::default();
            // In the order of a task's life, not of the alphabet.
            for status in Status::ALL {
                pairs.add_if_some(status.as_str(), stats.counts.get(status.as_str()));
            }
            pairs.add("executors", stats.executors);
            pairs.add("slots", stats.slots);
            pairs.add("held", stats.held);
            pairs.add(
                "tasks/s",
                format!(
                    "{:.1} over the last {:.0} s",
                    stats.tasks_per_second, stats.window_seconds
                ),
            );
            pairs.add_if_some("note", stats.note.as_ref());
            out.text(pairs)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
