//! Rules for calls whose arguments decide.

use libc::*;

use super::SeccompAction::{Allow, ReturnErrno};
use super::SyscallRule;

const ALL_BITS: u32 = u32::MAX;
pub(super) const ALLOW: SyscallRule = SyscallRule::Always(Allow);
/// The answer to a call that the kernel does not have.
pub(super) const UNKNOWN: SyscallRule = SyscallRule::Always(ReturnErrno(ENOSYS));
pub(super) const FORBID: SyscallRule = SyscallRule::Always(ReturnErrno(EPERM));
pub(super) const SUCCEED_WITHOUT_EFFECT: SyscallRule = SyscallRule::Always(ReturnErrno(0));
/// The answer to an option or request that the kernel does not know.
const INVALID: SyscallRule = SyscallRule::Always(ReturnErrno(EINVAL));
pub(super) const NOT_SUPPORTED: SyscallRule = SyscallRule::Always(ReturnErrno(EOPNOTSUPP));
const NO_MEMORY: SyscallRule = SyscallRule::Always(ReturnErrno(ENOMEM));
const NO_SUCH_OPTION: SyscallRule = SyscallRule::Always(ReturnErrno(ENOPROTOOPT));
const NO_SUCH_REQUEST: SyscallRule = SyscallRule::Always(ReturnErrno(ENOTTY));

pub(super) const CLONE: SyscallRule = without(0, NAMESPACES as u32, &FORBID);
pub(super) const PREADV2: SyscallRule = without(5, RWF_NOWAIT as u32, &NOT_SUPPORTED);
pub(super) const MMAP: SyscallRule = without(3, MAP_HUGETLB as u32, &NO_MEMORY);
pub(super) const MEMFD_CREATE: SyscallRule = without(1, MFD_HUGETLB, &INVALID);
pub(super) const SHMGET: SyscallRule = without(2, SHM_HUGETLB as u32, &NO_MEMORY);

const NAMESPACES: c_int =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// Allowed if none of these flags is set.
const fn without(argument: u8, flags: u32, otherwise: &'static SyscallRule) -> SyscallRule {
    SyscallRule::IfArgument {
        argument,
        mask: flags,
        among: &[0],
        yes: &ALLOW,
        no: otherwise,
    }
}

/// Commands for descriptors, flags, locks, owners, pipes and seals, by the kernel's numbers: `libc` lacks some of
/// them.
#[rustfmt::skip]
pub(super) const FCNTL: SyscallRule = SyscallRule::IfArgument {
    argument: 1,
    mask: ALL_BITS,
    among: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 36, 37, 38, 1025, 1027, 1028, 1030, 1031, 1032, 1033, 1034,
        1035, 1037,
    ],
    yes: &ALLOW,
    no: &INVALID,
};

/// Local sockets, TCP and UDP.
pub(super) const SOCKET: SyscallRule = SyscallRule::IfArgument {
    argument: 0,
    mask: ALL_BITS,
    among: &[AF_UNIX as u32],
    yes: &ALLOW,
    no: &SyscallRule::IfArgument {
        argument: 0,
        mask: ALL_BITS,
        among: &[AF_INET as u32, AF_INET6 as u32],
        yes: &SyscallRule::IfArgument {
            argument: 1,
            // The mask removes the flags that are part of the type argument.
            mask: 0xf,
            among: &[SOCK_STREAM as u32],
            yes: &protocol(&[0, IPPROTO_TCP as u32]),
            no: &SyscallRule::IfArgument {
                argument: 1,
                mask: 0xf,
                among: &[SOCK_DGRAM as u32],
                yes: &protocol(&[0, IPPROTO_UDP as u32]),
                no: &FORBID,
            },
        },
        no: &SyscallRule::Always(ReturnErrno(EAFNOSUPPORT)),
    },
};

const fn protocol(among: &'static [u32]) -> SyscallRule {
    SyscallRule::IfArgument {
        argument: 2,
        mask: ALL_BITS,
        among,
        yes: &ALLOW,
        no: &SyscallRule::Always(ReturnErrno(EPROTONOSUPPORT)),
    }
}

pub(super) const SETSOCKOPT: SyscallRule = level(&[SOL_SOCKET as u32], &SOCKET_OPTION, &TCP_LEVEL_OR_LATER);
const TCP_LEVEL_OR_LATER: SyscallRule = level(&[SOL_TCP as u32], &TCP_OPTION, &UDP_LEVEL_OR_LATER);
const UDP_LEVEL_OR_LATER: SyscallRule = level(&[SOL_UDP as u32], &UDP_OPTION, &IP_LEVEL_OR_LATER);
const IP_LEVEL_OR_LATER: SyscallRule = level(&[SOL_IP as u32], &IP_OPTION, &IPV6_LEVEL);
const IPV6_LEVEL: SyscallRule = level(&[SOL_IPV6 as u32], &IPV6_OPTION, &NO_SUCH_OPTION);

const fn level(
    level: &'static [u32],
    options: &'static SyscallRule,
    others: &'static SyscallRule,
) -> SyscallRule {
    SyscallRule::IfArgument {
        argument: 1,
        mask: ALL_BITS,
        among: level,
        yes: options,
        no: others,
    }
}

const fn option(among: &'static [u32], no: &'static SyscallRule) -> SyscallRule {
    SyscallRule::IfArgument {
        argument: 2,
        mask: ALL_BITS,
        among,
        yes: &ALLOW,
        no,
    }
}

#[rustfmt::skip]
const SOCKET_OPTION: SyscallRule = option(
    &[
        SO_DEBUG as u32, SO_REUSEADDR as u32, SO_DONTROUTE as u32, SO_BROADCAST as u32, SO_SNDBUF as u32,
        SO_RCVBUF as u32, SO_KEEPALIVE as u32, SO_OOBINLINE as u32, SO_PRIORITY as u32, SO_LINGER as u32,
        SO_REUSEPORT as u32, SO_PASSCRED as u32, SO_RCVLOWAT as u32, SO_SNDLOWAT as u32, SO_RCVTIMEO as u32,
        SO_SNDTIMEO as u32, SO_TIMESTAMP as u32, SO_TIMESTAMPNS as u32, SO_BINDTODEVICE as u32, SO_PEEK_OFF as u32,
        SO_BUSY_POLL as u32, SO_INCOMING_CPU as u32, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW, SO_TIMESTAMP_NEW,
        SO_TIMESTAMPNS_NEW,
    ],
    &SyscallRule::IfArgument {
        argument: 2,
        mask: ALL_BITS,
        among: &[
            SO_ATTACH_FILTER as u32, SO_ATTACH_BPF as u32, SO_ATTACH_REUSEPORT_CBPF as u32,
            SO_ATTACH_REUSEPORT_EBPF as u32,
        ],
        yes: &FORBID,
        no: &NO_SUCH_OPTION,
    },
);

/// Some releases of `libc` lack these for some architectures.
const SO_TIMESTAMP_NEW: u32 = 63;
const SO_TIMESTAMPNS_NEW: u32 = 64;
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;

/// Allows neither keys nor upper-layer protocols.
#[rustfmt::skip]
const TCP_OPTION: SyscallRule = option(
    &[
        TCP_NODELAY as u32, TCP_MAXSEG as u32, TCP_CORK as u32, TCP_KEEPIDLE as u32, TCP_KEEPINTVL as u32,
        TCP_KEEPCNT as u32, TCP_SYNCNT as u32, TCP_LINGER2 as u32, TCP_DEFER_ACCEPT as u32,
        TCP_WINDOW_CLAMP as u32, TCP_QUICKACK as u32, TCP_USER_TIMEOUT as u32, TCP_FASTOPEN as u32,
        TCP_NOTSENT_LOWAT as u32, TCP_FASTOPEN_CONNECT as u32,
    ],
    &NO_SUCH_OPTION,
);

const UDP_OPTION: SyscallRule = option(
    &[UDP_CORK as u32, UDP_SEGMENT as u32, UDP_GRO as u32],
    &NO_SUCH_OPTION,
);

#[rustfmt::skip]
const IP_OPTION: SyscallRule = option(
    &[
        IP_TOS as u32, IP_TTL as u32, IP_PKTINFO as u32, IP_MTU_DISCOVER as u32, IP_RECVERR as u32,
        IP_RECVTTL as u32, IP_RECVTOS as u32, IP_BIND_ADDRESS_NO_PORT as u32,
        IP_MULTICAST_IF as u32, IP_MULTICAST_TTL as u32, IP_MULTICAST_LOOP as u32,
    ],
    &NO_SUCH_OPTION,
);

#[rustfmt::skip]
const IPV6_OPTION: SyscallRule = option(
    &[
        IPV6_UNICAST_HOPS as u32, IPV6_MULTICAST_IF as u32, IPV6_MULTICAST_HOPS as u32,
        IPV6_MULTICAST_LOOP as u32, IPV6_MTU_DISCOVER as u32, IPV6_MTU as u32, IPV6_RECVERR as u32,
        IPV6_V6ONLY as u32, IPV6_RECVPKTINFO as u32, IPV6_RECVHOPLIMIT as u32, IPV6_RECVTCLASS as u32,
        IPV6_TCLASS as u32, IPV6_DONTFRAG as u32,
    ],
    &NO_SUCH_OPTION,
);

/// Of the requests to sockets, only those that query something or concern the process itself are allowed.
#[rustfmt::skip]
pub(super) const IOCTL: SyscallRule = SyscallRule::IfArgument {
    argument: 1,
    mask: ALL_BITS,
    among: &[TIOCSTI as u32, TIOCLINUX as u32, TIOCSETD as u32],
    yes: &FORBID,
    no: &SyscallRule::IfArgument {
        argument: 1,
        // All requests to terminals and pipes, and those that every descriptor supports, share this prefix.
        mask: 0xffff_ff00,
        among: &[0x5400],
        yes: &ALLOW,
        no: &SyscallRule::IfArgument {
            argument: 1,
            mask: ALL_BITS,
            among: &[
                FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP, SIOCATMARK, SIOCGSTAMP, SIOCGSTAMPNS, SIOCGSTAMP_NEW,
                SIOCGSTAMPNS_NEW, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFDSTADDR,
                SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX,
                SIOCGIFTXQLEN, TIOCGPTN, RNDGETENTCNT,
            ],
            yes: &ALLOW,
            no: &NO_SUCH_REQUEST,
        },
    },
};

/// The rule in the warden's program: the init process of a cell brings up its loopback interface.
pub(super) const WARDEN_IOCTL: SyscallRule = if_sets_interface_flags(&ALLOW, &IOCTL);
pub(super) const STUB_IOCTL: SyscallRule = if_sets_interface_flags(&NO_SUCH_REQUEST, &ALLOW);

const fn if_sets_interface_flags(yes: &'static SyscallRule, no: &'static SyscallRule) -> SyscallRule {
    SyscallRule::IfArgument {
        argument: 1,
        mask: ALL_BITS,
        among: &[SIOCSIFFLAGS],
        yes,
        no,
    }
}

/// The kernel's numbers, which are the same on both architectures; `libc` lacks some of them.
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
const FIOGETOWN: u32 = 0x8903;
const SIOCGPGRP: u32 = 0x8904;
const SIOCATMARK: u32 = 0x8905;
const SIOCGSTAMP: u32 = 0x8906;
const SIOCGSTAMPNS: u32 = 0x8907;
const SIOCGSTAMP_NEW: u32 = 0x8010_8906;
const SIOCGSTAMPNS_NEW: u32 = 0x8010_8907;
const SIOCGIFNAME: u32 = 0x8910;
const SIOCGIFCONF: u32 = 0x8912;
const SIOCGIFFLAGS: u32 = 0x8913;
const SIOCSIFFLAGS: u32 = 0x8914;
const SIOCGIFADDR: u32 = 0x8915;
const SIOCGIFDSTADDR: u32 = 0x8917;
const SIOCGIFBRDADDR: u32 = 0x8919;
const SIOCGIFNETMASK: u32 = 0x891b;
const SIOCGIFMETRIC: u32 = 0x891d;
const SIOCGIFMTU: u32 = 0x8921;
const SIOCGIFHWADDR: u32 = 0x8927;
const SIOCGIFINDEX: u32 = 0x8933;
const SIOCGIFTXQLEN: u32 = 0x8942;
const TIOCGPTN: u32 = 0x8004_5430;
const RNDGETENTCNT: u32 = 0x8004_5200;

#[rustfmt::skip]
pub(super) const PRCTL: SyscallRule = SyscallRule::IfArgument {
    argument: 0,
    mask: ALL_BITS,
    among: &[
        PR_SET_NAME as u32, PR_GET_NAME as u32, PR_SET_PDEATHSIG as u32, PR_GET_PDEATHSIG as u32,
        PR_SET_DUMPABLE as u32, PR_GET_DUMPABLE as u32, PR_SET_CHILD_SUBREAPER as u32,
        PR_GET_CHILD_SUBREAPER as u32, PR_SET_NO_NEW_PRIVS as u32, PR_GET_NO_NEW_PRIVS as u32,
        PR_GET_SECCOMP as u32, PR_GET_SECUREBITS as u32, PR_GET_KEEPCAPS as u32, PR_CAPBSET_READ as u32,
        PR_CAP_AMBIENT as u32, PR_SET_PTRACER as u32, PR_SET_TIMERSLACK as u32, PR_GET_TIMERSLACK as u32,
        PR_SET_THP_DISABLE as u32, PR_GET_THP_DISABLE as u32, PR_SET_MDWE as u32, PR_GET_MDWE as u32,
        // Vector and pointer options of aarch64; other architectures do not have them.
        50, 51, 54, 55, 56, 63, 64,
    ],
    yes: &ALLOW,
    no: &INVALID,
};

pub(super) const PERSONALITY: SyscallRule = SyscallRule::IfArgument {
    argument: 0,
    mask: ALL_BITS,
    among: &[u32::MAX, 0, ADDR_NO_RANDOMIZE as u32, PER_LINUX32, UNAME26 as u32],
    yes: &ALLOW,
    no: &FORBID,
};

/// Some releases of `libc` lack it for some architectures.
const PER_LINUX32: u32 = 8;

pub(super) const MADVISE: SyscallRule = SyscallRule::IfArgument {
    argument: 2,
    mask: ALL_BITS,
    among: &[MADV_MERGEABLE as u32],
    yes: &INVALID,
    no: &ALLOW,
};

/// A command can trace only its own processes: the init process of the cell has another user or is hidden.
pub(super) const PTRACE: SyscallRule = SyscallRule::IfArgument {
    argument: 0,
    mask: ALL_BITS,
    among: &[
        PTRACE_ATTACH,
        PTRACE_DETACH,
        PTRACE_CONT,
        PTRACE_GETREGS,
        PTRACE_GETREGSET,
    ],
    yes: &ALLOW,
    no: &FORBID,
};

/// Some releases of `libc` lack these for some architectures.
const PTRACE_GETREGS: u32 = 12;
const PTRACE_GETREGSET: u32 = 0x4204;

/// The limit of core files does not change. The call succeeds, because sanitizers set it to 0 and exit if they
/// cannot.
pub(super) const SETRLIMIT: SyscallRule = SyscallRule::IfArgument {
    argument: 0,
    mask: ALL_BITS,
    among: &[RLIMIT_CORE],
    yes: &SUCCEED_WITHOUT_EFFECT,
    no: &ALLOW,
};

/// A limit is changed if the third argument points to the new value.
pub(super) const PRLIMIT64: SyscallRule = SyscallRule::IfArgument {
    argument: 0,
    mask: ALL_BITS,
    among: &[INIT_PID],
    yes: &FORBID,
    no: &SyscallRule::IfArgument {
        argument: 1,
        mask: ALL_BITS,
        among: &[RLIMIT_CORE],
        yes: &SyscallRule::IfPointer {
            argument: 2,
            // A caller that also wants the old limit would get none, so it gets an error.
            yes: &SyscallRule::IfPointer {
                argument: 3,
                yes: &FORBID,
                no: &SUCCEED_WITHOUT_EFFECT,
            },
            no: &ALLOW,
        },
        no: &ALLOW,
    },
};

/// The init process of the cell. The commands of an ordinary user may run as the same user.
const INIT_PID: u32 = 1;

/// `PROCESS` is the index of the argument with the process id.
pub(super) const fn not_of_init<const PROCESS: u8>() -> SyscallRule {
    SyscallRule::IfArgument {
        argument: PROCESS,
        mask: ALL_BITS,
        among: &[INIT_PID],
        yes: &FORBID,
        no: &ALLOW,
    }
}

/// Allows pipes, sockets and regular files, but no devices. `MODE` is the index of the argument with the file type.
pub(super) const fn mknod_rule<const MODE: u8>() -> SyscallRule {
    SyscallRule::IfArgument {
        argument: MODE,
        mask: S_IFMT,
        among: &[S_IFCHR, S_IFBLK],
        yes: &FORBID,
        no: &ALLOW,
    }
}
