//! `conclave judicators`: who keeps the tasks.

use std::process::ExitCode;

use anyhow::Result;
use api::{Part, show_time};

use crate::args::ClientFlags;
use crate::print::{Form, Out, Table};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let judicators = args.client.connect()?.judicators().await?;
    let mut out = Out::open();
    match args.client.form() {
        Form::Json => out.json_lines(&judicators)?,
        Form::People => {
            let mut table = Table::new([
                "NAME",
                "HEALTH",
                "ADDRESS",
                "LEADS",
                "STORE",
                "ETCD",
                "ETCD UP",
                "MONGODB",
                "MONGODB UP",
                "VERSION",
                "SINCE",
            ])
            .right([6, 8]);
            for judicator in judicators {
                let leads = match judicator.leader {
                    true => "yes",
                    false => "no",
                };
                table.row([
                    judicator.name,
                    judicator.health,
                    Some(judicator.address)
                        .filter(|address| !address.is_empty())
                        .unwrap_or("-".to_string()),
                    leads.to_string(),
                    judicator.store,
                    part(judicator.etcd.as_ref()),
                    up(judicator.etcd.as_ref()),
                    part(judicator.mongodb.as_ref()),
                    up(judicator.mongodb.as_ref()),
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
fn part(part: Option<&Part>) -> String {
    match part {
        None => "-".to_string(),
        Some(part) if part.version.is_empty() => format!("{} {}", part.state, part.address),
        Some(part) => format!("{} {} {}", part.state, part.address, part.version),
    }
}

/// For how long it has been running: the two largest units say enough.
fn up(part: Option<&Part>) -> String {
    let Some(seconds) = part.and_then(|part| part.uptime_seconds) else {
        return "-".to_string();
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uptime_is_told_in_two_units() {
        let check = |uptime_seconds: Option<u64>, expected: &str| {
            let part = Part {
                address: String::new(),
                state: String::new(),
                version: String::new(),
                uptime_seconds,
            };
            assert_eq!(up(Some(&part)), expected);
        };
        check(None, "-");
        check(Some(0), "0s");
        check(Some(59), "59s");
        check(Some(65), "1m05s");
        check(Some(3600 + 7 * 60 + 59), "1h07m");
        check(Some(49 * 3600), "2d01h");
        assert_eq!(up(None), "-");
    }
}
