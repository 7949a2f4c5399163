//! `conclave watch`: every status of a task until it is done.

use std::process::ExitCode;

use anyhow::Result;
use api::{Event, show_time};
use model::TaskId;

use crate::args::{ClientFlags, task_id};
use crate::follow::Follow;
use crate::print::{Form, Out};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Id of the task
    #[arg(value_parser = task_id)]
    id: TaskId,
    #[command(flatten)]
    client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let form = args.client.form();
    let mut out = Out::open();
    Follow::silently(args.id, &client)
        .until_done(|event| match form {
            Form::People => out.line(line(event)),
            Form::Json => out.json_line(event),
        })
        .await?;
    Ok(ExitCode::SUCCESS)
}

fn line(event: &Event) -> String {
    let mut line = format!("{} {}", show_time(event.time), event.status);
    if let Some(executor) = &event.executor {
        line.push_str(&format!(" on {executor}"));
    }
    line
}
