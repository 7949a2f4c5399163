//! `conclave leave`: removes this machine's node from its cluster permanently, and stops it.

use std::process::ExitCode;

use anyhow::{Context, Result};

use super::stop::STOP_TIMEOUT;
use crate::args::LocalNodeFlags;
use crate::cluster::{LocalNode, NodeKind};
use crate::print::Stdout;

/// The arguments of `conclave leave`.
#[derive(clap::Args, Debug)]
pub(crate) struct LeaveArgs {
    #[command(flatten)]
    local: LocalNodeFlags,
}

pub(crate) async fn run(args: LeaveArgs) -> Result<ExitCode> {
    leave(&args.local.node()?).await?;
    Ok(ExitCode::SUCCESS)
}

/// Every step is safe to repeat: after a failure, the same command continues where it stopped.
pub(super) async fn leave(node: &LocalNode) -> Result<()> {
    let mut out = Stdout::open();
    // Executors and gateways are not members of anything, so it is enough to stop them.
    if node.node_kind()? == NodeKind::Judicator {
        let etcd = node.etcd_options()?;
        let replica = node.mongodb_options()?;
        let others = daemons::etcd::list_members_after_election(&node.etcd_access()?)
            .await
            .context("could not list the members of etcd")?
            .into_iter()
            .filter(|member| member.name != etcd.name)
            .count();
        if others == 0 {
            stop(node).await?;
            return out.line("this is the last node of its cluster: it is stopped, and remains a member");
        }
        // Checks both before it leaves either: a node that has left only one of them is worse than one that has left none.
        daemons::mongodb::check_can_leave(&replica).await?;
        daemons::etcd::check_can_leave(&etcd).await?;
        // The replica set comes first, because that needs this node's etcd to inform the others. The etcd member leaves while
        // it runs, because in a cluster of two both members have to agree to the removal.
        daemons::mongodb::leave(&replica, STOP_TIMEOUT)
            .await
            .context("could not leave the replica set")?;
        out.line("left the replica set")?;
        daemons::etcd::leave(&etcd)
            .await
            .context("could not leave etcd")?;
        out.line("left etcd")?;
    }
    stop(node).await?;
    out.line("stopped; its data folder is unchanged, and no longer belongs to a cluster")
}

async fn stop(node: &LocalNode) -> Result<()> {
    match boot::stop(&node.run_folder(), STOP_TIMEOUT).await {
        // The node may have been stopped before this command.
        Ok(()) | Err(boot::NodeError::NotRunning { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
