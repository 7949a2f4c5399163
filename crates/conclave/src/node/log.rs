//! The log, which goes to stderr.

mod writer;

use std::io::{self, IsTerminal};

use anyhow::{Context, Result, anyhow};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use self::writer::LogWriter;
use crate::config::{LogFormat, LogSetting};

/// Changes the log level of a node while it runs.
pub(crate) struct LogLevelHandle(reload::Handle<EnvFilter, Registry>);

pub(super) fn start(log: &LogSetting) -> Result<LogLevelHandle> {
    let (filter, level) = reload::Layer::new(filter(log)?);
    let registry = tracing_subscriber::registry().with(filter);
    let writer = LogWriter::start(io::stderr(), log.format)
        .context("could not start the thread that writes the log")?;
    let layer = fmt::layer().with_writer(move || writer.clone());
    match log.format {
        LogFormat::Text => {
            let layer = layer.with_ansi(io::stderr().is_terminal());
            registry.with(layer).try_init()
        }
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    }
    .map_err(|error| anyhow!("could not start the log: {error}"))?;
    Ok(LogLevelHandle(level))
}

impl LogLevelHandle {
    pub(crate) fn set(&self, log: &LogSetting) -> Result<()> {
        self.0
            .reload(filter(log)?)
            .context("could not change the log level")
    }
}

fn filter(log: &LogSetting) -> Result<EnvFilter> {
    EnvFilter::try_new(&log.filter).context("node.log is not a valid log filter")
}
