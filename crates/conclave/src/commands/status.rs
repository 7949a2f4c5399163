//! `conclave status`: the services of this machine's node of a cluster.

use std::process::ExitCode;

use anyhow::Result;
use boot::ServiceStatus;

use crate::args::LocalFlags;
use crate::print::{Out, Table};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    local: LocalFlags,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let status = args.local.node()?.status()?;
    let mut out = Out::open();
    if args.json {
        out.json(&status)?;
        return Ok(ExitCode::SUCCESS);
    }
    let boot = match status.pid {
        Some(pid) => format!("boot runs as process {pid} since {}", status.since),
        None => "boot does not run".to_string(),
    };
    out.line(format_args!("{} {}: {boot}", status.kind, status.name))?;
    let mut table = Table::new([
        "SERVICE",
        "STATE",
        "PID",
        "SERVER",
        "SINCE",
        "RESTARTS",
        "LAST EXIT",
        "DOING",
    ])
    .right([5]);
    for service in status.services {
        table.row(row(service));
    }
    out.text(table)?;
    Ok(ExitCode::SUCCESS)
}

fn row(service: ServiceStatus) -> [String; 8] {
    let number = |pid: Option<u32>| pid.map_or("-".to_string(), |pid| pid.to_string());
    [
        service.name,
        service.state.as_str().to_string(),
        number(service.pid),
        number(service.server_pid),
        service.since.to_string(),
        service.restarts.to_string(),
        service.last_exit.unwrap_or_else(|| "-".to_string()),
        service.doing.unwrap_or_else(|| "-".to_string()),
    ]
}
