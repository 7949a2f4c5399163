//! Starts the two processes of a cell. They share the warden's memory, because copying it would cost more than
//! everything else about them. So they use only the calls of `bare`.
#![allow(unsafe_code)]

use std::arch::asm;
use std::num::NonZero;
use std::os::fd::RawFd;
use std::ptr::NonNull;

use libc::{c_int, c_void};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::platform_error::Errno;

/// The namespaces and the control group in which `clone` starts a process of a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct CloneOptions {
    /// The `clone` flags of the new namespaces.
    pub(super) namespaces: c_int,
    /// The control group in which the process starts. Only with cgroup v2, where moving a process later would block
    /// every fork on the machine.
    pub(super) cgroup_directory: Option<RawFd>,
}

/// Starts a process that shares the memory of this one. Signal handlers are reset in the new process.
///
/// # Safety
///
/// Until the process has ended or executed a program, the stack and the argument must exist and must not be used by
/// anything else, and processes that share this memory must not touch anything that another one uses: no allocation,
/// no `errno`.
pub(super) unsafe fn clone_sharing_memory<T>(
    options: CloneOptions,
    stack: &ProcessStack,
    work: extern "C" fn(&T) -> !,
    argument: &T,
) -> Result<i32, Errno> {
    const DEFAULT_SIGNALS: u64 = 0x1_0000_0000;
    const INTO_GROUP: u64 = 0x2_0000_0000;
    let into_group = options.cgroup_directory.map_or(0, |_| INTO_GROUP);
    let arguments = libc::clone_args {
        flags: libc::CLONE_VM as u64 | options.namespaces as u64 | DEFAULT_SIGNALS | into_group,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.0.as_ptr() as u64,
        stack_size: ProcessStack::SIZE.get() as u64,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: options.cgroup_directory.map_or(0, |group| group as u64),
    };
    let result: isize;
    // SAFETY: the child returns from the call on the new stack, which has no return address, so it calls `work`
    // immediately, which never returns. For the parent this is an ordinary system call.
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
            // The system call overwrites these registers, so no input of the child may be in them.
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

/// The stack of a process that shares its parent's memory (`CLONE_VM`), such as the init and stub of a cell.
#[derive(Debug)]
pub(super) struct ProcessStack(NonNull<c_void>);

impl ProcessStack {
    /// Only pages that are used take memory.
    const SIZE: NonZero<usize> = NonZero::new(256 << 10).expect("it is not zero");
    /// At least one page on every machine.
    const GUARD: usize = 64 << 10;

    pub(super) fn new() -> Result<Self, Errno> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_STACK | MapFlags::MAP_NORESERVE;
        // SAFETY: the kernel chooses the address of the new memory, and nothing uses its first part.
        unsafe {
            let stack = Self(mmap_anonymous(None, Self::SIZE, protection, flags)?);
            // A stack overflow must not reach other memory.
            mprotect(stack.0, Self::GUARD, ProtFlags::PROT_NONE)?;
            Ok(stack)
        }
    }
}

impl Drop for ProcessStack {
    fn drop(&mut self) {
        // SAFETY: the memory belongs to this value, and no process runs on it any more.
        let _ = unsafe { munmap(self.0, Self::SIZE.get()) };
    }
}
