//! Calls of which the arguments decide.

use libc::*;

use super::Rule;
use super::Verdict::{Allow, Answer};

const ALL_BITS: u32 = u32::MAX;
pub(super) const ALLOW: Rule = Rule::Flat(Allow);
/// As for a call that the kernel does not have.
pub(super) const UNKNOWN: Rule = Rule::Flat(Answer(ENOSYS));
pub(super) const FORBID: Rule = Rule::Flat(Answer(EPERM));
pub(super) const NOTHING_TO_DO: Rule = Rule::Flat(Answer(0));
/// As for an option or a request that the kernel does not know.
const INVALID: Rule = Rule::Flat(Answer(EINVAL));
pub(super) const NOT_SUPPORTED: Rule = Rule::Flat(Answer(EOPNOTSUPP));
const NO_MEMORY: Rule = Rule::Flat(Answer(ENOMEM));
const NO_SUCH_OPTION: Rule = Rule::Flat(Answer(ENOPROTOOPT));
const NO_SUCH_REQUEST: Rule = Rule::Flat(Answer(ENOTTY));

pub(super) const CLONE: Rule = without(0, NAMESPACES as u32, &FORBID);
pub(super) const READ_NOW: Rule = without(5, RWF_NOWAIT as u32, &NOT_SUPPORTED);
pub(super) const MAP: Rule = without(3, MAP_HUGETLB as u32, &NO_MEMORY);
pub(super) const MEMORY_FILE: Rule = without(1, MFD_HUGETLB, &INVALID);
pub(super) const SHARED_MEMORY: Rule = without(2, SHM_HUGETLB as u32, &NO_MEMORY);

const NAMESPACES: c_int =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// Allowed if none of these flags is set.
const fn without(argument: u8, flags: u32, otherwise: &'static Rule) -> Rule {
    Rule::Ask {
        argument,
        mask: flags,
        among: &[0],
        yes: &ALLOW,
        no: otherwise,
    }
}

/// Descriptors, flags, locks, owners, pipes and seals, by the kernel's numbers: `libc` does not have all of them.
#[rustfmt::skip]
pub(super) const FILE_CONTROL: Rule = Rule::Ask {
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
pub(super) const SOCKET: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[AF_UNIX as u32],
    yes: &ALLOW,
    no: &Rule::Ask {
        argument: 0,
        mask: ALL_BITS,
        among: &[AF_INET as u32, AF_INET6 as u32],
        yes: &Rule::Ask {
            argument: 1,
            // Without the flags that go with it.
            mask: 0xf,
            among: &[SOCK_STREAM as u32],
            yes: &protocol(&[0, IPPROTO_TCP as u32]),
            no: &Rule::Ask {
                argument: 1,
                mask: 0xf,
                among: &[SOCK_DGRAM as u32],
                yes: &protocol(&[0, IPPROTO_UDP as u32]),
                no: &FORBID,
            },
        },
        no: &Rule::Flat(Answer(EAFNOSUPPORT)),
    },
};

const fn protocol(among: &'static [u32]) -> Rule {
    Rule::Ask {
        argument: 2,
        mask: ALL_BITS,
        among,
        yes: &ALLOW,
        no: &Rule::Flat(Answer(EPROTONOSUPPORT)),
    }
}

pub(super) const SET_OPTION: Rule = level(&[SOL_SOCKET as u32], &SOCKET_OPTION, &OF_PROTOCOL);
const OF_PROTOCOL: Rule = level(&[SOL_TCP as u32], &TCP_OPTION, &BUT_TCP);
const BUT_TCP: Rule = level(&[SOL_UDP as u32], &UDP_OPTION, &BUT_UDP);
const BUT_UDP: Rule = level(&[SOL_IP as u32], &IP_OPTION, &BUT_IP);
const BUT_IP: Rule = level(&[SOL_IPV6 as u32], &IPV6_OPTION, &NO_SUCH_OPTION);

const fn level(level: &'static [u32], options: &'static Rule, others: &'static Rule) -> Rule {
    Rule::Ask {
        argument: 1,
        mask: ALL_BITS,
        among: level,
        yes: options,
        no: others,
    }
}

const fn option(among: &'static [u32], no: &'static Rule) -> Rule {
    Rule::Ask {
        argument: 2,
        mask: ALL_BITS,
        among,
        yes: &ALLOW,
        no,
    }
}

#[rustfmt::skip]
const SOCKET_OPTION: Rule = option(
    &[
        SO_DEBUG as u32, SO_REUSEADDR as u32, SO_DONTROUTE as u32, SO_BROADCAST as u32, SO_SNDBUF as u32,
        SO_RCVBUF as u32, SO_KEEPALIVE as u32, SO_OOBINLINE as u32, SO_PRIORITY as u32, SO_LINGER as u32,
        SO_REUSEPORT as u32, SO_PASSCRED as u32, SO_RCVLOWAT as u32, SO_SNDLOWAT as u32, SO_RCVTIMEO as u32,
        SO_SNDTIMEO as u32, SO_TIMESTAMP as u32, SO_TIMESTAMPNS as u32, SO_BINDTODEVICE as u32, SO_PEEK_OFF as u32,
        SO_BUSY_POLL as u32, SO_INCOMING_CPU as u32, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW, SO_TIMESTAMP_NEW,
        SO_TIMESTAMPNS_NEW,
    ],
    &Rule::Ask {
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

/// Not in every release of `libc` for every machine.
const SO_TIMESTAMP_NEW: u32 = 63;
const SO_TIMESTAMPNS_NEW: u32 = 64;
const SO_RCVTIMEO_NEW: u32 = 66;
const SO_SNDTIMEO_NEW: u32 = 67;

/// Neither keys, nor another protocol on top.
#[rustfmt::skip]
const TCP_OPTION: Rule = option(
    &[
        TCP_NODELAY as u32, TCP_MAXSEG as u32, TCP_CORK as u32, TCP_KEEPIDLE as u32, TCP_KEEPINTVL as u32,
        TCP_KEEPCNT as u32, TCP_SYNCNT as u32, TCP_LINGER2 as u32, TCP_DEFER_ACCEPT as u32,
        TCP_WINDOW_CLAMP as u32, TCP_QUICKACK as u32, TCP_USER_TIMEOUT as u32, TCP_FASTOPEN as u32,
        TCP_NOTSENT_LOWAT as u32, TCP_FASTOPEN_CONNECT as u32,
    ],
    &NO_SUCH_OPTION,
);

const UDP_OPTION: Rule = option(
    &[UDP_CORK as u32, UDP_SEGMENT as u32, UDP_GRO as u32],
    &NO_SUCH_OPTION,
);

#[rustfmt::skip]
const IP_OPTION: Rule = option(
    &[
        IP_TOS as u32, IP_TTL as u32, IP_PKTINFO as u32, IP_MTU_DISCOVER as u32, IP_RECVERR as u32,
        IP_RECVTTL as u32, IP_RECVTOS as u32, IP_BIND_ADDRESS_NO_PORT as u32,
        IP_MULTICAST_IF as u32, IP_MULTICAST_TTL as u32, IP_MULTICAST_LOOP as u32,
    ],
    &NO_SUCH_OPTION,
);

#[rustfmt::skip]
const IPV6_OPTION: Rule = option(
    &[
        IPV6_UNICAST_HOPS as u32, IPV6_MULTICAST_IF as u32, IPV6_MULTICAST_HOPS as u32,
        IPV6_MULTICAST_LOOP as u32, IPV6_MTU_DISCOVER as u32, IPV6_MTU as u32, IPV6_RECVERR as u32,
        IPV6_V6ONLY as u32, IPV6_RECVPKTINFO as u32, IPV6_RECVHOPLIMIT as u32, IPV6_RECVTCLASS as u32,
        IPV6_TCLASS as u32, IPV6_DONTFRAG as u32,
    ],
    &NO_SUCH_OPTION,
);

/// Of the requests to sockets those that only ask, or concern the process itself.
#[rustfmt::skip]
pub(super) const DEVICE_CONTROL: Rule = Rule::Ask {
    argument: 1,
    mask: ALL_BITS,
    among: &[TIOCSTI as u32, TIOCLINUX as u32, TIOCSETD as u32],
    yes: &FORBID,
    no: &Rule::Ask {
        argument: 1,
        // What numbers of requests to terminals and pipes, and of those that every descriptor knows, have in common.
        mask: 0xffff_ff00,
        among: &[0x5400],
        yes: &ALLOW,
        no: &Rule::Ask {
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

/// The warden's part of it: it raises the loopback interface of a cell that has one.
pub(super) const WARDEN_DEVICE_CONTROL: Rule = raises_interface(&ALLOW, &DEVICE_CONTROL);
pub(super) const NOT_OF_WARDEN: Rule = raises_interface(&NO_SUCH_REQUEST, &ALLOW);

const fn raises_interface(yes: &'static Rule, no: &'static Rule) -> Rule {
    Rule::Ask {
        argument: 1,
        mask: ALL_BITS,
        among: &[SIOCSIFFLAGS],
        yes,
        no,
    }
}

/// The kernel's numbers, the same on both machines; `libc` does not have all of them.
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
pub(super) const PROCESS_CONTROL: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[
        PR_SET_NAME as u32, PR_GET_NAME as u32, PR_SET_PDEATHSIG as u32, PR_GET_PDEATHSIG as u32,
        PR_SET_DUMPABLE as u32, PR_GET_DUMPABLE as u32, PR_SET_CHILD_SUBREAPER as u32,
        PR_GET_CHILD_SUBREAPER as u32, PR_SET_NO_NEW_PRIVS as u32, PR_GET_NO_NEW_PRIVS as u32,
        PR_GET_SECCOMP as u32, PR_GET_SECUREBITS as u32, PR_GET_KEEPCAPS as u32, PR_CAPBSET_READ as u32,
        PR_CAP_AMBIENT as u32, PR_SET_PTRACER as u32, PR_SET_TIMERSLACK as u32, PR_GET_TIMERSLACK as u32,
        PR_SET_THP_DISABLE as u32, PR_GET_THP_DISABLE as u32, PR_SET_MDWE as u32, PR_GET_MDWE as u32,
        // Vectors and pointers of aarch64; other machines have no such options.
        50, 51, 54, 55, 56, 63, 64,
    ],
    yes: &ALLOW,
    no: &INVALID,
};

pub(super) const PERSONALITY: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[u32::MAX, 0, ADDR_NO_RANDOMIZE as u32, PER_LINUX32, UNAME26 as u32],
    yes: &ALLOW,
    no: &FORBID,
};

/// Not in every release of `libc` for every machine.
const PER_LINUX32: u32 = 8;

pub(super) const ADVISE: Rule = Rule::Ask {
    argument: 2,
    mask: ALL_BITS,
    among: &[MADV_MERGEABLE as u32],
    yes: &INVALID,
    no: &ALLOW,
};

/// Those to whom a command could do it are its own processes: the cell's first one is another user's, or hidden.
pub(super) const TRACE: Rule = Rule::Ask {
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

/// Not in every release of `libc` for every machine.
const PTRACE_GETREGS: u32 = 12;
const PTRACE_GETREGSET: u32 = 0x4204;

/// The limit of core files stays as it is. Sanitizers, which set it to 0, end if they cannot.
pub(super) const SET_LIMIT: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[RLIMIT_CORE],
    yes: &NOTHING_TO_DO,
    no: &ALLOW,
};

/// A limit is changed where the third argument says to what.
pub(super) const LIMIT_OF_PROCESS: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[FIRST],
    yes: &FORBID,
    no: &Rule::Ask {
        argument: 1,
        mask: ALL_BITS,
        among: &[RLIMIT_CORE],
        yes: &Rule::Given {
            argument: 2,
            // Who wants the old limit at the same time must not be left with none.
            yes: &Rule::Given {
                argument: 3,
                yes: &FORBID,
                no: &NOTHING_TO_DO,
            },
            no: &ALLOW,
        },
        no: &ALLOW,
    },
};

/// The cell's first process, which an ordinary user's commands have their user in common with.
const FIRST: u32 = 1;

/// `PROCESS` is the argument that says whom.
pub(super) const fn of_others<const PROCESS: u8>() -> Rule {
    Rule::Ask {
        argument: PROCESS,
        mask: ALL_BITS,
        among: &[FIRST],
        yes: &FORBID,
        no: &ALLOW,
    }
}

/// Pipes, sockets and files, but no devices. `MODE` is the argument that says which.
pub(super) const fn make_node<const MODE: u8>() -> Rule {
    Rule::Ask {
        argument: MODE,
        mask: S_IFMT,
        among: &[S_IFCHR, S_IFBLK],
        yes: &FORBID,
        no: &ALLOW,
    }
}
