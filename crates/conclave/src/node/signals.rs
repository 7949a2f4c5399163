//! The first SIGINT or SIGTERM stops in order, the second at once.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Signals> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Its name and its number.
    pub(crate) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", 2),
            _ = self.terminate.recv() => ("SIGTERM", 15),
        }
    }
}
