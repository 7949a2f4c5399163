//! `conclave status`: shows the services of this machine's cluster node, or whether its `conclave up` is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use api::{HttpClient, HttpClientOptions};
use boot::{NodeStatus, ServiceStatus};
use serde::Serialize;

use crate::args::LocalNodeFlags;
use crate::print::{OutputFormat, Stdout, TextTable};

/// The arguments of `conclave status`.
#[derive(clap::Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    local: LocalNodeFlags,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// How long the node may take to answer whether it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: StatusArgs) -> Result<ExitCode> {
    let status = args.local.node()?.status()?;
    let mut out = Stdout::open();
    let format = match args.json {
        true => OutputFormat::Json,
        false => OutputFormat::Text,
    };
    match (status.is_single(), format) {
        (true, format) => print_single(&status, format, &mut out).await?,
        (false, OutputFormat::Json) => out.json(&status)?,
        (false, OutputFormat::Text) => print_services(status, &mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What `conclave status --json` prints for a `conclave up`: its status file, and its current readiness.
#[derive(Serialize)]
struct SingleNodeReport<'a> {
    #[serde(flatten)]
    status: &'a NodeStatus,
    ready: bool,
    /// Why the node is not ready.
    problem: Option<String>,
}

async fn print_single(status: &NodeStatus, format: OutputFormat, out: &mut Stdout) -> Result<()> {
    let problem = match (status.pid, status.addresses.get("http")) {
        (None, _) => Some("it is not running".to_string()),
        (Some(_), None) => Some("it is starting".to_string()),
        (Some(_), Some(address)) => readiness_problem(address).await,
    };
    if let OutputFormat::Json = format {
        return out.json(&SingleNodeReport {
            status,
            ready: problem.is_none(),
            problem,
        });
    }
    let NodeStatus {
        kind, name, since, ..
    } = status;
    let Some(pid) = status.pid else {
        return out.line(format_args!("{kind} {name}: not running; last started {since}"));
    };
    out.line(format_args!(
        "{kind} {name}: running as process {pid} since {since}"
    ))?;
    out.line(format_args!("version {}", status.version))?;
    for (scheme, address) in &status.addresses {
        out.line(format_args!("{scheme}://{address}"))?;
    }
    match problem {
        None => out.line("ready"),
        Some(problem) => out.line(format_args!("not ready: {problem}")),
    }
}

async fn readiness_problem(address: &str) -> Option<String> {
    let address = &loopback_if_unspecified(address);
    // The node is on this machine, so a proxy from the environment must not be used.
    let options = HttpClientOptions {
        bypass_proxy: true,
        ..HttpClientOptions::default()
    };
    let request = async { HttpClient::with_options(address, options)?.ready().await };
    match tokio::time::timeout(READY_TIMEOUT, request).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no response from {address} within {READY_TIMEOUT:?}")),
    }
}

/// A node that listens on all addresses is called on loopback.
fn loopback_if_unspecified(address: &str) -> String {
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

fn print_services(status: NodeStatus, out: &mut Stdout) -> Result<()> {
    let boot = match status.pid {
        Some(pid) => format!("boot is running as process {pid} since {}", status.since),
        None => "boot is not running".to_string(),
    };
    out.line(format_args!("{} {}: {boot}", status.kind, status.name))?;
    let mut table = TextTable::new([
        "SERVICE",
        "STATE",
        "PID",
        "SERVER",
        "SINCE",
        "RESTARTS",
        "LAST EXIT",
        "DOING",
    ])
    .right_align([5]);
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
    fn a_node_on_all_addresses_is_called_on_loopback() {
        for (given, expected) in [
            ("0.0.0.0:7000", "127.0.0.1:7000"),
            ("[::]:7000", "[::1]:7000"),
            ("10.0.0.1:80", "10.0.0.1:80"),
        ] {
            assert_eq!(loopback_if_unspecified(given), expected);
        }
    }
}
