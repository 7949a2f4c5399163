//! `conclave stop`: stops this machine's node, and waits for it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::leave;
use crate::args::LocalFlags;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Take the node out of its cluster for good as well, as `conclave leave` does
    #[arg(long)]
    leave: bool,
    #[command(flatten)]
    local: LocalFlags,
}

/// Above what all services together may take: each has its own grace time.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let node = args.local.node()?;
    match args.leave {
        true => leave::leave(&node).await?,
        false => boot::stop(&node.run(), PATIENCE).await?,
    }
    Ok(ExitCode::SUCCESS)
}
