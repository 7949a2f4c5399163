//! What the child does between clone and exec.
//!
//! It runs in the warden's memory, on a stack of its own, while the warden stands still. So it may only make
//! system calls: no allocation, no panic, no lock. All that it needs was prepared in [`Orders`].
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use libc::{c_char, c_int, c_uint, c_void};
use serde::{Deserialize, Serialize};

use super::signals::IGNORED;

/// Pointers into what the caller of `clone` keeps alive until it returns.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) program: *const c_char,
    /// Both end with a null pointer.
    pub(super) argv: *const *const c_char,
    pub(super) envp: *const *const c_char,
    pub(super) directory: *const c_char,
    /// Input, output, errors; all beyond the standard descriptors.
    pub(super) streams: [RawFd; 3],
    pub(super) rlimits: Rlimits,
    pub(super) warden: libc::pid_t,
    /// Where the child says what stopped it.
    pub(super) failed: Option<(Step, c_int)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    DeathSignal,
    Streams,
    ChangeDirectory,
    NoNewPrivileges,
    Rlimit,
    Execute,
}

/// Soft and hard value of each resource that is to be limited.
pub(super) type Rlimits = [Option<Rlimit>; 5];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rlimit {
    pub(crate) resource: c_uint,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// No core files, and no helper of the host that a crash would start: for one the kernel takes 1 for nothing, and 0 for
/// as much as the helper likes.
pub(crate) const NO_CORE: Rlimit = Rlimit {
    resource: libc::RLIMIT_CORE,
    soft: 1,
    hard: 1,
};

/// The child's main function, for `clone`. Comes back only if it failed, with the exit code.
pub(super) extern "C" fn main(orders: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes its own `Orders` and does not touch them until this child has exec'd or ended.
    let orders = unsafe { &mut *orders.cast::<Orders>() };
    // SAFETY: the pointers in the orders are valid, as their description says.
    let step = unsafe { follow(orders) };
    // SAFETY: errno is always there; it is the warden's, which expects it to change.
    orders.failed = Some((step, unsafe { *libc::__errno_location() }));
    127
}

/// Top-down, in the order in which the child leaves the warden behind. Returns the step that failed.
///
/// # Safety
/// Must be called in a child that shares the warden's memory or has its own copy, with valid `orders`.
unsafe fn follow(orders: &Orders) -> Step {
    // SAFETY: system calls on values and on the pointers that the caller vouches for; each is
    // async-signal-safe and does not allocate.
    unsafe {
        // Before the mask is lifted, or a signal could run a handler in the warden's memory.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        for signal in IGNORED {
            libc::signal(signal as c_int, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        // A session of its own: what the command does to its process group does not reach the warden.
        libc::setsid();

        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Step::DeathSignal;
        }
        // The warden may have died just before; then nobody would ever send that signal.
        if libc::getppid() != orders.warden {
            libc::_exit(127);
        }
        for (standard, stream) in orders.streams.into_iter().enumerate() {
            if libc::dup2(stream, standard as c_int) < 0 {
                return Step::Streams;
            }
        }
        // All others are closed by exec as well; this is for one that might be forgotten some day.
        libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, 0 as c_uint);
        if libc::chdir(orders.directory) != 0 {
            return Step::ChangeDirectory;
        }
        // A descendant that became somebody else through a set-uid program could no longer be killed.
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Step::NoNewPrivileges;
        }
        for limit in orders.rlimits.iter().flatten() {
            if !set(limit) {
                return Step::Rlimit;
            }
        }
        libc::execve(orders.program, orders.argv, orders.envp);
        Step::Execute
    }
}

/// A limit above what this user may ask for is no reason to refuse: the lower one is in force already.
///
/// # Safety
/// As for [`follow`].
unsafe fn set(limit: &Rlimit) -> bool {
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
