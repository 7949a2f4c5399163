//! `conclave judicators`: lists judicators.

use std::process::ExitCode;

use anyhow::Result;
use api::{ClusterMemberState, format_time};

use crate::args::ClientFlags;
use crate::print::{OutputFormat, Stdout, TextTable};

/// The arguments of `conclave judicators`.
#[derive(clap::Args, Debug)]
pub(crate) struct JudicatorsArgs {
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

pub(crate) async fn run(args: JudicatorsArgs) -> Result<ExitCode> {
    let judicators = args.client.connect()?.judicators().await?;
    let mut out = Stdout::open();
    match args.client.output_format() {
        OutputFormat::Json => out.json_lines(&judicators)?,
        OutputFormat::Text => {
            let mut table = TextTable::new([
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
            .right_align([6, 8]);
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
                    member(judicator.etcd.as_ref()),
                    uptime(judicator.etcd.as_ref()),
                    member(judicator.mongodb.as_ref()),
                    uptime(judicator.mongodb.as_ref()),
                    judicator.version,
                    judicator.since.map_or("-".to_string(), format_time),
                ]);
            }
            out.text(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The state, address and version of a judicator's etcd or mongod.
fn member(member: Option<&ClusterMemberState>) -> String {
    match member {
        None => "-".to_string(),
        Some(member) if member.version.is_empty() => format!("{} {}", member.state, member.address),
        Some(member) => format!("{} {} {}", member.state, member.address, member.version),
    }
}

/// The uptime in its two largest units.
fn uptime(member: Option<&ClusterMemberState>) -> String {
    let Some(seconds) = member.and_then(|member| member.uptime_seconds) else {
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
    fn an_uptime_is_printed_in_two_units() {
        let check = |uptime_seconds: Option<u64>, expected: &str| {
            let member = ClusterMemberState {
                address: String::new(),
                state: String::new(),
                version: String::new(),
                uptime_seconds,
            };
            assert_eq!(uptime(Some(&member)), expected);
        };
        check(None, "-");
        check(Some(0), "0s");
        check(Some(59), "59s");
        check(Some(65), "1m05s");
        check(Some(3600 + 7 * 60 + 59), "1h07m");
        check(Some(49 * 3600), "2d01h");
        assert_eq!(uptime(None), "-");
    }
}
