//! SIGINT and SIGTERM. The exit of boot counts as a signal too. The first signal stops the node in order, a second one at once.

use anyhow::{Context, Result};
use boot::BootConnection;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Installs a handler for SIGHUP, so that it does not end the process. Called first, because the component that reloads files at
/// SIGHUP starts much later.
///
/// Tokio leaves its handler installed when the runtime is dropped. A handler, unlike an ignored or blocked signal, is not
/// inherited by the programs that this process starts.
pub(crate) fn catch_hangups() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("could not listen for SIGHUP")?;
    let _guard = runtime.enter();
    drop(signal(SignalKind::hangup()).context("could not listen for SIGHUP")?);
    Ok(())
}

/// Receives the signals that stop a node: SIGINT, SIGTERM and the exit of boot.
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    boot_connection: BootConnection,
    /// The exit of boot is reported only once.
    boot_gone: bool,
}

impl StopSignals {
    /// From here on these signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<StopSignals> {
        StopSignals::listen_with(BootConnection::none())
    }

    pub(crate) fn listen_with(boot_connection: BootConnection) -> Result<StopSignals> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(StopSignals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            boot_connection,
            boot_gone: false,
        })
    }

    /// The name and the number of the next signal.
    pub(crate) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", 2),
            _ = self.terminate.recv() => ("SIGTERM", 15),
            () = self.boot_connection.wait_for_boot_exit(), if !self.boot_gone => {
                self.boot_gone = true;
                ("exit of boot", 15)
            }
        }
    }
}
