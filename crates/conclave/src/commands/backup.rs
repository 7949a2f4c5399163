//! `conclave backup`: makes a consistent copy of a single node's tasks and blobs while it runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use store::sqlite::BackupSummary;

use crate::args::LocalNodeFlags;
use crate::print::Stdout;

/// The arguments of `conclave backup`.
#[derive(clap::Args, Debug)]
pub(crate) struct BackupArgs {
    /// Folder for the copy, which must not exist yet; it can later be used as a data folder
    #[arg(value_name = "DIR")]
    target: PathBuf,
    #[command(flatten)]
    local: LocalNodeFlags,
}

pub(crate) fn run(args: BackupArgs) -> Result<ExitCode> {
    let store = args.local.node()?.store_folder();
    let target = std::path::absolute(&args.target)
        .with_context(|| format!("{} has no absolute path", args.target.display()))?;
    // The generated secret, if there is one: with another secret, executors could not reconnect after a restore.
    let secret = store.with_file_name("cluster-secret");
    let done = store::sqlite::backup(&store, &target, &[secret])?;
    let mut out = Stdout::open();
    out.line(format_args!("{}: {}", target.display(), describe_content(done)))?;
    if done.damaged > 0 {
        out.line(describe_damaged(done.damaged))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe_content(done: BackupSummary) -> String {
    format!(
        "{} in {}, {} in {}",
        counted(done.tasks, "task"),
        counted(done.database_bytes, "byte"),
        counted(done.blobs, "blob"),
        counted(done.blob_bytes, "byte"),
    )
}

fn describe_damaged(damaged: u64) -> String {
    let were = if damaged == 1 { "was" } else { "were" };
    format!(
        "{} {were} left out: upload a damaged blob again to repair it",
        counted(damaged, "damaged blob")
    )
}

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_use_singular_and_plural() {
        let done = BackupSummary {
            tasks: 1,
            blobs: 2,
            damaged: 1,
            database_bytes: 4096,
            blob_bytes: 30,
        };
        assert_eq!(
            describe_content(done),
            "1 task in 4096 bytes, 2 blobs in 30 bytes"
        );
        assert!(describe_damaged(1).starts_with("1 damaged blob was left out"));
        assert!(describe_damaged(2).starts_with("2 damaged blobs were left out"));
    }
}
