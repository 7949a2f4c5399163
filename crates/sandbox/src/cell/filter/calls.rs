//! The table: what each system call is answered.
//!
//! Allowed is what compilers, interpreters and the programs that people write in any language use. Whatever is not
//! in this file does not exist for a command.

use std::collections::BTreeMap;

use libc::*;

use super::Verdict::{Allow, Answer};
use super::{Rule, Verdict};

pub(super) fn known() -> BTreeMap<u32, Rule> {
    let all = |calls: &[&[c_long]], verdict: Verdict| -> Vec<(u32, Rule)> {
        let calls = calls.iter().copied().flatten();
        calls.map(|&call| (call as u32, Rule::Flat(verdict))).collect()
    };
    let looked_at = LOOKED_AT.iter().chain(LOOKED_AT_OF_OLD);
    let mut known = BTreeMap::new();
    known.extend(all(
        &[
            FILES,
            MEMORY,
            PROCESSES,
            IDENTITY,
            SIGNALS,
            TIME,
            SYNCHRONISATION,
            CHANNELS,
            SOCKETS,
            MACHINE,
            OF_OLD,
        ],
        Allow,
    ));
    known.extend(all(&[DANGEROUS, DANGEROUS_OF_OLD], Answer(EPERM)));
    known.extend(all(&[NOTHING_TO_DO], Answer(0)));
    known.extend(looked_at.map(|&(call, rule)| (call as u32, rule)));
    known
}

#[rustfmt::skip]
const FILES: &[c_long] = &[
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2,
    SYS_pwritev2, SYS_lseek, SYS_openat, SYS_openat2, SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_fcntl,
    SYS_flock, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_faccessat, SYS_faccessat2,
    SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_mkdirat, SYS_unlinkat, SYS_renameat,
    SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_fchmod, SYS_fchmodat, FCHMODAT2, SYS_fchown, SYS_fchownat,
    SYS_utimensat, SYS_umask, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync,
    SYS_sync_file_range, SYS_fadvise64, SYS_readahead, SYS_copy_file_range, SYS_sendfile, SYS_splice, SYS_tee,
    SYS_vmsplice, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr,
    SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
];

#[rustfmt::skip]
const MEMORY: &[c_long] = &[
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_msync, SYS_mincore, SYS_mlock, SYS_mlock2,
    SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_mseal, SYS_memfd_create, SYS_pkey_alloc, SYS_pkey_free,
    SYS_pkey_mprotect, SYS_get_mempolicy, SYS_set_mempolicy, SYS_mbind,
];

#[rustfmt::skip]
const PROCESSES: &[c_long] = &[
    SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_getpid, SYS_getppid, SYS_gettid,
    SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_set_tid_address, SYS_getrlimit,
    SYS_setrlimit, SYS_getrusage, SYS_times, SYS_getpriority, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler,
    SYS_sched_getattr, SYS_sched_get_priority_max, SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval, SYS_pidfd_open, SYS_pidfd_send_signal,
];

/// Harmless without capabilities, and some interpreters set what they are already.
#[rustfmt::skip]
const IDENTITY: &[c_long] = &[
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_setuid,
    SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_capget,
    SYS_capset,
];

#[rustfmt::skip]
const SIGNALS: &[c_long] = &[
    SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending, SYS_rt_sigreturn,
    SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sigaltstack,
    SYS_signalfd4, SYS_restart_syscall,
];

#[rustfmt::skip]
const TIME: &[c_long] = &[
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_getitimer,
    SYS_setitimer, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete,
    SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
];

#[rustfmt::skip]
const SYNCHRONISATION: &[c_long] = &[
    SYS_futex, SYS_futex_waitv, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_membarrier,
];

#[rustfmt::skip]
const CHANNELS: &[c_long] = &[
    SYS_pipe2, SYS_eventfd2, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_ppoll,
    SYS_pselect6, SYS_shmget, SYS_shmat, SYS_shmctl, SYS_shmdt, SYS_semget, SYS_semop, SYS_semtimedop, SYS_semctl,
    SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend,
    SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
];

#[rustfmt::skip]
const SOCKETS: &[c_long] = &[
    SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_getsockname, SYS_getpeername, SYS_getsockopt,
    SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_shutdown,
];

const MACHINE: &[c_long] = &[SYS_uname, SYS_sysinfo, SYS_getcpu, SYS_getrandom];

/// Not in every release of `libc` for every machine.
const FCHMODAT2: c_long = 452;

/// What newer machines do by newer calls only.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OF_OLD: &[c_long] = &[
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_getdents, SYS_mkdir, SYS_rmdir,
    SYS_unlink, SYS_rename, SYS_link, SYS_symlink, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes,
    SYS_futimesat, SYS_dup2, SYS_pipe, SYS_poll, SYS_select, SYS_epoll_create, SYS_epoll_wait, SYS_inotify_init,
    SYS_eventfd, SYS_signalfd, SYS_fork, SYS_vfork, SYS_getpgrp, SYS_pause, SYS_alarm, SYS_time, SYS_arch_prctl,
];
#[cfg(target_arch = "aarch64")]
const OF_OLD: &[c_long] = &[];

/// Each would be refused to a command without capabilities as well, or opens a part of the kernel in which holes
/// have been found again and again.
#[rustfmt::skip]
const DANGEROUS: &[c_long] = &[
    // Memory, descriptors and secrets of others.
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp, SYS_add_key, SYS_request_key,
    SYS_keyctl, SYS_perf_event_open, SYS_syslog, SYS_move_pages, SYS_migrate_pages,
    // Files by other ways than their names.
    SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_fanotify_init, SYS_fanotify_mark, SYS_quotactl,
    SYS_quotactl_fd,
    // Other views of files and other namespaces.
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
    SYS_open_tree, SYS_move_mount, SYS_mount_setattr, SYS_setns, SYS_unshare, SYS_setgroups,
    // Programs in the kernel, and work that it does behind the filter's back.
    SYS_bpf, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_userfaultfd, SYS_memfd_secret,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
    // The machine.
    SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_vhangup, SYS_sethostname, SYS_setdomainname,
    SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex,
];

#[cfg(target_arch = "x86_64")]
const DANGEROUS_OF_OLD: &[c_long] = &[SYS_iopl, SYS_ioperm, SYS_modify_ldt];
#[cfg(target_arch = "aarch64")]
const DANGEROUS_OF_OLD: &[c_long] = &[];

/// All that a command can write is in memory. On what it can only read, these would make it wait for the host's
/// disks, and the host with it.
const NOTHING_TO_DO: &[c_long] = &[SYS_sync, SYS_syncfs];

/// Not in every release of `libc` for every machine.
const PER_LINUX32: u32 = 8;

const ALL_BITS: u32 = u32::MAX;
const ALLOW: Rule = Rule::Flat(Allow);
const FORBID: Rule = Rule::Flat(Answer(EPERM));

const LOOKED_AT: &[(c_long, Rule)] = &[
    // `clone3` has its flags in memory, where the filter cannot look: it stays unknown, and programs use `clone`.
    (SYS_clone, CLONE),
    (SYS_socket, SOCKET),
    (SYS_socketpair, SOCKET),
    (SYS_setsockopt, SET_OPTION),
    (SYS_ioctl, DEVICE_CONTROL),
    (SYS_prctl, PROCESS_CONTROL),
    (SYS_personality, PERSONALITY),
    (SYS_madvise, ADVISE),
    (SYS_mknodat, make_node::<2>()),
    (SYS_ptrace, TRACE),
    (SYS_prlimit64, of_others::<0>()),
    (SYS_sched_setaffinity, of_others::<0>()),
    (SYS_sched_setparam, of_others::<0>()),
    (SYS_sched_setscheduler, of_others::<0>()),
    (SYS_setpriority, of_others::<1>()),
];

#[cfg(target_arch = "x86_64")]
const LOOKED_AT_OF_OLD: &[(c_long, Rule)] = &[(SYS_mknod, make_node::<1>())];
#[cfg(target_arch = "aarch64")]
const LOOKED_AT_OF_OLD: &[(c_long, Rule)] = &[];

const CLONE: Rule = Rule::Ask {
    argument: 0,
    mask: (CLONE_NEWNS
        | CLONE_NEWCGROUP
        | CLONE_NEWUTS
        | CLONE_NEWIPC
        | CLONE_NEWUSER
        | CLONE_NEWPID
        | CLONE_NEWNET) as u32,
    among: &[0],
    yes: &ALLOW,
    no: &FORBID,
};

/// Local sockets, TCP and UDP. The kernel would load a module for any other family or protocol that is asked for.
const SOCKET: Rule = Rule::Ask {
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
            among: &[SOCK_STREAM as u32, SOCK_DGRAM as u32],
            yes: &Rule::Ask {
                argument: 2,
                mask: ALL_BITS,
                among: &[0, IPPROTO_TCP as u32, IPPROTO_UDP as u32],
                yes: &ALLOW,
                no: &Rule::Flat(Answer(EPROTONOSUPPORT)),
            },
            no: &FORBID,
        },
        no: &Rule::Flat(Answer(EAFNOSUPPORT)),
    },
};

/// Neither programs in the kernel, nor another protocol on top of TCP.
const SET_OPTION: Rule = Rule::Ask {
    argument: 1,
    mask: ALL_BITS,
    among: &[SOL_SOCKET as u32],
    yes: &Rule::Ask {
        argument: 2,
        mask: ALL_BITS,
        among: &[
            SO_ATTACH_FILTER as u32,
            SO_ATTACH_BPF as u32,
            SO_ATTACH_REUSEPORT_CBPF as u32,
            SO_ATTACH_REUSEPORT_EBPF as u32,
        ],
        yes: &FORBID,
        no: &ALLOW,
    },
    no: &Rule::Ask {
        argument: 1,
        mask: ALL_BITS,
        among: &[SOL_TCP as u32],
        yes: &Rule::Ask {
            argument: 2,
            mask: ALL_BITS,
            among: &[TCP_ULP as u32],
            yes: &Rule::Flat(Answer(ENOPROTOOPT)),
            no: &ALLOW,
        },
        no: &ALLOW,
    },
};

/// Not to type for others on a terminal, nor to change what drives it.
const DEVICE_CONTROL: Rule = Rule::Ask {
    argument: 1,
    mask: ALL_BITS,
    among: &[TIOCSTI as u32, TIOCLINUX as u32, TIOCSETD as u32],
    yes: &FORBID,
    no: &ALLOW,
};

const PROCESS_CONTROL: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[
        PR_SET_NAME as u32,
        PR_GET_NAME as u32,
        PR_SET_PDEATHSIG as u32,
        PR_GET_PDEATHSIG as u32,
        PR_SET_DUMPABLE as u32,
        PR_GET_DUMPABLE as u32,
        PR_SET_CHILD_SUBREAPER as u32,
        PR_GET_CHILD_SUBREAPER as u32,
        PR_SET_NO_NEW_PRIVS as u32,
        PR_GET_NO_NEW_PRIVS as u32,
        PR_GET_SECCOMP as u32,
        PR_GET_SECUREBITS as u32,
        PR_GET_KEEPCAPS as u32,
        PR_CAPBSET_READ as u32,
        PR_CAP_AMBIENT as u32,
        PR_SET_PTRACER as u32,
        PR_SET_TIMERSLACK as u32,
        PR_GET_TIMERSLACK as u32,
        PR_SET_THP_DISABLE as u32,
        PR_GET_THP_DISABLE as u32,
        PR_SET_VMA as u32,
        PR_SET_MDWE as u32,
        PR_GET_MDWE as u32,
        // Vectors and pointers of aarch64; other machines have no such options.
        50,
        51,
        54,
        55,
        56,
        63,
        64,
    ],
    yes: &ALLOW,
    // As for an option that the kernel does not know.
    no: &Rule::Flat(Answer(EINVAL)),
};

/// To ask; the usual one; with fixed addresses, as thread sanitizers want it; and two that only change names.
const PERSONALITY: Rule = Rule::Ask {
    argument: 0,
    mask: ALL_BITS,
    among: &[u32::MAX, 0, ADDR_NO_RANDOMIZE as u32, PER_LINUX32, UNAME26 as u32],
    yes: &ALLOW,
    no: &FORBID,
};

/// Memory that is merged with equal memory of others tells by its speed what others have.
const ADVISE: Rule = Rule::Ask {
    argument: 2,
    mask: ALL_BITS,
    among: &[MADV_MERGEABLE as u32],
    yes: &Rule::Flat(Answer(EINVAL)),
    no: &ALLOW,
};

/// What a leak sanitizer does to its own threads when the program ends. Whom a command could do it to are its own
/// processes: the cell's first one is another user's, or hidden.
const TRACE: Rule = Rule::Ask {
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

/// Not for the cell's first process, which an ordinary user's commands have their user in common with: a limit of CPU
/// time would end it. `PROCESS` is the argument that says whom.
const fn of_others<const PROCESS: u8>() -> Rule {
    const FIRST: u32 = 1;
    Rule::Ask {
        argument: PROCESS,
        mask: ALL_BITS,
        among: &[FIRST],
        yes: &FORBID,
        no: &ALLOW,
    }
}

/// Pipes, sockets and files, but no devices. `MODE` is the argument that says which.
const fn make_node<const MODE: u8>() -> Rule {
    Rule::Ask {
        argument: MODE,
        mask: S_IFMT,
        among: &[S_IFCHR, S_IFBLK],
        yes: &FORBID,
        no: &ALLOW,
    }
}
