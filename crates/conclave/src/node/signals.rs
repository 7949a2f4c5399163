//! The first SIGINT or SIGTERM stops in order, the second at once. The end of boot counts as a signal.

use anyhow::{Context, Result};
use boot::Tether;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here on SIGHUP does not end the process. To be called first: what reads files again at SIGHUP starts much later.
///
/// The runtime leaves its handler in place when it is dropped. Programs that this process starts are not affected, as they
/// would be if the signal were ignored or blocked.
pub(crate) fn survive_hangups() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("could not listen for SIGHUP")?;
    let _inside = runtime.enter();
    drop(signal(SignalKind::hangup()).context("could not listen for SIGHUP")?);
    Ok(())
}

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    tether: Tether,
    /// It is heard of once: a gone boot stays gone.
    boot_gone: bool,
}

impl Signals {
    /// From here on signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Signals> {
        Signals::listen_with(Tether::none())
    }

    pub(crate) fn listen_with(tether: Tether) -> Result<Signals> {
        let listen = |kind| signal(kind).context("could not listen for signals");
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            tether,
            boot_gone: false,
        })
    }

    /// Its name and its number.
    pub(crate) async fn next(&mut self) -> (&'static str, i32) {
        tokio::select! {
            _ = self.interrupt.recv() => ("SIGINT", 2),
            _ = self.terminate.recv() => ("SIGTERM", 15),
            () = self.tether.boot_gone(), if !self.boot_gone => {
                self.boot_gone = true;
                ("the end of boot", 15)
            }
        }
    }
}
