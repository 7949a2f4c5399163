//! `conclave completions`: what a shell needs to complete our arguments.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::print::Out;

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "conclave", &mut script);
    Out::open().bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
