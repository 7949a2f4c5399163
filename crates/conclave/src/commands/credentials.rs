//! `conclave credentials`: writes a file with which MongoDB's tools connect to the replica set.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::args::LocalNodeFlags;
use crate::cluster::NodeKind;

/// The arguments of `conclave credentials`.
#[derive(clap::Args, Debug)]
pub(crate) struct CredentialsArgs {
    /// File to write, for `mongodump --config FILE` and similar tools; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    local: LocalNodeFlags,
}

pub(crate) async fn run(args: CredentialsArgs) -> Result<ExitCode> {
    let node = args.local.node()?;
    ensure!(
        node.node_kind()? == NodeKind::Judicator,
        "this node is not a judicator and has no access to the replica set; give the data folder of a judicator node with --data"
    );
    let options = node.mongodb_options()?;
    let members = daemons::mongodb::registered_members(&options.etcd)
        .await
        .context("could not look up the replica set in etcd")?;
    ensure!(!members.is_empty(), "no mongod is registered in etcd yet");
    let hosts: Vec<_> = members.into_iter().map(|member| member.address).collect();
    let login = match &options.secret {
        // Both consist of letters and digits, so nothing has to be escaped.
        Some(secret) => {
            let (user, password) = daemons::mongodb::login_from_secret(secret);
            format!("{user}:{password}@")
        }
        None => String::new(),
    };
    let uri = format!(
        "mongodb://{login}{}/?replicaSet={}&authSource=admin&readPreference=secondaryPreferred",
        hosts.join(","),
        options.set
    );
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&args.file)
        .with_context(|| format!("could not create the file {}", args.file.display()))?;
    writeln!(file, "uri: \"{uri}\"").with_context(|| format!("could not write {}", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}
