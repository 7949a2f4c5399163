//! One file for each command of the command line.

pub(crate) mod add;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod credentials;
pub(crate) mod drain;
pub(crate) mod executor;
pub(crate) mod executors;
pub(crate) mod export;
pub(crate) mod gateway;
pub(crate) mod get;
pub(crate) mod groups;
pub(crate) mod hold;
pub(crate) mod judge;
pub(crate) mod judicator;
pub(crate) mod judicators;
pub(crate) mod languages;
pub(crate) mod leave;
pub(crate) mod problem;
pub(crate) mod remove;
pub(crate) mod retry;
pub(crate) mod root;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod search;
pub(crate) mod service;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod up;
pub(crate) mod wait;
pub(crate) mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::args::CliCommand;

pub(crate) fn run(command: CliCommand) -> Result<ExitCode> {
    match command {
        CliCommand::Up(args) => up::run(args),
        CliCommand::Judicator(args) => judicator::run(args),
        CliCommand::Executor(args) => executor::run(args),
        CliCommand::Gateway(args) => gateway::run(args),
        CliCommand::Status(args) => block_on(status::run(args)),
        CliCommand::Hold(args) => hold::hold(args),
        CliCommand::Unhold(args) => hold::unhold(args),
        CliCommand::Stop(args) => block_on(stop::run(args)),
        CliCommand::Backup(args) => backup::run(args),
        CliCommand::Leave(args) => block_on(leave::run(args)),
        CliCommand::Remove(args) => block_on(remove::run(args)),
        CliCommand::Credentials(args) => block_on(credentials::run(args)),
        CliCommand::Service(args) => service::run(args),
        CliCommand::Run(args) => block_on(run::run(args)),
        CliCommand::Add(args) => block_on(add::run(args)),
        CliCommand::Get(args) => block_on(get::run(args)),
        CliCommand::Search(args) => block_on(search::run(args)),
        CliCommand::Cancel(args) => block_on(cancel::run(args)),
        CliCommand::Retry(args) => block_on(retry::run(args)),
        CliCommand::Watch(args) => block_on(watch::run(args)),
        CliCommand::Wait(args) => block_on(wait::run(args)),
        CliCommand::Groups(args) => block_on(groups::run(args)),
        CliCommand::Export(args) => block_on(export::run(args)),
        CliCommand::Judge(args) => block_on(judge::run(args)),
        CliCommand::Problem(args) => block_on(problem::run(args)),
        CliCommand::Executors(args) => block_on(executors::run(args)),
        CliCommand::Languages(args) => block_on(languages::run(args)),
        CliCommand::Drain(args) => block_on(drain::run(args)),
        CliCommand::Resume(args) => block_on(drain::run_resume(args)),
        CliCommand::Judicators(args) => block_on(judicators::run(args)),
        CliCommand::Stats(args) => block_on(stats::run(args)),
        CliCommand::Bench(args) => block_on(bench::run(args)),
        CliCommand::Root(args) => root::run(args),
        CliCommand::Sandbox(args) => sandbox::run(args),
        CliCommand::Config(args) => config::run(args),
        CliCommand::Completions(args) => completions::run(args),
    }
}

/// Runs a client command on one thread: it mostly waits for the network, and one thread starts faster than many.
fn block_on(command: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?
        .block_on(command)
}
