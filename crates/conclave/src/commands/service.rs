//! `conclave service`: one service of a node, as boot starts it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::cluster::{Role, services};
use crate::config::Layers;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which one
    #[arg(value_parser = Role::parse)]
    role: Role,
    /// The service's configuration, as boot has resolved it
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Whatever goes wrong, boot is told why.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let ran = Layers::resolved(&args.config).and_then(|layers| services::run(args.role, layers));
    if let Err(error) = &ran {
        boot::say_why(&format!("{error:#}"));
    }
    ran
}
