//! `conclave judicators`: who keeps the tasks.

use std::process::ExitCode;

use anyhow::Result;
use api::show_time;

use crate::args::ClientFlags;
use crate::print::{Form, Out, Table};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let judicators = args.client.connect()?.judicators().await?;
    let mut out = Out::open();
    match args.client.form() {
        Form::Json => out.json(&judicators)?,
        Form::People => {
            let mut table = Table::new(["NAME", "ADDRESS", "LEADS", "STORE", "VERSION", "SINCE"]);
            for judicator in judicators {
                let leads = match judicator.leader {
                    true => "yes",
                    false => "no",
                };
                table.row([
                    judicator.name,
                    judicator.address,
                    leads.to_string(),
                    judicator.store,
                    judicator.version,
                    show_time(judicator.since),
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
