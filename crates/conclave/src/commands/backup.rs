//! `conclave backup`: a consistent copy of a single node's tasks and blobs, while it runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use store::sqlite::BackedUp;

use crate::args::LocalFlags;
use crate::print::Out;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder for the copy, which must not exist yet; it can be used as a data folder
    #[arg(value_name = "DIR")]
    target: PathBuf,
    #[command(flatten)]
    local: LocalFlags,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let store = args.local.node()?.store();
    let target = std::path::absolute(&args.target)
        .with_context(|| format!("{} has no absolute path", args.target.display()))?;
    // The secret that the node made for its executors, if it made one: with another, they could not come back.
    let secret = store.with_file_name("cluster-secret");
    let done = store::sqlite::backup(&store, &target, &[secret])?;
    let mut out = Out::open();
    out.line(format_args!("{}: {}", target.display(), content(done)))?;
    if done.damaged > 0 {
        out.line(left_out(done.damaged))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn content(done: BackedUp) -> String {
    format!(
        "{} in {}, {} in {}",
        counted(done.tasks, "task"),
        counted(done.database_bytes, "byte"),
        counted(done.blobs, "blob"),
        counted(done.blob_bytes, "byte"),
    )
}

fn left_out(damaged: u64) -> String {
    let were = if damaged == 1 { "was" } else { "were" };
    format!(
        "{} {were} left out: put a damaged blob again to repair it",
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
    fn one_is_not_a_plural() {
        let done = BackedUp {
            tasks: 1,
            blobs: 2,
            damaged: 1,
            database_bytes: 4096,
            blob_bytes: 30,
        };
        assert_eq!(content(done), "1 task in 4096 bytes, 2 blobs in 30 bytes");
        assert!(left_out(1).starts_with("1 damaged blob was left out"));
        assert!(left_out(2).starts_with("2 damaged blobs were left out"));
    }
}
