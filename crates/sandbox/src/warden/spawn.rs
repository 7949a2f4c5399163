//! Starts the first process of a command without a cell.
//!
//! Like `posix_spawn`, it uses a clone that shares memory and suspends the parent until the child has executed the
//! program: nothing is copied, and the child writes a failure to memory that the parent reads.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libc::c_void;

use super::c_strings::{CStringArray, c_string};
use super::child::{self, ChildContext, ChildStep, NO_CORE_DUMPS, Rlimit, Rlimits};
use crate::platform_error::{Errno, PlatformError};
use crate::spec::CommandLimits;

/// What the warden needs to start the first process of a command without a cell.
pub(super) struct SpawnRequest<'a> {
    pub(super) program: PathBuf,
    pub(super) argv: &'a [OsString],
    pub(super) env: &'a [(OsString, OsString)],
    pub(super) directory: &'a Path,
    pub(super) streams: [BorrowedFd<'a>; 3],
    pub(super) limits: &'a CommandLimits,
}

/// Why the first process of a command without a cell was not started. In both cases there may be a child to reap.
pub(super) enum SpawnError {
    /// The program cannot be executed; the command is the cause.
    Exec(Errno),
    Platform(PlatformError),
}

/// Starts the first processes of commands without cells. Owns the stack on which each child runs until exec.
pub(super) struct ProcessSpawner {
    stack: Vec<u128>,
    warden: libc::pid_t,
}

impl ProcessSpawner {
    pub(super) fn new() -> Self {
        // The child needs a few hundred bytes; glibc allocates this much for the same work.
        const STACK: usize = 32 << 10;
        Self {
            stack: vec![0; STACK / size_of::<u128>()],
            warden: std::process::id() as libc::pid_t,
        }
    }

    /// Returns the process id of a child that has executed its program.
    pub(super) fn spawn(&mut self, request: &SpawnRequest<'_>) -> Result<i32, SpawnError> {
        let program = c_string(request.program.as_os_str());
        let (argv, envp) = (
            CStringArray::from_arguments(request.argv),
            CStringArray::from_environment(request.env),
        );
        let directory = c_string(request.directory.as_os_str());
        let mut context = ChildContext {
            program: program.as_ptr(),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            directory: directory.as_ptr(),
            streams: request.streams.map(|stream| stream.as_raw_fd()),
            rlimits: rlimits(request.limits),
            warden: self.warden,
            failed: None,
        };
        // A child of another process may hold the newly written program open for writing for a moment, between its
        // fork and exec. The command is not the cause, so this retries.
        const BUSY_TRIES: u32 = 500;
        const BUSY_PAUSE: Duration = Duration::from_millis(2);
        for _ in 0..BUSY_TRIES {
            let pid = self
                .clone(&mut context)
                .map_err(|errno| SpawnError::Platform(PlatformError::Clone(errno)))?;
            match context.failed.take() {
                None => return Ok(pid),
                Some((ChildStep::Execute, libc::ETXTBSY)) => std::thread::sleep(BUSY_PAUSE),
                Some((step, errno)) => return Err(on_failed(step, Errno(errno), request)),
            }
        }
        Err(SpawnError::Exec(Errno(libc::ETXTBSY)))
    }

    fn clone(&mut self, context: &mut ChildContext) -> Result<i32, Errno> {
        const FLAGS: i32 = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // Stacks grow down, so the child starts at the end of its stack, which is aligned like its elements.
        let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
        let context: *mut ChildContext = context;
        // SAFETY: CLONE_VFORK suspends this thread until the child has left our memory, so the stack and the context
        // outlive its use of them. This process has one thread, and its only signal handler does nothing, so nothing
        // else runs meanwhile.
        let pid = unsafe { libc::clone(child::main, top, FLAGS, context.cast()) };
        if pid < 0 { Err(Errno::last()) } else { Ok(pid) }
    }
}

fn on_failed(step: ChildStep, errno: Errno, request: &SpawnRequest<'_>) -> SpawnError {
    SpawnError::Platform(match step {
        ChildStep::DeathSignal => PlatformError::DeathSignal(errno),
        ChildStep::Streams => PlatformError::Streams(errno),
        ChildStep::ChangeDirectory => PlatformError::ChangeDirectory {
            path: request.directory.into(),
            errno,
        },
        ChildStep::NoNewPrivileges => PlatformError::NoNewPrivileges(errno),
        ChildStep::Rlimit => PlatformError::Rlimit(errno),
        ChildStep::Execute if errno.is_resource_shortage() => PlatformError::Execute(errno),
        // Not found, no permission, not a program, too many arguments: the command is always the cause.
        ChildStep::Execute => return SpawnError::Exec(errno),
    })
}

/// The limits that the kernel can enforce for one process. The address space is not one of them, because it has
/// little to do with used memory. Neither is the number of processes, which the kernel counts per user and not per
/// command.
pub(super) fn rlimits(limits: &CommandLimits) -> Rlimits {
    let same = |resource, value| Rlimit {
        resource,
        soft: value,
        hard: value,
    };
    [
        Some(NO_CORE_DUMPS),
        // A fallback behind the samples, in whole seconds and deliberately late. The hard limit is a second above the
        // soft one, so that SIGXCPU ends the process unless it ignores it.
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
    fn the_kernels_cpu_limit_is_above_the_commands_limit() {
        fn check(cpu: Duration, expected: (u64, u64)) {
            let all = rlimits(&CommandLimits {
                cpu: Some(cpu),
                ..CommandLimits::default()
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
        let none = rlimits(&CommandLimits::default());
        assert_eq!(none.iter().flatten().count(), 1, "core files are always disabled");
    }
}
