//! The system calls of a cell's processes. They run in the warden's memory while the warden goes on, so these touch
//! nothing but what they are given: no allocation, no lock, not even `errno`.
//!
//! By the crate `syscalls`, because the C library's calls set `errno`.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::RawFd;

use libc::{c_char, c_int};
use syscalls::{Sysno, syscall};

use crate::fault::Errno;
use crate::warden::child::Rlimit;

const NO_FLAGS: usize = 0;

/// The kernel kills this process when the one that started it ends.
pub(super) fn die_with_parent() -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { syscall!(Sysno::prctl, libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// For the end of a pair of sockets: whether nobody has the other one any more.
pub(super) fn is_hung_up(socket: RawFd) -> Result<bool, Errno> {
    let mut polled = libc::pollfd {
        fd: socket,
        events: libc::POLLIN,
        revents: 0,
    };
    let at_once = [0_i64; 2];
    // SAFETY: one valid entry, and a time as the kernel has it on machines of 64 bits.
    done(unsafe { syscall!(Sysno::ppoll, &raw mut polled, 1, at_once.as_ptr(), 0, 0) })?;
    Ok(polled.revents & libc::POLLHUP != 0)
}

pub(super) fn close(descriptor: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only. The caller does not use it any more.
    done(unsafe { syscall!(Sysno::close, descriptor) })
}

/// These signals do what they do by default, and none is blocked.
pub(super) fn reset_signals(ignored: &[c_int]) -> Result<(), Errno> {
    /// The kernel's own layouts: handler, flags, restorer, mask; all zero is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    for &signal in ignored {
        // SAFETY: reads four words and writes nothing.
        done(unsafe { syscall!(Sysno::rt_sigaction, signal, DEFAULT.as_ptr(), 0, size_of::<u64>()) })?;
    }
    let none = 0_u64;
    // SAFETY: reads one word and writes nothing.
    done(unsafe {
        syscall!(
            Sysno::rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            0,
            size_of::<u64>()
        )
    })
}

pub(super) fn leave_namespaces(flags: c_int) -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { syscall!(Sysno::unshare, flags) })
}

pub(super) fn join_network(namespace: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { syscall!(Sysno::setns, namespace, libc::CLONE_NEWNET) })
}

/// In a network namespace that is new.
pub(super) fn raise_loopback() -> Result<(), Errno> {
    // SAFETY: an all-zero request is a valid one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = *from as c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the request is valid and names an interface that every network namespace has.
    unsafe {
        let socket = syscall!(Sysno::socket, libc::AF_INET, kind, 0).map_err(errno)?;
        let raised = done(syscall!(
            Sysno::ioctl,
            socket,
            libc::SIOCSIFFLAGS,
            &raw const request
        ));
        let _ = syscall!(Sysno::close, socket);
        raised
    }
}

pub(super) struct Mount<'a> {
    pub(super) from: &'a CStr,
    pub(super) to: &'a CStr,
    pub(super) kind: Option<&'a CStr>,
    pub(super) flags: u64,
    pub(super) options: Option<&'a CStr>,
}

impl Mount<'_> {
    pub(super) fn make(&self) -> Result<(), Errno> {
        let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
        let [from, to, kind, options] =
            [Some(self.from), Some(self.to), self.kind, self.options].map(pointer);
        // SAFETY: texts that stay for the call.
        done(unsafe { syscall!(Sysno::mount, from, to, kind, self.flags, options) })
    }
}

/// Moves this process into the control group with this entrance.
pub(super) fn enter_group(entrance: RawFd) -> Result<(), Errno> {
    write(entrance, b"0")
}

/// Away from any terminal.
pub(super) fn begin_session() -> Result<(), Errno> {
    // SAFETY: takes nothing.
    done(unsafe { syscall!(Sysno::setsid) })
}

/// The C library would do so for all threads; here is only one.
pub(super) fn become_group(id: u32) -> Result<(), Errno> {
    // SAFETY: numbers only; no groups are read from nowhere.
    unsafe {
        done(syscall!(Sysno::setgroups, 0, 0))?;
        done(syscall!(Sysno::setresgid, id, id, id))
    }
}

pub(super) fn become_user(id: u32) -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { syscall!(Sysno::setresuid, id, id, id) })
}

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

pub(super) fn restrict_files(rules: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only.
    done(unsafe { syscall!(Sysno::landlock_restrict_self, rules, NO_FLAGS) })
}

pub(super) fn filter_calls(filter: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program is valid for the call, which copies it and does not write to it.
    done(unsafe {
        syscall!(
            Sysno::seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            NO_FLAGS,
            &raw const program
        )
    })
}

/// Waits for a message that comes with three descriptors. None: nobody will send one.
pub(super) fn receive_descriptors(socket: RawFd) -> Result<Option<[RawFd; 3]>, Errno> {
    #[repr(C)]
    struct Control {
        header: libc::cmsghdr,
        descriptors: [RawFd; 3],
    }
    // SAFETY: all-zero values of both are valid.
    let (mut control, mut message): (Control, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut byte = 0_u8;
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: size_of_val(&byte),
    };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>();
    loop {
        // SAFETY: the message describes places of ours.
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

pub(super) fn put_descriptor(from: RawFd, at: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only. What was there is nobody's here.
    done(unsafe { syscall!(Sysno::dup3, from, at, NO_FLAGS) })
}

/// Both included; none if the last comes before the first.
pub(super) fn close_between(first: RawFd, last: RawFd) -> Result<(), Errno> {
    match first <= last {
        // SAFETY: numbers only. The caller uses none of these.
        true => done(unsafe { syscall!(Sysno::close_range, first, last, NO_FLAGS) }),
        false => Ok(()),
    }
}

pub(super) fn close_from(first: RawFd) -> Result<(), Errno> {
    // SAFETY: numbers only. The caller uses nothing from there on.
    done(unsafe { syscall!(Sysno::close_range, first, u32::MAX, NO_FLAGS) })
}

pub(super) fn change_directory(to: &CStr) -> Result<(), Errno> {
    // SAFETY: a text that stays for the call.
    done(unsafe { syscall!(Sysno::chdir, to.as_ptr()) })
}

/// A limit above what this user may ask for is no reason to refuse: the lower one is in force already.
pub(super) fn limit(limit: &Rlimit) -> Result<(), Errno> {
    const SELF: usize = 0;
    // SAFETY: the kernel's layout of a limit: soft and hard value.
    let set = |wanted: [u64; 2]| unsafe {
        done(syscall!(
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
    // SAFETY: as above.
    done(unsafe { syscall!(Sysno::prlimit64, SELF, limit.resource, 0, current.as_mut_ptr()) })?;
    let [_, highest] = current;
    set([limit.soft.min(highest), limit.hard.min(highest)])
}

/// Returns only what kept it from that. Both lists end with a null pointer.
///
/// # Safety
///
/// The lists must hold valid texts.
pub(super) unsafe fn execute(program: &CStr, argv: *const *const c_char, env: *const *const c_char) -> Errno {
    // SAFETY: the caller's promise.
    match unsafe { syscall!(Sysno::execve, program.as_ptr(), argv, env) } {
        Ok(_) => Errno(0),
        Err(error) => errno(error),
    }
}

pub(super) fn is_file(path: &CStr) -> bool {
    // SAFETY: all-zero is a valid value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: a text that stays for the call, and a valid place.
    let looked = unsafe {
        syscall!(
            Sysno::statx,
            libc::AT_FDCWD,
            path.as_ptr(),
            NO_FLAGS,
            libc::STATX_TYPE,
            &raw mut found
        )
    };
    looked.is_ok() && u32::from(found.stx_mode) & libc::S_IFMT == libc::S_IFREG
}

pub(super) fn sleep_millis(millis: i64) {
    let time = [0_i64, millis * 1_000_000];
    // SAFETY: seconds and nanoseconds, as the kernel has them on machines of 64 bits.
    let _ = unsafe { syscall!(Sysno::nanosleep, time.as_ptr(), 0) };
}

pub(super) fn write(to: RawFd, bytes: &[u8]) -> Result<(), Errno> {
    // SAFETY: reads the bytes.
    done(unsafe { syscall!(Sysno::write, to, bytes.as_ptr(), bytes.len()) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Ended {
        child: i32,
        status: i32,
        used: Used,
    },
    /// There are children, but none has ended.
    Alive,
    NoChild,
}

/// What a process and those that it waited for have used, as the kernel counts it for any process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) cpu_micros: u64,
    /// The largest of them, at its peak.
    pub(crate) memory_kib: u64,
}

impl Used {
    pub(super) fn and(self, other: Used) -> Used {
        Used {
            cpu_micros: self.cpu_micros.saturating_add(other.cpu_micros),
            memory_kib: self.memory_kib.max(other.memory_kib),
        }
    }
}

/// Waits for any child, unless the flags say otherwise.
pub(super) fn wait_for_child(flags: c_int) -> Waited {
    const ANY: isize = -1;
    let mut status = 0;
    // SAFETY: all-zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: valid places for the status and the usage.
        match unsafe {
            syscall!(
                Sysno::wait4,
                ANY,
                &raw mut status,
                flags | libc::__WALL,
                &raw mut usage
            )
        } {
            Ok(0) => return Waited::Alive,
            Ok(child) => {
                let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
                return Waited::Ended {
                    child: child as i32,
                    status,
                    used: Used {
                        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
                        memory_kib: usage.ru_maxrss as u64,
                    },
                };
            }
            Err(syscalls::Errno::EINTR) => {}
            Err(_) => return Waited::NoChild,
        }
    }
}

/// Without running anything that the warden would do at its end.
pub(super) fn exit(code: c_int) -> ! {
    loop {
        // SAFETY: ends the process.
        let _ = unsafe { syscall!(Sysno::exit_group, code) };
    }
}

fn done(result: Result<usize, syscalls::Errno>) -> Result<(), Errno> {
    result.map(drop).map_err(errno)
}

fn errno(error: syscalls::Errno) -> Errno {
    Errno(error.into_raw())
}
