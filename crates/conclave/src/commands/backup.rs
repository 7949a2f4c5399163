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
    let BackedUp {
        tasks,
        blobs,
        database_bytes,
        blob_bytes,
    } = store::sqlite::backup(&store, &target)?;
    Out::open().line(format_args!(
        "{}: {tasks} tasks in {database_bytes} bytes, {blobs} blobs in {blob_bytes} bytes",
        target.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
