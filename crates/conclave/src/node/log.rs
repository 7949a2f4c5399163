//! The log: to stderr, so that stdout is left to what was asked for.

mod lines;

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, anyhow};
use tracing_subscriber::EnvFilter;

use self::lines::Lines;
use crate::config::LogFilter;

pub(super) fn start(filter: &LogFilter) -> Result<()> {
    let filter = EnvFilter::try_new(&filter.0).context("node.log is no filter")?;
    let lines = Lines::to(io::stderr()).context("could not start a thread for the log")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone())
        .with_ansi(io::stderr().is_terminal())
        .try_init()
        .map_err(|wrong| anyhow!("could not start the log: {wrong}"))
}
