//! `conclave remove`: takes another node, which is lost, out of the cluster for good.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use daemons::mongodb::{self, MongodbError};

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
    let access = node.access(node.kind()?)?;
    let mut out = Out::open();
    match mongodb::remove(&access, &args.name, PATIENCE).await {
        Ok(mongodb::Departure::Done) => out.line(format_args!("{} left the replica set", args.name))?,
        Ok(mongodb::Departure::Pending) => out.line(format_args!(
            "{} leaves the replica set as soon as it has a primary",
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
