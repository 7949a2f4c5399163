//! Start the command's first process.
//!
//! By a clone that shares memory and holds the parent until the child has exec'd, as `posix_spawn` does:
//! nothing is copied, and a failure to exec is simply written down where the parent reads it.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libc::c_void;

use super::child::{self, NO_CORE, Orders, Rlimit, Rlimits, Step};
use super::texts::{Texts, c_string};
use crate::fault::{Errno, Fault};
use crate::spec::Limits;

/// Everything about a process that is to start.
pub(super) struct Plan<'a> {
    pub(super) program: PathBuf,
    pub(super) argv: &'a [OsString],
    pub(super) env: &'a [(OsString, OsString)],
    pub(super) directory: &'a Path,
    pub(super) streams: [BorrowedFd<'a>; 3],
    pub(super) limits: &'a Limits,
}

/// In either case there may be a child to reap.
pub(super) enum NotStarted {
    /// The command's own doing.
    Refused(Errno),
    Fault(Fault),
}

/// Owns the stack that children run on until they exec; made once, used for every run.
pub(super) struct Spawner {
    stack: Vec<u128>,
    warden: libc::pid_t,
}

impl Spawner {
    pub(super) fn new() -> Self {
        // `execve` and the rest need a few hundred bytes; this is what glibc allots for the same work.
        const STACK: usize = 32 << 10;
        Self {
            stack: vec![0; STACK / size_of::<u128>()],
            warden: std::process::id() as libc::pid_t,
        }
    }

    /// Returns the process id of a child that has exec'd.
    pub(super) fn spawn(&mut self, plan: &Plan<'_>) -> Result<i32, NotStarted> {
        let program = c_string(plan.program.as_os_str());
        let (argv, envp) = (Texts::of_words(plan.argv), Texts::of_environment(plan.env));
        let directory = c_string(plan.directory.as_os_str());
        let mut orders = Orders {
            program: program.as_ptr(),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            directory: directory.as_ptr(),
            streams: plan.streams.map(|stream| stream.as_raw_fd()),
            rlimits: rlimits(plan.limits),
            warden: self.warden,
            failed: None,
        };
        // Somebody's child may for a moment hold the freshly written program open for writing, between its
        // own fork and exec. That passes by itself and is no fault of the command.
        const BUSY_TRIES: u32 = 500;
        const BUSY_PAUSE: Duration = Duration::from_millis(2);
        for _ in 0..BUSY_TRIES {
            let pid = self
                .clone(&mut orders)
                .map_err(|errno| NotStarted::Fault(Fault::Clone(errno)))?;
            match orders.failed.take() {
                None => return Ok(pid),
                Some((Step::Execute, libc::ETXTBSY)) => std::thread::sleep(BUSY_PAUSE),
                Some((step, errno)) => return Err(on_failed(step, Errno(errno), plan)),
            }
        }
        Err(NotStarted::Refused(Errno(libc::ETXTBSY)))
    }

    fn clone(&mut self, orders: &mut Orders) -> Result<i32, Errno> {
        const FLAGS: i32 = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // Stacks grow down: the child starts at the end of its own, which is aligned as its elements are.
        let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
        let orders: *mut Orders = orders;
        // SAFETY: CLONE_VFORK holds this thread until the child has left our memory, so the stack and the
        // orders outlive its use of them. This process has one thread, and its only signal handler does
        // nothing, so nothing else runs meanwhile.
        let pid = unsafe { libc::clone(child::main, top, FLAGS, orders.cast()) };
        if pid < 0 { Err(Errno::last()) } else { Ok(pid) }
    }
}

fn on_failed(step: Step, errno: Errno, plan: &Plan<'_>) -> NotStarted {
    NotStarted::Fault(match step {
        Step::DeathSignal => Fault::DeathSignal(errno),
        Step::Streams => Fault::Streams(errno),
        Step::ChangeDirectory => Fault::ChangeDirectory {
            path: plan.directory.into(),
            errno,
        },
        Step::NoNewPrivileges => Fault::NoNewPrivileges(errno),
        Step::Rlimit => Fault::Rlimit(errno),
        Step::Execute if errno.is_shortage() => Fault::Execute(errno),
        // Not found, no permission, no program, too many arguments: whatever it is, the command asked for it.
        Step::Execute => return NotStarted::Refused(errno),
    })
}

/// What the kernel itself can enforce for one process. Not the address space, which has little to do with
/// memory used; not the number of processes, which it counts for a user and not for a command.
pub(super) fn rlimits(limits: &Limits) -> Rlimits {
    let same = |resource, value| Rlimit {
        resource,
        soft: value,
        hard: value,
    };
    [
        Some(NO_CORE),
        // A backstop behind the samples, in whole seconds and late on purpose. The hard limit a second after
        // the soft one, so that it is SIGXCPU that ends the process, unless it does not listen.
        limits.cpu.map(|cpu| {
            let soft = cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0) + 1;
            Rlimit {
                resource: libc::RLIMIT_CPU,
                soft,
                hard: soft + 1,
            }
        }),
        limits.file_size.map(|bytes| same(libc::RLIMIT_FSIZE, bytes)),
        limits.open_files.map(|count| same(libc::RLIMIT_NOFILE, count)),
        limits.stack.map(|bytes| same(libc::RLIMIT_STACK, bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_backstop_comes_after_the_limit() {
        fn check(cpu: Duration, expected: (u64, u64)) {
            let all = rlimits(&Limits {
                cpu: Some(cpu),
                ..Limits::default()
            });
            let limit = all
                .into_iter()
                .flatten()
                .find(|limit| limit.resource == libc::RLIMIT_CPU)
                .unwrap();
            assert_eq!((limit.soft, limit.hard), expected, "{cpu:?}");
        }
        check(Duration::ZERO, (1, 2));
        check(Duration::from_millis(1), (2, 3));
        check(Duration::from_secs(1), (2, 3));
        check(Duration::from_millis(1001), (3, 4));
        let none = rlimits(&Limits::default());
        assert_eq!(none.iter().flatten().count(), 1, "core files are never wanted");
    }
}
