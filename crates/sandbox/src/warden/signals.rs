//! The warden's signals: deaf to those meant to end it, woken by those of its children.
#![allow(unsafe_code)]

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::sys::time::TimeSpec;

/// The owner decides when a warden ends, by hanging up. A signal sent to every process of a service must not
/// end it before it has cleaned up.
pub(crate) const IGNORED: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE];

#[derive(Debug, thiserror::Error)]
pub(super) enum SignalError {
    #[error("cannot set what {signal} does")]
    Action {
        signal: Signal,
        #[source]
        errno: Errno,
    },
    #[error("cannot block SIGCHLD")]
    Block(#[source] Errno),
}

/// A child's end is only ever noticed inside [`wait`]; everywhere else it stays pending.
pub(super) fn take_over() -> Result<(), SignalError> {
    for signal in Signal::iterator() {
        let handler = match signal {
            Signal::SIGKILL | Signal::SIGSTOP => continue,
            // The runtime's handlers, which explain a stack overflow. A handler does not survive exec.
            Signal::SIGSEGV | Signal::SIGBUS => continue,
            Signal::SIGCHLD => SigHandler::Handler(on_child),
            signal if IGNORED.contains(&signal) => SigHandler::SigIgn,
            // What the owner ignored we inherited, and commands would in turn.
            _ => SigHandler::SigDfl,
        };
        let action = SigAction::new(handler, SaFlags::SA_NOCLDSTOP, SigSet::empty());
        // SAFETY: the only handler does nothing, which is safe at any moment.
        unsafe { sigaction(signal, &action) }.map_err(|errno| SignalError::Action { signal, errno })?;
    }
    restore_unnamed();
    let blocked = SigSet::from(Signal::SIGCHLD);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None).map_err(SignalError::Block)
}

/// The real-time signals, and two that glibc keeps to itself: `posix_spawn` leaves those ignored in what it starts,
/// and `sigaction` does not touch them. Commands should find them as any other. An error would leave things as they
/// are elsewhere.
fn restore_unnamed() {
    const UNNAMED: std::ops::RangeInclusive<libc::c_int> = 32..=64;
    /// The kernel's own layout: handler, flags, restorer, mask; all zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    for signal in UNNAMED {
        let unwanted = std::ptr::null_mut::<u64>();
        // SAFETY: reads four words, writes nothing, and nobody in this process of one thread uses the signals.
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

/// Waits for descriptors, for the end of a child, and for a time, whichever comes first. The child's signal is
/// let in only here, atomically with the wait, so none is missed and none needs a descriptor for each run.
pub(super) fn wait(descriptors: &mut [PollFd<'_>], within: Option<Duration>) -> nix::Result<()> {
    match ppoll(descriptors, within.map(TimeSpec::from), Some(SigSet::empty())) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
