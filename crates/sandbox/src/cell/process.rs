//! Start a process as a copy of this one. Only in a process of one thread, where the copy is whole.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::fault::Errno;

pub(super) enum Copy {
    Parent { child: i32 },
    Child,
}

/// In new namespaces, by the flags of `clone`.
pub(super) fn copy_into(namespaces: libc::c_int) -> Result<Copy, Errno> {
    let flags = (namespaces | libc::SIGCHLD) as libc::c_long;
    // SAFETY: like fork: no stack and no shared memory, and this process has one thread, so that whatever the copy
    // finds (the allocator above all) is in order.
    came_back(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

/// In a control group, which the child is in from its first moment. Needs cgroup v2; to move a process there later
/// makes everyone on the machine who forks wait.
pub(super) fn copy_into_group(group: BorrowedFd<'_>) -> Result<Copy, Errno> {
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let arguments = libc::clone_args {
        flags: INTO_GROUP,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.as_raw_fd() as u64,
    };
    // SAFETY: as above; the arguments are valid and of the size given.
    came_back(unsafe { libc::syscall(libc::SYS_clone3, &arguments, size_of::<libc::clone_args>()) })
}

fn came_back(result: libc::c_long) -> Result<Copy, Errno> {
    match result {
        0 => Ok(Copy::Child),
        child if child > 0 => Ok(Copy::Parent { child: child as i32 }),
        _ => Err(Errno::last()),
    }
}

/// Without running anything that this process would do at its end: the parent will.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
