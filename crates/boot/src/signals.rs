//! The first SIGINT or SIGTERM stops in order, the second at once. SIGHUP is passed on.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

pub(crate) enum Signalled {
    /// With its number.
    Stop(i32),
    HangUp,
}

impl Signals {
    /// From here on signals no longer end the process by themselves.
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.interrupt.recv() => Signalled::Stop(SignalKind::interrupt().as_raw_value()),
            _ = self.terminate.recv() => Signalled::Stop(SignalKind::terminate().as_raw_value()),
            _ = self.hangup.recv() => Signalled::HangUp,
        }
    }

    /// The number of the next signal that stops.
    pub(crate) async fn next_stop(&mut self) -> i32 {
        loop {
            if let Signalled::Stop(number) = self.next().await {
                return number;
            }
        }
    }
}
