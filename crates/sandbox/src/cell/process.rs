//! Start the two processes of a cell. Only in a process of one thread.
//!
//! The first is a copy of the warden. The second shares the memory of the first until it executes its program, because
//! to copy memory costs more than all else about a process. From then on the first may use nothing but its stack, not
//! even `errno`; so it is left with the few calls at the end of this file.
#![allow(unsafe_code)]

use std::arch::asm;
use std::num::NonZero;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;

use libc::{c_int, c_void};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use syscalls::{Sysno, syscall};

use crate::fault::Errno;

pub(super) enum Copy {
    Parent { child: i32 },
    Child,
}

/// Starts a process in new namespaces, by the flags of `clone`, as a copy of this one.
pub(super) fn copy_into(namespaces: c_int) -> Result<Copy, Errno> {
    let flags = (namespaces | libc::SIGCHLD) as libc::c_long;
    // SAFETY: like fork: no stack and no shared memory, and this process has one thread, so that whatever the copy
    // finds (the allocator above all) is in order.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        0 => Ok(Copy::Child),
        child if child > 0 => Ok(Copy::Parent { child: child as i32 }),
        _ => Err(Errno::last()),
    }
}

/// Starts a process that shares the memory of this one, and may be born in a control group: that needs cgroup v2, where
/// to move a process later makes everyone on the machine who forks wait.
///
/// # Safety
///
/// From here on this process may use its stack and nothing else: no allocation, no `errno`. The argument must be what
/// the work takes, and stay.
pub(super) unsafe fn share<T>(
    group: Option<BorrowedFd<'_>>,
    stack: &Stack,
    work: extern "C" fn(&T) -> !,
    argument: &T,
) -> Result<i32, Errno> {
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let arguments = libc::clone_args {
        flags: libc::CLONE_VM as u64 | group.map_or(0, |_| INTO_GROUP),
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.0.as_ptr() as u64,
        stack_size: Stack::SIZE.get() as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.map_or(0, |group| group.as_raw_fd() as u64),
    };
    let result: isize;
    // SAFETY: the child comes back from the call on the new stack, where there is no way to return to, so it goes
    // straight into the work, which does not return. For the parent this is a system call like any other.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {argument}",
            "call {work}",
            "ud2",
            "2:",
            work = in(reg) work,
            argument = in(reg) argument,
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") &raw const arguments,
            in("rsi") size_of::<libc::clone_args>(),
            // Lost in the call, so that what the child needs must not be there.
            out("rcx") _,
            out("r11") _,
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, {argument}",
            "blr {work}",
            "brk #1",
            "2:",
            work = in(reg) work,
            argument = in(reg) argument,
            in("x8") libc::SYS_clone3,
            inlateout("x0") &raw const arguments => result,
            in("x1") size_of::<libc::clone_args>(),
        );
    }
    match result {
        child if child > 0 => Ok(child as i32),
        error => Err(Errno(-error as i32)),
    }
}

/// The stack of a process that shares memory. Each copy of the warden has its own copy of it.
#[derive(Debug)]
pub(super) struct Stack(NonNull<c_void>);

impl Stack {
    /// Only what is used of it takes memory.
    const SIZE: NonZero<usize> = NonZero::new(256 << 10).expect("it is not zero");
    /// At least a page, on every machine.
    const GUARD: usize = 64 << 10;

    pub(super) fn new() -> Result<Self, Errno> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK | MapFlags::MAP_NORESERVE;
        // SAFETY: new memory at no address of ours, and a part of it that nobody uses.
        unsafe {
            let stack = Self(mmap_anonymous(None, Self::SIZE, protection, flags)?);
            // Who goes beyond its end must not get into other memory.
            mprotect(stack.0, Self::GUARD, ProtFlags::PROT_NONE)?;
            Ok(stack)
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody runs on it.
        let _ = unsafe { munmap(self.0, Self::SIZE.get()) };
    }
}

/// Keeps one descriptor, as the first, and perhaps another.
pub(super) fn keep_only(first: RawFd, second: Option<RawFd>) -> Result<(), Errno> {
    const NO_FLAGS: usize = 0;
    let second = second.unwrap_or(KEPT);
    // SAFETY: numbers only. Nothing in this process uses a descriptor after this but the one that is kept.
    unsafe {
        done(syscall!(Sysno::dup3, first, KEPT, NO_FLAGS))?;
        done(syscall!(Sysno::dup3, second, KEPT + 1, NO_FLAGS))?;
        done(syscall!(Sysno::close_range, KEPT + 2, u32::MAX, NO_FLAGS))
    }
}

/// Where [`keep_only`] puts what is kept.
const KEPT: RawFd = 0;

pub(super) fn drop_capabilities() -> Result<(), Errno> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header {
        version: VERSION_3,
        pid: 0,
    };
    // Effective, permitted and inheritable, twice 32 bits each. What is in none of them cannot be ambient.
    let none = [0_u32; 6];
    // SAFETY: header and sets have the layout of this version.
    done(unsafe { syscall!(Sysno::capset, &raw const header, none.as_ptr()) })
}

pub(super) fn forbid_new_privileges() -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { syscall!(Sysno::prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// To the descriptor that was kept. Whoever is to get the bytes sees it if they do not come.
pub(super) fn say(bytes: &[u8]) {
    // SAFETY: reads the bytes.
    let _ = unsafe { syscall!(Sysno::write, KEPT, bytes.as_ptr(), bytes.len()) };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Ended {
        child: i32,
        status: i32,
    },
    /// There are children, but none has ended.
    Alive,
    NoChild,
}

/// Waits for any child, unless the flags say otherwise.
pub(super) fn wait_for_child(flags: c_int) -> Waited {
    const ANY: isize = -1;
    let mut status = 0;
    loop {
        // SAFETY: a valid place for the status.
        match unsafe { syscall!(Sysno::wait4, ANY, &raw mut status, flags, 0) } {
            Ok(0) => return Waited::Alive,
            Ok(child) => {
                return Waited::Ended {
                    child: child as i32,
                    status,
                };
            }
            Err(syscalls::Errno::EINTR) => {}
            Err(_) => return Waited::NoChild,
        }
    }
}

/// Without running anything that this process would do at its end: the warden will.
pub(super) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: ends the process.
        let _ = unsafe { syscall!(Sysno::exit_group, code) };
    }
}

fn done(result: Result<usize, syscalls::Errno>) -> Result<(), Errno> {
    match result {
        Ok(_) => Ok(()),
        Err(errno) => Err(Errno(errno.into_raw())),
    }
}
