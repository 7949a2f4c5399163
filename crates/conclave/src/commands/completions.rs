//! `conclave completions`: prints the completion script of a shell.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CommandLine;
use crate::print::Stdout;

/// The arguments of `conclave completions`.
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "conclave", &mut script);
    Stdout::open().bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
