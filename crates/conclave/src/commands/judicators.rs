//! `conclave judicators`: who keeps the tasks.

use std::process::ExitCode;

use anyhow::Result;
use api::{Part, show_time};

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
            let mut table = Table::new([
                "NAME", "HEALTH", "ADDRESS", "LEADS", "STORE", "ETCD", "MONGODB", "VERSION", "SINCE",
            ]);
            for judicator in judicators {
                let leads = match judicator.leader {
                    true => "yes",
                    false => "no",
                };
                table.row([
                    judicator.name,
                    judicator.health,
                    judicator.address,
                    leads.to_string(),
                    judicator.store,
                    part(judicator.etcd),
                    part(judicator.mongodb),
                    judicator.version,
                    judicator.since.map_or("-".to_string(), show_time),
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a server is among those of the other nodes, and its version.
fn part(part: Option<Part>) -> String {
    match part {
        None => "-".to_string(),
        Some(part) if part.version.is_empty() => format!("{} {}", part.state, part.address),
        Some(part) => format!("{} {} {}", part.state, part.address, part.version),
    }
}
