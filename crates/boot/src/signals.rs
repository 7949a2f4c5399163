//! The signals that boot handles: SIGINT and SIGTERM for a shutdown, SIGHUP to reload.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signal handlers of boot, for SIGINT, SIGTERM and SIGHUP.
pub(crate) struct BootSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// A signal that boot has received: a request to shut down, or SIGHUP, which it forwards to services.
pub(crate) enum BootSignal {
    /// SIGINT or SIGTERM, with its number.
    Shutdown(i32),
    HangUp,
}

impl BootSignals {
    /// Installs the handlers. From now on these signals no longer terminate the process.
    pub(crate) fn listen() -> io::Result<BootSignals> {
        Ok(BootSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> BootSignal {
        tokio::select! {
            _ = self.interrupt.recv() => BootSignal::Shutdown(SignalKind::interrupt().as_raw_value()),
            _ = self.terminate.recv() => BootSignal::Shutdown(SignalKind::terminate().as_raw_value()),
            _ = self.hangup.recv() => BootSignal::HangUp,
        }
    }

    /// The number of the next SIGINT or SIGTERM.
    pub(crate) async fn next_shutdown(&mut self) -> i32 {
        loop {
            if let BootSignal::Shutdown(number) = self.next().await {
                return number;
            }
        }
    }
}
