//! Start the two processes of a cell. They share the warden's memory, because to copy it costs more than all else
//! about them; so what they do is done by the calls of `bare` only.
#![allow(unsafe_code)]

use std::arch::asm;
use std::num::NonZero;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use libc::{c_int, c_void};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::fault::Errno;

/// How a process starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Birth {
    /// The flags of `clone` for the new namespaces.
    pub(super) namespaces: c_int,
    /// The control group to be born in. Needs cgroup v2, where to move a process later makes everyone on the machine
    /// who forks wait.
    pub(super) group: Option<RawFd>,
}

/// Starts a process in this one's memory. No signal that is caught here is caught there.
///
/// # Safety
///
/// Until the process has ended or executed a program, the stack and the argument must stay and be nobody else's, and
/// whoever is at work in this memory must touch nothing that another uses: no allocation, no `errno`.
pub(super) unsafe fn share<T>(
    birth: Birth,
    stack: &Stack,
    work: extern "C" fn(&T) -> !,
    argument: &T,
) -> Result<i32, Errno> {
    const DEFAULT_SIGNALS: u64 = 0x1_0000_0000;
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let into_group = birth.group.map_or(0, |_| INTO_GROUP);
    let arguments = libc::clone_args {
        flags: libc::CLONE_VM as u64 | birth.namespaces as u64 | DEFAULT_SIGNALS | into_group,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.0.as_ptr() as u64,
        stack_size: Stack::SIZE.get() as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: birth.group.map_or(0, |group| group as u64),
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
