//! What every node command needs: its folder, its addresses, its log, its signals, and its parts in order.

mod folder;
mod listen;
mod log;
mod options;
mod parts;
mod secrets;
mod serving;
mod signals;

pub(crate) use folder::Folder;
pub(crate) use listen::{Listening, bind};
pub(crate) use options::{executor_options, gateway_options, judicator_options, open_store};
pub(crate) use parts::{Part, Parts};
pub(crate) use secrets::Secrets;
pub(crate) use serving::Serving;

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::config::Config;

/// Runs a node until it is told to stop, or a part of it fails.
pub(crate) fn run<F>(config: Config, serve: impl FnOnce(Config) -> F) -> Result<ExitCode>
where
    F: Future<Output = Result<()>>,
{
    log::start(&config.node.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the runtime's threads")?;
    runtime.block_on(serve(config))?;
    Ok(ExitCode::SUCCESS)
}
