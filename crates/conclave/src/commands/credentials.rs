//! `conclave credentials`: a file with which MongoDB's own tools reach the replica set.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::args::LocalFlags;
use crate::cluster::Kind;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The file to write, for `mongodump --config FILE` and its sisters; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    local: LocalFlags,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let node = args.local.node()?;
    ensure!(
        node.kind()? == Kind::Judicator,
        "this is no judicator's node, and knows nothing of the replica set; name one with --data"
    );
    let options = node.mongodb()?;
    let members = daemons::mongodb::members(&options.etcd)
        .await
        .context("could not look up the replica set in etcd")?;
    ensure!(!members.is_empty(), "no mongod is registered in etcd yet");
    let hosts: Vec<_> = members.into_iter().map(|member| member.address).collect();
    let login = match &options.secret {
        // Both are letters and digits: nothing has to be escaped.
        Some(secret) => {
            let (user, password) = daemons::mongodb::login(secret);
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
        .with_context(|| format!("could not make the file {}", args.file.display()))?;
    writeln!(file, "uri: \"{uri}\"").with_context(|| format!("could not write {}", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}
