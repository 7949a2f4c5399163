//! `conclave judicators`: lists judicators.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use api::{ClusterMemberState, JudicatorState, format_time};

use crate::args::ClientFlags;
use crate::group_progress::in_two_units;
use crate::print::{OutputFormat, Stdout, TextTable, print_message};

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
                "ETCD LAG",
                "MONGODB",
                "MONGODB UP",
                "MONGODB LAG",
                "VERSION",
                "SINCE",
            ])
            .right_align([6, 7, 9, 10]);
            let outdated: Vec<_> = judicators.iter().filter_map(outdated_message).collect();
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
                    lag(judicator.etcd.as_ref()),
                    member(judicator.mongodb.as_ref()),
                    uptime(judicator.mongodb.as_ref()),
                    lag(judicator.mongodb.as_ref()),
                    judicator.version,
                    judicator.since.map_or("-".to_string(), format_time),
                ]);
            }
            out.text(table)?;
            for message in outdated {
                print_message(message);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says that a judicator has met tasks of a newer version.
fn outdated_message(judicator: &JudicatorState) -> Option<String> {
    judicator.newer_form.map(|form| {
        format!(
            "judicator {} has met tasks of form {form}, which version {} does not know, and leaves them to newer \
             judicators; upgrade it",
            judicator.name, judicator.version
        )
    })
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
    let seconds = member.and_then(|member| member.uptime_seconds);
    seconds.map_or("-".to_string(), |seconds| {
        in_two_units(Duration::from_secs(seconds))
    })
}

/// How far the member is behind the leader or primary.
fn lag(member: Option<&ClusterMemberState>) -> String {
    let Some(member) = member else {
        return "-".to_string();
    };
    match (member.lag_seconds, member.lag_entries) {
        (Some(seconds), _) => format!("{seconds:.0} s"),
        (None, Some(1)) => "1 entry".to_string(),
        (None, Some(entries)) => format!("{entries} entries"),
        (None, None) => "-".to_string(),
    }
}
