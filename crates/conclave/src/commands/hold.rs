//! `conclave hold`: leaves a service alone.

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
    boot::hold(&args.local.node()?.run(), &args.service)?;
    Ok(ExitCode::SUCCESS)
}
