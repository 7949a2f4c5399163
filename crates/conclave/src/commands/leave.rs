//! `conclave leave`: takes this machine's node out of its cluster for good, and stops it.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::stop::PATIENCE;
use crate::args::LocalFlags;
use crate::cluster::{Kind, LocalNode};
use crate::print::Out;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    local: LocalFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    leave(&args.local.node()?).await?;
    Ok(ExitCode::SUCCESS)
}

/// Every step is safe to repeat: where one fails, the same command goes on from there.
pub(super) async fn leave(node: &LocalNode) -> Result<()> {
    let mut out = Out::open();
    // Executors and gateways belong to no cluster beyond their own life.
    if node.kind()? == Kind::Judicator {
        let etcd = node.etcd()?;
        let replica = node.mongodb()?;
        let others = daemons::etcd::members_after_election(&node.access()?)
            .await
            .context("could not ask etcd who else is in the cluster")?
            .into_iter()
            .filter(|member| member.name != etcd.name)
            .count();
        if others == 0 {
            stop(node).await?;
            return out.line("this was the last node of its cluster: it is stopped, and remains a member");
        }
        // Both have to be able to spare it before either is told: half gone would be worse than there.
        daemons::mongodb::may_leave(&replica).await?;
        daemons::etcd::may_leave(&etcd).await?;
        // The replica set first, while this node's etcd can still tell the others. And etcd while it runs: of two
        // members both have to agree.
        daemons::mongodb::leave(&replica, PATIENCE)
            .await
            .context("could not leave the replica set")?;
        out.line("left the replica set")?;
        daemons::etcd::leave(&etcd)
            .await
            .context("could not leave etcd")?;
        out.line("left etcd")?;
    }
    stop(node).await?;
    out.line("stopped; its data folder stays as it is, and belongs to no cluster")
}

async fn stop(node: &LocalNode) -> Result<()> {
    match boot::stop(&node.run(), PATIENCE).await {
        // It may have been stopped before it was told to leave.
        Ok(()) | Err(boot::NodeError::NotRunning { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
