//! Signals that ask this process to end, once there is something to be cleaned up first.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sandbox::Ticket;

/// Heard of while the input comes in.
pub(in crate::commands) struct Interrupts {
    signals: SignalFd,
}

/// Heard of by a thread of their own, from the start of the command to the end of the process.
pub(super) struct Killing {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The exit code that the first one asks for.
    code: AtomicU8,
    /// Nothing is left to be cleaned up.
    is_over: AtomicBool,
}

impl Interrupts {
    /// From here on they no longer end the process by themselves. Those that whoever started it had it ignore, as
    /// `nohup` does, go on being ignored.
    pub(in crate::commands) fn listen() -> Result<Interrupts> {
        let heard = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
        let mask = SigSet::from_iter(heard.filter(|signal| !is_ignored(*signal)));
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

    /// When one comes, does this last thing and ends the process.
    pub(in crate::commands) fn exit_after(self, last: impl FnOnce() + Send + 'static) {
        // A thread of its own: the others may be waiting for a server or for input.
        std::thread::spawn(move || {
            if let Ok(Some(signal)) = self.signals.read_signal() {
                last();
                std::process::exit(code_of(signal.ssi_signo).into());
            }
        });
    }

    /// Ends the command when one comes, and this process when another does.
    pub(super) fn kill(self, ticket: Ticket) -> Killing {
        let killing = Killing {
            shared: Arc::default(),
        };
        let shared = Arc::clone(&killing.shared);
        // It goes with the process.
        std::thread::spawn(move || {
            // Whoever signals a process and its whole group, as `timeout` does, means it once.
            const ONE_AND_THE_SAME: Duration = Duration::from_secs(1);
            let mut first = None;
            while let Ok(Some(signal)) = self.signals.read_signal() {
                let code = code_of(signal.ssi_signo);
                let is_repeated = *first.get_or_insert_with(Instant::now) + ONE_AND_THE_SAME < Instant::now();
                if is_repeated || shared.is_over.load(Ordering::SeqCst) {
                    std::process::exit(code.into());
                }
                shared.code.store(code, Ordering::SeqCst);
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
        match self.shared.code.load(Ordering::SeqCst) {
            // Nobody else can have ended it, but that is no success either.
            0 => ExitCode::FAILURE,
            code => code.into(),
        }
    }

    /// From here on the first one that comes ends this process.
    pub(super) fn is_over(&self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
    }
}

fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    ignored.is_some_and(|set| set & 1 << (signal as i32 - 1) != 0)
}

/// As a shell tells it.
fn code_of(signal: u32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
