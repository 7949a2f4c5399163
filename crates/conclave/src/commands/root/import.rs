//! `conclave root import`: makes a root of an archive or an image.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use model::RootName;
use roots::{ImportOptions, UnpackLimits};

use super::{RootFlags, parse_root_name, parse_size, print_new_root, run_until_signal};

/// The arguments of `conclave root import`.
#[derive(clap::Args, Debug)]
pub(super) struct ImportRootArgs {
    /// A tar (plain, gzip, zstd or xz) of a root file system, an OCI image layout (folder or tar), or what `docker save` wrote
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// Name of the root [default: that of the file, without extensions]
    #[arg(long, value_name = "NAME", value_parser = parse_root_name)]
    name: Option<RootName>,
    /// Largest size of all files of the archive together, and of the archive when it is uncompressed [default: 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    #[command(flatten)]
    flags: RootFlags,
}

pub(super) fn run(args: ImportRootArgs) -> Result<ExitCode> {
    let store = args.flags.store()?;
    let name = match args.name {
        Some(name) => name,
        None => roots::name_for_archive(&args.source).with_context(|| {
            format!(
                "{} has no name that a root can have; give one with --name",
                args.source.display()
            )
        })?,
    };
    let new = run_until_signal(|interrupt| {
        let limits = UnpackLimits::default();
        let options = ImportOptions {
            name,
            source: args.source,
            limits: UnpackLimits {
                max_size: args.max_size.unwrap_or(limits.max_size),
                ..limits
            },
            interrupt: interrupt.clone(),
        };
        Ok(roots::import(&store, &options)?)
    })?;
    print_new_root(&new, &store, args.flags.output_format())?;
    Ok(ExitCode::SUCCESS)
}
