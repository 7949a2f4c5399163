//! One file for each verb.

pub(crate) mod add;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod credentials;
pub(crate) mod executor;
pub(crate) mod executors;
pub(crate) mod gateway;
pub(crate) mod get;
pub(crate) mod hold;
pub(crate) mod judicator;
pub(crate) mod judicators;
pub(crate) mod leave;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod search;
pub(crate) mod service;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod unhold;
pub(crate) mod up;
pub(crate) mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::args::Verb;

pub(crate) fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Up(args) => up::run(args),
        Verb::Judicator(args) => judicator::run(args),
        Verb::Executor(args) => executor::run(args),
        Verb::Gateway(args) => gateway::run(args),
        Verb::Status(args) => client(status::run(args)),
        Verb::Hold(args) => hold::run(args),
        Verb::Unhold(args) => unhold::run(args),
        Verb::Stop(args) => client(stop::run(args)),
        Verb::Backup(args) => backup::run(args),
        Verb::Leave(args) => client(leave::run(args)),
        Verb::Remove(args) => client(remove::run(args)),
        Verb::Credentials(args) => client(credentials::run(args)),
        Verb::Service(args) => service::run(args),
        Verb::Run(args) => client(run::run(args)),
        Verb::Add(args) => client(add::run(args)),
        Verb::Get(args) => client(get::run(args)),
        Verb::Search(args) => client(search::run(args)),
        Verb::Cancel(args) => client(cancel::run(args)),
        Verb::Watch(args) => client(watch::run(args)),
        Verb::Executors(args) => client(executors::run(args)),
        Verb::Judicators(args) => client(judicators::run(args)),
        Verb::Stats(args) => client(stats::run(args)),
        Verb::Bench(args) => client(bench::run(args)),
        Verb::Sandbox(args) => sandbox::run(args),
        Verb::Config(args) => config::run(args),
        Verb::Completions(args) => completions::run(args),
    }
}

/// A client waits more than it works: one thread is enough, and quicker to start.
fn client(command: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?
        .block_on(command)
}
