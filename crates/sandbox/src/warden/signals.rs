//! The warden's signals: it ignores those that would end it, and is woken when a child ends.
#![allow(unsafe_code)]

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::sys::time::TimeSpec;

/// The owner ends a warden by closing the connection. A signal to all processes of a service must not end the warden
/// before it has cleaned up.
pub(crate) const IGNORED: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE];

/// Why a warden could not set up its signal handling.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignalSetupError {
    #[error("cannot set the action of {signal}")]
    Action {
        signal: Signal,
        #[source]
        errno: Errno,
    },
    #[error("cannot block signals")]
    Block(#[source] Errno),
}

/// Sets the action of every signal. The end of a child is noticed only inside [`wait`]; everywhere else its signal
/// stays pending. SIGXFSZ stays pending everywhere: a write beyond the inherited limit of file sizes must fail like one
/// to a full disk.
pub(super) fn set_up() -> Result<(), SignalSetupError> {
    for signal in Signal::iterator() {
        let handler = match signal {
            Signal::SIGKILL | Signal::SIGSTOP => continue,
            // The handlers of the Rust runtime, which report a stack overflow, stay. exec resets handlers.
            Signal::SIGSEGV | Signal::SIGBUS => continue,
            Signal::SIGCHLD => SigHandler::Handler(on_child),
            signal if IGNORED.contains(&signal) => SigHandler::SigIgn,
            // Signals that the owner ignored were inherited as ignored, and commands would inherit that.
            _ => SigHandler::SigDfl,
        };
        let action = SigAction::new(handler, SaFlags::SA_NOCLDSTOP, SigSet::empty());
        // SAFETY: the only handler does nothing, which is safe at any moment.
        unsafe { sigaction(signal, &action) }.map_err(|errno| SignalSetupError::Action { signal, errno })?;
    }
    reset_real_time_signals();
    let blocked = SigSet::from(Signal::SIGCHLD) | Signal::SIGXFSZ;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None).map_err(SignalSetupError::Block)
}

/// Resets the real-time signals, and two that glibc reserves: `posix_spawn` leaves these two ignored in the process
/// that it starts, and `sigaction` refuses to change them. Commands should find default actions everywhere. An error
/// leaves them as they are.
fn reset_real_time_signals() {
    const UNNAMED: std::ops::RangeInclusive<libc::c_int> = 32..=64;
    /// The kernel's own layout: handler, flags, restorer, mask. All zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in UNNAMED {
        let unwanted = std::ptr::null_mut::<u64>();
        // SAFETY: the kernel reads four words and writes nothing, and this single-threaded process does not use these
        // signals.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &DEFAULT,
                unwanted,
                size_of::<u64>(),
            )
        };
    }
}

/// Exists only because an ignored signal would not interrupt [`wait`].
extern "C" fn on_child(_: libc::c_int) {}

/// Waits for descriptors, for the end of a child, or for a time, whichever comes first. SIGCHLD is unblocked only
/// here, atomically with the wait, so none is missed and no run needs a descriptor for it.
pub(super) fn wait(descriptors: &mut [PollFd<'_>], within: Option<Duration>) -> nix::Result<()> {
    match ppoll(
        descriptors,
        within.map(TimeSpec::from),
        Some(SigSet::from(Signal::SIGXFSZ)),
    ) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
