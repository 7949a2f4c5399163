//! `conclave unhold`: keeps a service alive again.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::LocalFlags;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The service, as `conclave status` calls it
    #[arg(value_name = "SERVICE")]
    service: String,
    #[command(flatten)]
    local: LocalFlags,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    boot::unhold(&args.local.node()?.run(), &args.service)?;
    Ok(ExitCode::SUCCESS)
}
