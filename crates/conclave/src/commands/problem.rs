//! `conclave problem`: verifies problem packages, and keeps them on a server under a name.

mod expectation;
mod import;
mod list;
mod remove;
mod show;
mod time_limit;
mod verify;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use api::HumanDuration;
use clap::Subcommand;
use problems::ProblemPackage;

use crate::args::ClientFlags;
use crate::print::print_message;

/// The arguments of `conclave problem`.
#[derive(clap::Args, Debug)]
pub(crate) struct ProblemArgs {
    #[command(subcommand)]
    command: ProblemCommand,
}

/// A command of `conclave problem`, with its arguments.
#[derive(Debug, Subcommand)]
enum ProblemCommand {
    /// Run all submissions of a package, and say whether each gets the verdict that is expected of it
    Verify(verify::VerifyProblemArgs),
    /// Keep a package on the server under a name, so that tasks can be judged by it
    Import(import::ImportProblemArgs),
    /// List the problems of the server
    List(list::ListProblemsArgs),
    /// Show a problem: its limits, cases and check
    Show(show::ShowProblemArgs),
    /// Remove a problem from the server
    Remove(remove::RemoveProblemArgs),
}

impl ProblemArgs {
    pub(crate) fn client_flags(&mut self) -> &mut ClientFlags {
        match &mut self.command {
            ProblemCommand::Verify(args) => &mut args.client,
            ProblemCommand::Import(args) => &mut args.client,
            ProblemCommand::List(args) => &mut args.client,
            ProblemCommand::Show(args) => &mut args.client,
            ProblemCommand::Remove(args) => &mut args.client,
        }
    }

    /// Whether exit code 1 says something about the submissions, so that another one tells that conclave itself failed.
    pub(crate) fn is_verify(&self) -> bool {
        matches!(self.command, ProblemCommand::Verify(_))
    }
}

pub(crate) async fn run(args: ProblemArgs) -> Result<ExitCode> {
    match args.command {
        ProblemCommand::Verify(args) => verify::run(args).await,
        ProblemCommand::Import(args) => import::run(args).await,
        ProblemCommand::List(args) => list::run(args).await,
        ProblemCommand::Show(args) => show::run(args).await,
        ProblemCommand::Remove(args) => remove::run(args).await,
    }
}

/// Reads a package, and prints its warnings on stderr.
fn read_package(folder: &Path) -> Result<ProblemPackage> {
    let package = problems::read_package(folder)?;
    for warning in &package.warnings {
        print_message(format_args!("warning: {warning}"));
    }
    Ok(package)
}

fn case_count(count: usize) -> String {
    match count {
        1 => "1 case".to_string(),
        count => format!("{count} cases"),
    }
}

/// The parser of a time that must be more than none.
fn positive_time(text: &str) -> Result<HumanDuration, String> {
    match text.parse()? {
        HumanDuration(Duration::ZERO) => Err("must be more than zero".to_string()),
        time => Ok(time),
    }
}
