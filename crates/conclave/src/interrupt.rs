//! SIGINT, SIGTERM and SIGHUP for commands that have to clean up, or to print a summary, before they end.

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
use sandbox::RunHandle;

/// Receives SIGINT, SIGTERM and SIGHUP for a client command that cleans up, instead of letting them end it.
pub(crate) struct InterruptSignals {
    signals: SignalFd,
}

/// The thread of `conclave sandbox` that kills the running command when a signal arrives.
pub(crate) struct KillOnSignal {
    state: Arc<KillState>,
}

/// What `conclave sandbox` and its [`KillOnSignal`] thread tell each other: that a signal came, that all is cleaned up.
#[derive(Default)]
struct KillState {
    /// The exit code for the signal that arrived; 0 if none has.
    exit_code: AtomicU8,
    /// Whether the clean-up is complete.
    is_finished: AtomicBool,
}

impl InterruptSignals {
    /// From here on these signals no longer end the process. Signals ignored by the parent (e.g. `nohup`) stay ignored.
    pub(crate) fn listen() -> Result<InterruptSignals> {
        let handled = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
        let mask = SigSet::from_iter(handled.filter(|signal| !is_ignored(*signal)));
        mask.thread_block().context("could not block signals")?;
        let signals =
            SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC).context("could not listen for signals")?;
        Ok(InterruptSignals { signals })
    }

    /// Copies to the end of the input. Returns false if a signal arrives before.
    pub(crate) fn copy(&self, from: &mut (impl Read + AsFd), to: &mut impl Write) -> io::Result<bool> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let mut descriptors = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(from.as_fd(), PollFlags::POLLIN),
            ];
            poll(&mut descriptors, PollTimeout::NONE)?;
            if descriptors[0].any() == Some(true) {
                return Ok(false);
            }
            match from.read(&mut buffer)? {
                0 => return Ok(true),
                length => to.write_all(&buffer[..length])?,
            }
        }
    }

    /// Calls `cleanup` when a signal arrives, then ends the process.
    pub(crate) fn exit_after(self, mut cleanup: impl FnMut() + Send + 'static) {
        self.exit_unless(move || {
            cleanup();
            false
        });
    }

    /// Calls `is_complete` when a signal arrives. It stops the work, waits for its end, and returns true if the signal came too late to
    /// stop it. Otherwise the process ends.
    pub(crate) fn exit_unless(self, mut is_complete: impl FnMut() -> bool + Send + 'static) {
        // On a separate thread, because the main thread may be waiting for a server or for input.
        std::thread::spawn(move || {
            while let Ok(Some(signal)) = self.signals.read_signal() {
                if !is_complete() {
                    std::process::exit(exit_code_of(signal.ssi_signo).into());
                }
            }
        });
    }

    /// Kills the command when a signal arrives, and ends this process when another one arrives.
    pub(crate) fn kill(self, run_handle: RunHandle) -> KillOnSignal {
        let kill_on_signal = KillOnSignal {
            state: Arc::default(),
        };
        let state = Arc::clone(&kill_on_signal.state);
        // The thread runs until the process ends.
        std::thread::spawn(move || {
            // `timeout` signals both the process and its group, so a second signal within this time counts as the same one.
            const REPEAT_WINDOW: Duration = Duration::from_secs(1);
            let mut first = None;
            while let Ok(Some(signal)) = self.signals.read_signal() {
                let code = exit_code_of(signal.ssi_signo);
                let is_repeated = *first.get_or_insert_with(Instant::now) + REPEAT_WINDOW < Instant::now();
                if is_repeated || state.is_finished.load(Ordering::SeqCst) {
                    std::process::exit(code.into());
                }
                state.exit_code.store(code, Ordering::SeqCst);
                // An error means that the warden is gone, and the command with it.
                let _ = run_handle.kill();
            }
        });
        kill_on_signal
    }

    /// The exit code for a signal that has arrived.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.signals.read_signal() {
            Ok(Some(signal)) => exit_code_of(signal.ssi_signo).into(),
            _ => ExitCode::FAILURE,
        }
    }
}

impl KillOnSignal {
    /// The exit code for the signal that killed the command.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.state.exit_code.load(Ordering::SeqCst) {
            // Not expected: only a signal kills the command. It is still not a success.
            0 => ExitCode::FAILURE,
            code => code.into(),
        }
    }

    /// The clean-up is complete: from here on the first signal ends this process.
    pub(crate) fn finish(&self) {
        self.state.is_finished.store(true, Ordering::SeqCst);
    }
}

fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    ignored.is_some_and(|set| set & 1 << (signal as i32 - 1) != 0)
}

/// The exit code that a shell reports for a signal.
fn exit_code_of(signal: u32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
