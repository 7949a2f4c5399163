//! The log: to stderr, so that stdout is left to what was asked for.

mod lines;

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, anyhow};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use self::lines::Lines;
use crate::config::{Log, LogFormat};

/// Changes what is logged while the process runs.
pub(crate) struct LogLevel(reload::Handle<EnvFilter, Registry>);

pub(super) fn start(log: &Log) -> Result<LogLevel> {
    let (filter, level) = reload::Layer::new(filter(log)?);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = Lines::to(io::stderr(), log.format).context("could not start a thread for the log")?;
    let layer = fmt::layer().with_writer(move || lines.clone());
    match log.format {
        LogFormat::Text => {
            let layer = layer.with_ansi(io::stderr().is_terminal());
            registry.with(layer).try_init()
        }
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    }
    .map_err(|wrong| anyhow!("could not start the log: {wrong}"))?;
    Ok(LogLevel(level))
}

impl LogLevel {
    pub(crate) fn set(&self, log: &Log) -> Result<()> {
        self.0
            .reload(filter(log)?)
            .context("could not change the log level")
    }
}

fn filter(log: &Log) -> Result<EnvFilter> {
    EnvFilter::try_new(&log.filter).context("node.log is no filter")
}
