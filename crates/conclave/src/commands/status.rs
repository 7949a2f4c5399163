//! `conclave status`: this machine's node: its services, or whether `conclave up` is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use api::{Client, ClientOptions};
use boot::{ServiceStatus, Status};
use serde::Serialize;

use crate::args::LocalFlags;
use crate::print::{Form, Out, Table};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    local: LocalFlags,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// How long the node may take to say whether it is ready.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let status = args.local.node()?.status()?;
    let mut out = Out::open();
    let form = match args.json {
        true => Form::Json,
        false => Form::People,
    };
    match (status.is_single(), form) {
        (true, form) => show_single(&status, form, &mut out).await?,
        (false, Form::Json) => out.json(&status)?,
        (false, Form::People) => show_services(status, &mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What `conclave up` wrote down, and what it answers now.
#[derive(Serialize)]
struct Single<'a> {
    #[serde(flatten)]
    status: &'a Status,
    ready: bool,
    /// Why it is not ready.
    problem: Option<String>,
}

async fn show_single(status: &Status, form: Form, out: &mut Out) -> Result<()> {
    let problem = match (status.pid, status.addresses.get("http")) {
        (None, _) => Some("it does not run".to_string()),
        (Some(_), None) => Some("it is starting".to_string()),
        (Some(_), Some(address)) => not_ready(address).await,
    };
    if let Form::Json = form {
        return out.json(&Single {
            status,
            ready: problem.is_none(),
            problem,
        });
    }
    let Status {
        kind, name, since, ..
    } = status;
    let Some(pid) = status.pid else {
        return out.line(format_args!(
            "{kind} {name}: does not run; it last started {since}"
        ));
    };
    out.line(format_args!("{kind} {name}: runs as process {pid} since {since}"))?;
    out.line(format_args!("version {}", status.version))?;
    for (scheme, address) in &status.addresses {
        out.line(format_args!("{scheme}://{address}"))?;
    }
    match problem {
        None => out.line("ready"),
        Some(problem) => out.line(format_args!("not ready: {problem}")),
    }
}

async fn not_ready(address: &str) -> Option<String> {
    let address = &reachable(address);
    // A proxy has nothing to say about a node on this machine.
    let options = ClientOptions {
        direct: true,
        ..ClientOptions::default()
    };
    let asked = async { Client::with(address, options)?.ready().await };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer from {address} within {PATIENCE:?}")),
    }
}

/// A node that listens on all addresses is asked on loopback.
fn reachable(address: &str) -> String {
    let Ok(mut address) = address.parse::<SocketAddr>() else {
        return address.to_string();
    };
    match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address.to_string()
}

fn show_services(status: Status, out: &mut Out) -> Result<()> {
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
    out.text(table)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_on_all_addresses_is_asked_on_loopback() {
        for (given, expected) in [
            ("0.0.0.0:7000", "127.0.0.1:7000"),
            ("[::]:7000", "[::1]:7000"),
            ("10.0.0.1:80", "10.0.0.1:80"),
        ] {
            assert_eq!(reachable(given), expected);
        }
    }
}
