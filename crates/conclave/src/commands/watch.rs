//! `conclave watch`: every status of a task until it is done.

use std::process::ExitCode;

use anyhow::Result;
use api::{Event, show_time};

use crate::args::{ClientFlags, TaskRef, task_ref};
use crate::exit;
use crate::follow::Follow;
use crate::outputs::tell_ending;
use crate::print::{Form, Out, is_closed_pipe};

#[derive(clap::Args, Debug)]
#[command(after_help = exit::HELP)]
pub(crate) struct Args {
    /// Id of the task, or the beginning of it
    #[arg(value_parser = task_ref)]
    id: TaskRef,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let client = args.client.connect()?;
    let form = args.client.form();
    let mut out = Out::open();
    let id = args.id.find(&client).await?;
    let task = Follow::silently(id, &client)
        .until_done(|event| {
            let shown = match form {
                Form::People => out.line(line(event)),
                Form::Json => out.json(event),
            };
            match shown {
                // `watch ID | head -1` still exits as the task did.
                Err(error) if !is_closed_pipe(&error) => Err(error),
                _ => Ok(()),
            }
        })
        .await?;
    tell_ending(&task, &client).await?;
    Ok(ExitCode::from(exit::code(exit::Ending::of(&task))))
}

fn line(event: &Event) -> String {
    let mut line = format!("{} {}", show_time(event.time), event.status);
    if let Some(executor) = &event.executor {
        line.push_str(&format!(" on {executor}"));
    }
    line
}
