//! `conclave remove`: takes another node, which is lost, out of the cluster for good.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use daemons::etcd::MemberState;
use daemons::mongodb::{self, MongodbError};

use registry::etcd::Access;

use crate::args::LocalFlags;
use crate::print::Out;

/// How long the replica set may take to be rid of it before that is left to its primary.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The lost node's name, as `conclave judicators` shows it
    #[arg(value_name = "NODE")]
    name: String,
    #[command(flatten)]
    local: LocalFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let node = args.local.node()?;
    let access = node.access()?;
    refuse_if_alive(&access, &args.name).await?;
    let mut out = Out::open();
    match mongodb::remove(&access, &args.name, PATIENCE).await {
        Ok(mongodb::Departure::Done) => out.line(format_args!("{} left the replica set", args.name))?,
        Ok(mongodb::Departure::Pending) => out.line(format_args!(
            "{} is not out of the replica set yet: its primary takes it out as soon as a majority of the others is there",
            args.name
        ))?,
        // It may never have come so far, or have been removed before. Whether etcd knows it is the question then.
        Err(MongodbError::NoSuchNode { .. }) => {}
        Err(error) => {
            return Err(error).with_context(|| format!("could not take {} out of the replica set", args.name));
        }
    }
    daemons::etcd::remove(&access, &args.name)
        .await
        .with_context(|| format!("could not take {} out of etcd", args.name))?;
    out.line(format_args!("{} left etcd", args.name))?;
    Ok(ExitCode::SUCCESS)
}

/// Before anything is changed: a node of which any part is there has to leave by itself.
async fn refuse_if_alive(access: &Access, name: &str) -> Result<()> {
    // First, because it outlasts an election: the node that is lost may have been etcd's leader.
    let members = daemons::etcd::members_after_election(access)
        .await
        .context("could not ask etcd for its members")?;
    let registered = registry::etcd::roster(access)
        .await
        .context("could not ask etcd who is there")?;
    ensure!(
        !registered.iter().any(|judicator| judicator.name == name),
        "the judicator of {name} is there, or was a few seconds ago; use `conclave leave` on that node, or wait until it is gone"
    );
    match members
        .iter()
        .find(|member| member.name == name)
        .map(|member| member.state)
    {
        Some(MemberState::Leader | MemberState::Follower | MemberState::Learner) => {
            bail!("the etcd of {name} is there; use `conclave leave` on that node")
        }
        Some(MemberState::Unreachable | MemberState::Unstarted) | None => Ok(()),
    }
}
