//! The system calls of the two processes of a cell. They run in the warden's memory while the warden runs too, so
//! these functions touch only their arguments: no allocation, no lock, not even `errno`.
//!
//! They use the crate `syscalls`, because the functions of the C library set `errno`.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::RawFd;

use libc::{c_char, c_int};
use syscalls::{Sysno, syscall};

use crate::platform_error::Errno;
use crate::warden::child::Rlimit;

const NO_FLAGS: usize = 0;

/// Makes the kernel kill this process when its parent ends.
pub(super) fn die_with_parent() -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    discard_value(unsafe { syscall!(Sysno::prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// Whether no process has the other end of a socket pair any more.
pub(super) fn is_hung_up(socket: RawFd) -> Result<bool, Errno> {
    let mut polled = libc::pollfd {
        fd: socket,
        events: libc::POLLIN,
        revents: 0,
    };
    let at_once = [0_i64; 2];
    // SAFETY: the entry is valid, and the timeout has the kernel's layout of 64-bit machines.
    discard_value(unsafe { syscall!(Sysno::ppoll, &raw mut polled, 1, at_once.as_ptr(), 0, 0) })?;
    Ok(polled.revents & libc::POLLHUP != 0)
}

pub(super) fn close(descriptor: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes a number only, and the caller does not use the descriptor any more.
    discard_value(unsafe { syscall!(Sysno::close, descriptor) })
}

/// Resets these signals to their default action and unblocks all signals.
pub(super) fn reset_signals(ignored: &[c_int]) -> Result<(), Errno> {
    /// The kernel's own layout: handler, flags, restorer, mask. All zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    for &signal in ignored {
        // SAFETY: the kernel reads four words and writes nothing.
        discard_value(unsafe {
            syscall!(Sysno::rt_sigaction, signal, DEFAULT.as_ptr(), 0, size_of::<u64>())
        })?;
    }
    let none = 0_u64;
    // SAFETY: the kernel reads one word and writes nothing.
    discard_value(unsafe {
        syscall!(
            Sysno::rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            0,
            size_of::<u64>()
        )
    })
}

pub(super) fn unshare_namespaces(flags: c_int) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    discard_value(unsafe { syscall!(Sysno::unshare, flags) })
}

pub(super) fn join_network(namespace: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    discard_value(unsafe { syscall!(Sysno::setns, namespace, libc::CLONE_NEWNET) })
}

/// Brings up the loopback interface of the current network namespace.
pub(super) fn bring_up_loopback() -> Result<(), Errno> {
    // SAFETY: an all-zero request is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = *from as c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the request is valid and names an interface that every network namespace has.
    unsafe {
        let socket = syscall!(Sysno::socket, libc::AF_INET, kind, 0).map_err(errno)?;
        let result = discard_value(syscall!(
            Sysno::ioctl,
            socket,
            libc::SIOCSIFFLAGS,
            &raw const request
        ));
        let _ = syscall!(Sysno::close, socket);
        result
    }
}

/// The arguments of one `mount` call that a process of a cell makes.
pub(super) struct MountCall<'a> {
    pub(super) from: &'a CStr,
    pub(super) to: &'a CStr,
    pub(super) kind: Option<&'a CStr>,
    pub(super) flags: u64,
    pub(super) options: Option<&'a CStr>,
}

impl MountCall<'_> {
    pub(super) fn perform(&self) -> Result<(), Errno> {
        let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
        let [from, to, kind, options] =
            [Some(self.from), Some(self.to), self.kind, self.options].map(pointer);
        // SAFETY: the strings outlive the call.
        discard_value(unsafe { syscall!(Sysno::mount, from, to, kind, self.flags, options) })
    }
}

/// Moves this process into a control group, by its open `cgroup.procs` or `tasks` file.
pub(super) fn enter_cgroup(procs_file: RawFd) -> Result<(), Errno> {
    write(procs_file, b"0")
}

/// Starts a session without a terminal.
pub(super) fn start_session() -> Result<(), Errno> {
    // SAFETY: the call takes no arguments.
    discard_value(unsafe { syscall!(Sysno::setsid) })
}

/// Sets the groups of this process. The C library would do so for all threads; this process has only one.
pub(super) fn set_group(id: u32) -> Result<(), Errno> {
    // SAFETY: the calls take numbers only; with a count of 0 the kernel reads no group list.
    unsafe {
        discard_value(syscall!(Sysno::setgroups, 0, 0))?;
        discard_value(syscall!(Sysno::setresgid, id, id, id))
    }
}

pub(super) fn set_user(id: u32) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    discard_value(unsafe { syscall!(Sysno::setresuid, id, id, id) })
}

pub(super) fn drop_capabilities() -> Result<(), Errno> {
    /// The kernel's `struct __user_cap_header_struct`, with which a cell's process drops its capabilities.
    #[repr(C)]
    struct CapabilityHeader {
        version: u32,
        pid: c_int,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = CapabilityHeader {
        version: VERSION_3,
        pid: 0,
    };
    // Effective, permitted and inheritable sets, each in two parts of 32 bits. A capability in none of them cannot be
    // ambient.
    let none = [0_u32; 6];
    // SAFETY: header and sets have the layout of this version.
    discard_value(unsafe { syscall!(Sysno::capset, &raw const header, none.as_ptr()) })
}

pub(super) fn forbid_new_privileges() -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    discard_value(unsafe { syscall!(Sysno::prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

pub(super) fn apply_landlock_rules(rules: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only.
    discard_value(unsafe { syscall!(Sysno::landlock_restrict_self, rules, NO_FLAGS) })
}

pub(super) fn install_seccomp_filter(filter: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call, which copies it and does not write to it.
    discard_value(unsafe {
        syscall!(
            Sysno::seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            NO_FLAGS,
            &raw const program
        )
    })
}

/// Waits for a message with three descriptors. Returns `None` if the other end is closed.
pub(super) fn receive_descriptors(socket: RawFd) -> Result<Option<[RawFd; 3]>, Errno> {
    /// The control data (`SCM_RIGHTS`) of the message that brings a cell's stub the standard streams of its command.
    #[repr(C)]
    struct DescriptorMessage {
        header: libc::cmsghdr,
        descriptors: [RawFd; 3],
    }
    // SAFETY: all-zero values of both are valid.
    let (mut control, mut message): (DescriptorMessage, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut byte = 0_u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: size_of_val(&byte),
    };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<DescriptorMessage>();
    loop {
        // SAFETY: the message points to memory of this function.
        match unsafe { syscall!(Sysno::recvmsg, socket, &raw mut message, libc::MSG_CMSG_CLOEXEC) } {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(syscalls::Errno::EINTR) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    let wanted = size_of::<libc::cmsghdr>() + size_of::<[RawFd; 3]>();
    match control.header.cmsg_len == wanted && message.msg_flags & libc::MSG_CTRUNC == 0 {
        true => Ok(Some(control.descriptors)),
        false => Err(Errno(libc::EPROTO)),
    }
}

pub(super) fn duplicate_descriptor(from: RawFd, at: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only. Nothing in this process uses the descriptor that it replaces.
    discard_value(unsafe { syscall!(Sysno::dup3, from, at, NO_FLAGS) })
}

/// Closes the descriptors from `first` to `last` inclusive; none if `last` is below `first`.
pub(super) fn close_between(first: RawFd, last: RawFd) -> Result<(), Errno> {
    match first <= last {
        // SAFETY: the call takes numbers only, and the caller uses none of these descriptors.
        true => discard_value(unsafe { syscall!(Sysno::close_range, first, last, NO_FLAGS) }),
        false => Ok(()),
    }
}

pub(super) fn close_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes numbers only, and the caller uses none of these descriptors.
    discard_value(unsafe { syscall!(Sysno::close_range, first, u32::MAX, NO_FLAGS) })
}

pub(super) fn change_directory(to: &CStr) -> Result<(), Errno> {
    // SAFETY: the string outlives the call.
    discard_value(unsafe { syscall!(Sysno::chdir, to.as_ptr()) })
}

/// Sets a resource limit. A value above the current hard limit is not an error: the lower limit stays.
pub(super) fn set_rlimit(limit: &Rlimit) -> Result<(), Errno> {
    const SELF: usize = 0;
    // SAFETY: the array has the kernel's layout of a limit, which is the soft and the hard value.
    let set = |wanted: [u64; 2]| unsafe {
        discard_value(syscall!(
            Sysno::prlimit64,
            SELF,
            limit.resource,
            wanted.as_ptr(),
            0
        ))
    };
    match set([limit.soft, limit.hard]) {
        Err(Errno(libc::EPERM)) => {}
        set => return set,
    }
    let mut current = [0_u64; 2];
    // SAFETY: the array has the kernel's layout of a limit.
    discard_value(unsafe { syscall!(Sysno::prlimit64, SELF, limit.resource, 0, current.as_mut_ptr()) })?;
    let [_, highest] = current;
    set([limit.soft.min(highest), limit.hard.min(highest)])
}

/// Executes a program. Returns only if that fails. Both lists end with a null pointer.
///
/// # Safety
///
/// The lists must point to valid strings.
pub(super) unsafe fn execute(program: &CStr, argv: *const *const c_char, env: *const *const c_char) -> Errno {
    // SAFETY: the caller passes valid lists.
    match unsafe { syscall!(Sysno::execve, program.as_ptr(), argv, env) } {
        Ok(_) => Errno(0),
        Err(error) => errno(error),
    }
}

pub(super) fn is_file(path: &CStr) -> bool {
    // SAFETY: an all-zero value is valid.
    let mut metadata: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the string outlives the call, and the kernel writes to a valid value.
    let result = unsafe {
        syscall!(
            Sysno::statx,
            libc::AT_FDCWD,
            path.as_ptr(),
            NO_FLAGS,
            libc::STATX_TYPE,
            &raw mut metadata
        )
    };
    result.is_ok() && u32::from(metadata.stx_mode) & libc::S_IFMT == libc::S_IFREG
}

pub(super) fn sleep_millis(millis: i64) {
    let time = [0_i64, millis * 1_000_000];
    // SAFETY: the array holds seconds and nanoseconds, the kernel's layout on 64-bit machines.
    let _ = unsafe { syscall!(Sysno::nanosleep, time.as_ptr(), 0) };
}

pub(super) fn write(to: RawFd, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel only reads the bytes.
    discard_value(unsafe { syscall!(Sysno::write, to, bytes.as_ptr(), bytes.len()) })
}

/// What a wait for children returns to the init process of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitResult {
    Ended {
        child: i32,
        status: i32,
        used: ResourceUsage,
    },
    /// There are children, but none has ended.
    NoneEnded,
    NoChild,
}

/// CPU time and peak memory of an ended process in a cell, and of the descendants that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResourceUsage {
    pub(crate) cpu_micros: u64,
    /// The peak of the largest of these processes.
    pub(crate) memory_kib: u64,
}

impl ResourceUsage {
    pub(super) fn combined_with(self, other: ResourceUsage) -> ResourceUsage {
        ResourceUsage {
            cpu_micros: self.cpu_micros.saturating_add(other.cpu_micros),
            memory_kib: self.memory_kib.max(other.memory_kib),
        }
    }
}

/// Waits for any child. With `WNOHANG` in the flags it returns at once.
pub(super) fn wait_for_child(flags: c_int) -> WaitResult {
    const ANY: isize = -1;
    let mut status = 0;
    // SAFETY: an all-zero value is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the status and the usage are valid memory for the kernel to write to.
        match unsafe {
            syscall!(
                Sysno::wait4,
                ANY,
                &raw mut status,
                flags | libc::__WALL,
                &raw mut usage
            )
        } {
            Ok(0) => return WaitResult::NoneEnded,
            Ok(child) => {
                let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
                return WaitResult::Ended {
                    child: child as i32,
                    status,
                    used: ResourceUsage {
                        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
                        memory_kib: usage.ru_maxrss as u64,
                    },
                };
            }
            Err(syscalls::Errno::EINTR) => {}
            Err(_) => return WaitResult::NoChild,
        }
    }
}

/// Ends the process without running the exit handlers of the warden.
pub(super) fn exit(code: c_int) -> ! {
    loop {
        // SAFETY: the call only ends the process.
        let _ = unsafe { syscall!(Sysno::exit_group, code) };
    }
}

fn discard_value(result: Result<usize, syscalls::Errno>) -> Result<(), Errno> {
    result.map(drop).map_err(errno)
}

fn errno(error: syscalls::Errno) -> Errno {
    Errno(error.into_raw())
}
