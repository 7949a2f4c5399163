//! Signals that ask this process to end, once there is something to be cleaned up first.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sandbox::Ticket;

/// Wherever this process waits, it waits for these too.
pub(super) struct Interrupts {
    signals: SignalFd,
}

/// Of a process that has nothing left to wait for but its command.
pub(super) struct Killing {
    by: Arc<AtomicU8>,
}

impl Interrupts {
    /// From here on they no longer end the process by themselves.
    pub(super) fn listen() -> Result<Interrupts> {
        let mask = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        mask.thread_block().context("could not hold back signals")?;
        let signals =
            SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC).context("could not listen for signals")?;
        Ok(Interrupts { signals })
    }

    /// To the end of it. False if one came.
    pub(super) fn copy(&self, from: &mut (impl Read + AsFd), to: &mut impl Write) -> io::Result<bool> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut waiting = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(from.as_fd(), PollFlags::POLLIN),
            ];
            poll(&mut waiting, PollTimeout::NONE)?;
            if waiting[0].any() == Some(true) {
                return Ok(false);
            }
            match from.read(&mut buffer)? {
                0 => return Ok(true),
                length => to.write_all(&buffer[..length])?,
            }
        }
    }

    /// Ends the command when one comes, and this process at once when another does.
    pub(super) fn kill(self, ticket: Ticket) -> Killing {
        let by = Arc::new(AtomicU8::new(0));
        let killing = Killing { by: Arc::clone(&by) };
        // It goes with the process.
        std::thread::spawn(move || {
            while let Ok(Some(signal)) = self.signals.read_signal() {
                let code = code_of(signal.ssi_signo);
                if by.swap(code, Ordering::SeqCst) != 0 {
                    std::process::exit(code.into());
                }
                // If its warden is gone there is nobody left to be ended.
                let _ = ticket.kill();
            }
        });
        killing
    }

    /// To be asked when one has come.
    pub(super) fn code(&self) -> ExitCode {
        match self.signals.read_signal() {
            Ok(Some(signal)) => code_of(signal.ssi_signo).into(),
            _ => ExitCode::FAILURE,
        }
    }
}

impl Killing {
    pub(super) fn code(&self) -> ExitCode {
        match self.by.load(Ordering::SeqCst) {
            // Nobody else can have ended it, but that is no success either.
            0 => ExitCode::FAILURE,
            code => code.into(),
        }
    }
}

/// As a shell tells it.
fn code_of(signal: u32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
