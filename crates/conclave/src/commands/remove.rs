//! `conclave remove`: removes another node, which is lost, from the cluster permanently.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use daemons::etcd::EtcdMemberState;
use daemons::mongodb::{self, MongodbDaemonError};

use registry::etcd::EtcdAccess;

use crate::args::LocalNodeFlags;
use crate::print::Stdout;

/// How long this command waits for the replica set to remove the node. After that the primary does it later.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The arguments of `conclave remove`.
#[derive(clap::Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Name of the lost node, as `conclave judicators` shows it
    #[arg(value_name = "NODE")]
    name: String,
    #[command(flatten)]
    local: LocalNodeFlags,
}

pub(crate) async fn run(args: RemoveArgs) -> Result<ExitCode> {
    let node = args.local.node()?;
    let access = node.etcd_access()?;
    refuse_if_alive(&access, &args.name).await?;
    let mut out = Stdout::open();
    match mongodb::remove_member(&access, &args.name, REMOVAL_TIMEOUT).await {
        Ok(mongodb::ReplicaSetRemoval::Complete) => out.line(format_args!("{} is removed from the replica set", args.name))?,
        Ok(mongodb::ReplicaSetRemoval::Pending) => out.line(format_args!(
            "{} is not yet removed from the replica set: the primary removes it as soon as a majority of the other members is available",
            args.name
        ))?,
        // The node may never have joined the replica set, or was removed before. It may still be a member of etcd.
        Err(MongodbDaemonError::NoSuchMember { .. }) => {}
        Err(error) => {
            return Err(error).with_context(|| format!("could not remove {} from the replica set", args.name));
        }
    }
    daemons::etcd::remove_member(&access, &args.name)
        .await
        .with_context(|| format!("could not remove {} from etcd", args.name))?;
    out.line(format_args!("{} is removed from etcd", args.name))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses to remove a node of which any service is still alive: such a node has to leave by itself.
async fn refuse_if_alive(access: &EtcdAccess, name: &str) -> Result<()> {
    // This call comes first because it waits for an election: the lost node may have been etcd's leader.
    let members = daemons::etcd::list_members_after_election(access)
        .await
        .context("could not list the members of etcd")?;
    let registered = registry::etcd::list_judicators(access)
        .await
        .context("could not list the judicators in etcd")?;
    ensure!(
        !registered.iter().any(|judicator| judicator.name == name),
        "the judicator of {name} is alive, or was a few seconds ago; run `conclave leave` on that node, or wait until its lease expires"
    );
    match members
        .iter()
        .find(|member| member.name == name)
        .map(|member| member.state)
    {
        Some(EtcdMemberState::Leader | EtcdMemberState::Follower | EtcdMemberState::Learner) => {
            bail!("the etcd of {name} is alive; run `conclave leave` on that node")
        }
        Some(EtcdMemberState::Unreachable | EtcdMemberState::Unstarted) | None => Ok(()),
    }
}
