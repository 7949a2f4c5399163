//! `conclave service`: runs one service of a cluster node; boot starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::cluster::{ServiceKind, services};
use crate::config::ConfigLayers;

/// The arguments of `conclave service`.
#[derive(clap::Args, Debug)]
pub(crate) struct ServiceArgs {
    /// Service to run
    #[arg(value_parser = ServiceKind::parse)]
    service: ServiceKind,
    /// Configuration of the service, as boot has resolved it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Reports any failure to boot as well.
pub(crate) fn run(args: ServiceArgs) -> Result<ExitCode> {
    let result =
        ConfigLayers::from_resolved_file(&args.config).and_then(|layers| services::run(args.service, layers));
    if let Err(error) = &result {
        boot::report_failure_on_stdin(&format!("{error:#}"));
    }
    result
}
