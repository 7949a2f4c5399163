//! What the child does between clone and exec.
//!
//! It runs in the warden's memory, on its own stack, while the warden is suspended. So it may only make system calls:
//! no allocation, no panic, no lock. Everything that it needs is prepared in [`ChildContext`].
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use libc::{c_char, c_int, c_uint, c_void};
use serde::{Deserialize, Serialize};

use super::signals::IGNORED;

/// What the first process of a command without a cell needs between clone and exec. The pointers are valid until the
/// call of `clone` returns.
#[derive(Debug)]
pub(super) struct ChildContext {
    pub(super) program: *const c_char,
    /// Both lists end with a null pointer.
    pub(super) argv: *const *const c_char,
    pub(super) envp: *const *const c_char,
    pub(super) directory: *const c_char,
    /// Standard input, output and error; all above the standard descriptors.
    pub(super) streams: [RawFd; 3],
    pub(super) rlimits: Rlimits,
    pub(super) warden: libc::pid_t,
    /// Set by the child if a step fails.
    pub(super) failed: Option<(ChildStep, c_int)>,
}

/// A step that can fail in the first process of a command without a cell, between clone and exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildStep {
    DeathSignal,
    Streams,
    ChangeDirectory,
    NoNewPrivileges,
    Rlimit,
    Execute,
}

/// The resource limits that the first process of a command without a cell sets before exec.
pub(super) type Rlimits = [Option<Rlimit>; 5];

/// The soft and hard limit of one resource, which a command's first process sets with `setrlimit` before exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rlimit {
    pub(crate) resource: c_uint,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// No core files, and no core dump helper of the host. For a helper the kernel treats 1 as "none", and 0 as "no
/// limit".
pub(crate) const NO_CORE_DUMPS: Rlimit = Rlimit {
    resource: libc::RLIMIT_CORE,
    soft: 1,
    hard: 1,
};

/// The child's main function, for `clone`. Returns the exit code, and only if a step failed.
pub(super) extern "C" fn main(context: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its own `ChildContext` and does not touch it until this child has executed a program or
    // ended.
    let context = unsafe { &mut *context.cast::<ChildContext>() };
    // SAFETY: the pointers in the context are valid, as its documentation says.
    let step = unsafe { prepare_and_execute(context) };
    // SAFETY: errno always exists; it is the warden's, which expects it to change.
    context.failed = Some((step, unsafe { *libc::__errno_location() }));
    127
}

/// Does the steps in order and executes the program. Returns the step that failed.
///
/// # Safety
///
/// Must be called in a child that shares the warden's memory or has its own copy, with a valid `context`.
unsafe fn prepare_and_execute(context: &ChildContext) -> ChildStep {
    // SAFETY: these are system calls on values and on pointers that the caller guarantees; each is async-signal-safe
    // and does not allocate.
    unsafe {
        // This must happen before signals are unblocked: otherwise a signal could run a handler in the warden's
        // memory.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        for signal in IGNORED {
            libc::signal(signal as c_int, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        // A new session, so that signals to the command's process group do not reach the warden.
        libc::setsid();

        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return ChildStep::DeathSignal;
        }
        // The warden may have ended before the call above; then the signal would never be sent.
        if libc::getppid() != context.warden {
            libc::_exit(127);
        }
        for (standard, stream) in context.streams.into_iter().enumerate() {
            if libc::dup2(stream, standard as c_int) < 0 {
                return ChildStep::Streams;
            }
        }
        // exec closes the others as well; this also covers a descriptor without the close-on-exec flag.
        libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, 0 as c_uint);
        if libc::chdir(context.directory) != 0 {
            return ChildStep::ChangeDirectory;
        }
        // A descendant that changed its user through a set-uid program could no longer be killed.
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return ChildStep::NoNewPrivileges;
        }
        for limit in context.rlimits.iter().flatten() {
            if !set_rlimit(limit) {
                return ChildStep::Rlimit;
            }
        }
        libc::execve(context.program, context.argv, context.envp);
        ChildStep::Execute
    }
}

/// Sets a resource limit. A value above the current hard limit is not an error: the lower limit stays.
///
/// # Safety
///
/// The same as for [`prepare_and_execute`].
unsafe fn set_rlimit(limit: &Rlimit) -> bool {
    let wanted = libc::rlimit {
        rlim_cur: limit.soft,
        rlim_max: limit.hard,
    };
    let mut current = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both are valid limits on this stack.
    unsafe {
        if libc::setrlimit(limit.resource as _, &wanted) == 0 {
            return true;
        }
        if libc::getrlimit(limit.resource as _, &mut current) != 0 {
            return false;
        }
        current.rlim_cur = limit.soft.min(current.rlim_max);
        current.rlim_max = limit.hard.min(current.rlim_max);
        libc::setrlimit(limit.resource as _, &current) == 0
    }
}
