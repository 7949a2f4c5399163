//! `conclave hold` and `conclave unhold`: pause and resume the supervision of a service.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::LocalNodeFlags;

/// The arguments of `conclave hold` and `conclave unhold`.
#[derive(clap::Args, Debug)]
pub(crate) struct HoldArgs {
    /// Name of the service, as `conclave status` shows it
    #[arg(value_name = "SERVICE")]
    service: String,
    #[command(flatten)]
    local: LocalNodeFlags,
}

pub(crate) fn hold(args: HoldArgs) -> Result<ExitCode> {
    boot::hold(&args.local.node()?.run_folder(), &args.service)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn unhold(args: HoldArgs) -> Result<ExitCode> {
    boot::unhold(&args.local.node()?.run_folder(), &args.service)?;
    Ok(ExitCode::SUCCESS)
}
