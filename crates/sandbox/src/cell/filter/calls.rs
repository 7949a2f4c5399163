//! The table: what each system call is answered, and why.
//!
//! Allowed is what compilers, interpreters and the programs that people write in any language use. A call that is not in
//! this file does not exist for a command. Each kind of calls says what the kernel allocates for them and who pays: what
//! is charged to the control group ends with the task's own limit; what is not must be bounded by something else.
//! docs/system-calls.md is made of this table, by a test.

use std::collections::BTreeMap;
use std::str::FromStr;

use syscalls::Sysno;

use super::Rule;
use super::rules::{self, ALLOW, FORBID, NOT_SUPPORTED, NOTHING_TO_DO};

/// Calls that get the same answer for the same reason.
pub(super) struct Kind {
    /// By their names. Not every machine has each of them.
    pub(super) calls: &'static [&'static str],
    pub(super) rule: Rule,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a test makes docs/system-calls.md of it")
    )]
    pub(super) why: &'static str,
}

/// By the numbers of this machine.
pub(super) fn known() -> BTreeMap<u32, Rule> {
    let calls = KINDS
        .iter()
        .flat_map(|kind| kind.calls.iter().map(|call| (call, kind.rule)));
    calls
        .filter_map(|(call, rule)| Some((number(call)?, rule)))
        .collect()
}

fn number(call: &str) -> Option<u32> {
    Some(Sysno::from_str(call).ok()?.id() as u32)
}

/// How the answer to a call is split between the two filters.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) shared: Rule,
    /// None: that of the table.
    pub(super) last: Option<Rule>,
}

/// What the warden and the processes of a cell need until the command begins, and the command may not have.
pub(super) fn of_warden() -> BTreeMap<u32, Split> {
    const CALLS: [&str; 14] = [
        "clone3",
        "unshare",
        "setns",
        "mount",
        "umount2",
        "fsopen",
        "fsconfig",
        "fsmount",
        "setgroups",
        "landlock_create_ruleset",
        "landlock_add_rule",
        "landlock_restrict_self",
        "seccomp",
        "ioctl",
    ];
    let split = |call| match call {
        "ioctl" => Split {
            shared: rules::WARDEN_DEVICE_CONTROL,
            last: Some(rules::NOT_OF_WARDEN),
        },
        _ => Split {
            shared: ALLOW,
            last: None,
        },
    };
    CALLS
        .into_iter()
        .filter_map(|call| Some((number(call)?, split(call))))
        .collect()
}

#[rustfmt::skip]
pub(super) const KINDS: &[Kind] = &[
    Kind {
        calls: &[
            "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "pwritev2",
            "lseek", "getdents64", "getdents", "sendfile", "splice", "tee", "vmsplice", "copy_file_range",
            "truncate", "ftruncate", "fallocate", "readahead",
        ],
        rule: ALLOW,
        why: "Contents of files. Pages of written files and of caches are charged to the group; the task's file system \
              bounds the files.",
    },
    Kind {
        calls: &["preadv2"],
        rule: rules::READ_NOW,
        why: "As `preadv`. To read only what needs no waiting (RWF_NOWAIT) would tell what of the host's files others have \
              in use: EOPNOTSUPP, and programs read as usual.",
    },
    Kind {
        calls: &[
            "open", "creat", "openat", "openat2", "close", "close_range", "dup", "dup2", "dup3", "flock",
        ],
        rule: ALLOW,
        why: "Descriptors. Files, directory entries and inodes are charged to the group; `open_files` bounds them. A \
              `flock` is one small lock for each open file, not charged.",
    },
    Kind {
        calls: &["fcntl"],
        rule: rules::FILE_CONTROL,
        why: "Byte-range locks (about 200 bytes each) are not charged and have no limit in the kernel, and databases need \
              them: the executor's reserve of memory bounds them. What is new to us gets EINVAL, as do leases, \
              notifications of what others do in a folder (F_NOTIFY) and write hints.",
    },
    Kind {
        calls: &[
            "stat", "lstat", "fstat", "newfstatat", "fstatat", "statx", "statfs", "fstatfs", "access", "faccessat",
            "faccessat2", "readlink", "readlinkat", "getcwd", "chdir", "fchdir", "umask", "getxattr", "lgetxattr",
            "fgetxattr", "listxattr", "llistxattr", "flistxattr",
        ],
        rule: ALLOW,
        why: "Questions about files. Directory entries and inodes are charged to the group.",
    },
    Kind {
        calls: &[
            "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat",
            "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown",
            "fchownat", "utime", "utimes", "futimesat", "utimensat", "removexattr", "lremovexattr", "fremovexattr",
        ],
        rule: ALLOW,
        why: "Names of files. Inodes are charged to the group, and the task's file system bounds their number. The text \
              of a short symbolic link (128 bytes) is not charged.",
    },
    Kind {
        calls: &["mknod"],
        rule: rules::make_node::<1>(),
        why: "Pipes, sockets and files as for other names; devices are refused with EPERM.",
    },
    Kind {
        calls: &["mknodat"],
        rule: rules::make_node::<2>(),
        why: "Pipes, sockets and files as for other names; devices are refused with EPERM.",
    },
    Kind {
        calls: &["setxattr", "lsetxattr", "fsetxattr"],
        rule: NOT_SUPPORTED,
        why: "An access control list of 64 KiB on each of many files is kernel memory that is not charged. The answer is \
              that of a file system without attributes.",
    },
    Kind {
        calls: &["sync", "syncfs", "fsync", "fdatasync", "sync_file_range", "fadvise64"],
        rule: NOTHING_TO_DO,
        why: "All that a command can write is in memory. On what it can only read, these would flush the host's disks or \
              empty its caches. So they succeed and do nothing.",
    },
    Kind {
        calls: &[
            "brk", "munmap", "mremap", "mprotect", "msync", "mincore", "mlock", "mlock2", "munlock", "mlockall",
            "munlockall", "mseal", "pkey_alloc", "pkey_free", "pkey_mprotect", "get_mempolicy",
        ],
        rule: ALLOW,
        why: "Memory. Pages, page tables and maps are charged to the group. `mincore` tells which pages of a file are in \
              memory if the command's user owns the file: with an ordinary user's `sandbox.root`, all files of the root.",
    },
    Kind {
        calls: &["mmap"],
        rule: rules::MAP,
        why: "Memory, charged to the group. A mapping holds its file after `close`, so `open_files` does not bound these: \
              both (about 400 bytes) are charged to the group. Huge pages of the host's pool, which are not, are refused \
              with ENOMEM.",
    },
    Kind {
        calls: &["memfd_create"],
        rule: rules::MEMORY_FILE,
        why: "A file in memory, charged to the group. Huge pages of the host's pool, which are not, are refused with \
              EINVAL.",
    },
    Kind {
        calls: &["madvise"],
        rule: rules::ADVISE,
        why: "Pages that it asks for are charged to the group. Memory that is merged with equal memory of others tells by its speed what others have: \
              MADV_MERGEABLE is refused with EINVAL.",
    },
    Kind {
        calls: &["clone"],
        rule: rules::CLONE,
        why: "Processes and threads, charged to the group and bounded by `processes`. New namespaces are refused with \
              EPERM. (`clone3` has its flags in memory, where the filter cannot look, so it is unknown and programs use \
              `clone`.)",
    },
    Kind {
        calls: &[
            "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "setsid", "setpgid",
            "pidfd_open", "pidfd_send_signal",
        ],
        rule: ALLOW,
        why: "Processes, charged to the group and bounded by `processes`. A session has a scheduling group of about a \
              kilobyte for each core that is not charged: one for each process at most.",
    },
    Kind {
        calls: &[
            "getpid", "getppid", "gettid", "getpgid", "getpgrp", "getsid", "set_tid_address", "getrlimit", "getrusage",
            "times", "getpriority", "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
            "sched_getattr", "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
        ],
        rule: ALLOW,
        why: "Questions about processes. Nothing is allocated.",
    },
    Kind {
        calls: &["setrlimit"],
        rule: rules::SET_LIMIT,
        why: "Limits of the command's own processes; a hard limit only falls. That of core files must stay 1, since with \
              0 a crash would start the host's core dump helper: a change of it succeeds and does nothing, because \
              sanitizers end if it fails.",
    },
    Kind {
        calls: &["prlimit64"],
        rule: rules::LIMIT_OF_PROCESS,
        why: "As `setrlimit`; with EPERM for who asks for the old limit of core files at the same time. The cell's first \
              process is refused with EPERM: a limit of CPU time would end it.",
    },
    Kind {
        calls: &["sched_setaffinity", "sched_setparam", "sched_setscheduler"],
        rule: rules::of_others::<0>(),
        why: "Of the command's own processes; the cell's first one is refused with EPERM. Nothing is allocated.",
    },
    Kind {
        calls: &["setpriority"],
        rule: rules::of_others::<1>(),
        why: "Of the command's own processes; the cell's first one is refused with EPERM. Nothing is allocated.",
    },
    Kind {
        calls: &["prctl"],
        rule: rules::PROCESS_CONTROL,
        why: "Harmless options. Others get EINVAL, as from a kernel that does not know them; so does the naming of memory \
              (PR_SET_VMA), whose texts are not charged.",
    },
    Kind {
        calls: &["arch_prctl"],
        rule: ALLOW,
        why: "Registers of the processor. Nothing is allocated.",
    },
    Kind {
        calls: &["personality"],
        rule: rules::PERSONALITY,
        why: "To ask; the usual one; fixed addresses, as thread sanitizers want them; and two that only change names. \
              Others are refused with EPERM.",
    },
    Kind {
        calls: &["ptrace"],
        rule: rules::TRACE,
        why: "What a leak sanitizer does to its own threads; all else is refused with EPERM, so `strace` does not work.",
    },
    Kind {
        calls: &[
            "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "setuid", "setgid",
            "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "capget", "capset",
        ],
        rule: ALLOW,
        why: "Harmless without capabilities, and some interpreters set what they are already. Credentials are charged to \
              the group.",
    },
    Kind {
        calls: &[
            "kill", "tkill", "tgkill", "rt_sigaction", "rt_sigprocmask", "rt_sigpending", "rt_sigreturn",
            "rt_sigsuspend", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigaltstack", "signalfd",
            "signalfd4", "restart_syscall", "pause",
        ],
        rule: ALLOW,
        why: "Signals. Those that wait are charged to the group and bounded for the user by RLIMIT_SIGPENDING.",
    },
    Kind {
        calls: &[
            "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "alarm",
            "getitimer", "setitimer",
        ],
        rule: ALLOW,
        why: "Time. Nothing is allocated.",
    },
    Kind {
        calls: &[
            "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "timerfd_create",
            "timerfd_settime", "timerfd_gettime",
        ],
        rule: ALLOW,
        why: "Timers. Charged to the group; RLIMIT_SIGPENDING bounds the first five, `open_files` the others (about 200 \
              bytes each are not charged).",
    },
    Kind {
        calls: &["futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "membarrier"],
        rule: ALLOW,
        why: "Synchronisation. What is allocated lasts as long as a thread waits, and `processes` bounds the threads.",
    },
    Kind {
        calls: &[
            "pipe", "pipe2", "eventfd", "eventfd2", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait",
            "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
        ],
        rule: ALLOW,
        why: "Channels between processes. Pipes, their pages and epoll watches are charged to the group; watches are \
              bounded for the user too.",
    },
    Kind {
        calls: &["shmget"],
        rule: rules::SHARED_MEMORY,
        why: "Charged to the group. Huge pages of the host's pool, which are not, are refused with ENOMEM.",
    },
    Kind {
        calls: &[
            "shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv",
            "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
        ],
        rule: ALLOW,
        why: "System V and POSIX queues, semaphores and shared memory, in an ipc namespace of the cell's own. Charged to \
              the group.",
    },
    Kind {
        calls: &["socket", "socketpair"],
        rule: rules::SOCKET,
        why: "Local sockets, TCP and UDP; the kernel would load a module for other families (EAFNOSUPPORT) and protocols \
              (EPROTONOSUPPORT), and raw ones are refused with EPERM. Charged to the group.",
    },
    Kind {
        calls: &["setsockopt"],
        rule: rules::SET_OPTION,
        why: "Usual options alone. Filters are programs in the kernel: EPERM. Others get ENOPROTOOPT: sticky IPv6 \
              options, group memberships, source lists and keys are kernel memory that is not charged. An address that is \
              bound with SO_REUSEPORT takes 2 KiB that are not charged; ports bound them.",
    },
    Kind {
        calls: &[
            "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername", "getsockopt", "sendto",
            "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown",
        ],
        rule: ALLOW,
        why: "What waits in local sockets is charged to the group, and descriptors on their way are bounded by \
              `open_files` for the user. What waits in TCP and UDP sockets is charged to the group (version 2) or has a \
              limit of its own there (version 1).",
    },
    Kind {
        calls: &["ioctl"],
        rule: rules::DEVICE_CONTROL,
        why: "Requests to terminals, pipes and sockets. To type for others on a terminal or to change what drives it is \
              refused with EPERM; all other requests get ENOTTY, so none reaches a file system of the host or has a \
              module loaded.",
    },
    Kind {
        calls: &["uname", "sysinfo", "getcpu", "getrandom"],
        rule: ALLOW,
        why: "Questions about the machine. Nothing is allocated.",
    },
    Kind {
        calls: &[
            "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "add_key", "request_key", "keyctl",
            "perf_event_open", "syslog",
        ],
        rule: FORBID,
        why: "Memory, descriptors and secrets of others.",
    },
    Kind {
        calls: &[
            "open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd",
        ],
        rule: FORBID,
        why: "Files by other ways than their names, and what others do with files.",
    },
    Kind {
        calls: &[
            "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
            "move_mount", "mount_setattr", "setns", "unshare", "setgroups",
        ],
        rule: FORBID,
        why: "Other views of files, and other namespaces.",
    },
    Kind {
        calls: &[
            "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "memfd_secret",
            "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
        ],
        rule: FORBID,
        why: "Programs in the kernel, and work that it does behind the filter's back.",
    },
    Kind {
        calls: &[
            "reboot", "swapon", "swapoff", "acct", "vhangup", "sethostname", "setdomainname", "settimeofday",
            "clock_settime", "clock_adjtime", "adjtimex", "iopl", "ioperm", "modify_ldt",
        ],
        rule: FORBID,
        why: "The machine.",
    },
];

/// Why calls that are in no kind are unknown, where there is more to say than that nobody needs them.
#[cfg(test)]
#[rustfmt::skip]
pub(super) const UNKNOWN: &[(&[&str], &str)] = &[
    (&["clone3"], "Its flags are in memory, where the filter cannot look; programs use `clone` instead."),
    (
        &["inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch"],
        "A watch on a shared folder tells what neighbours and the host run, and instances are counted for the host's user. \
         `tail -f` and the like look again and again instead; what cannot do without, as watchers of Node and Java, fails \
         as on a kernel without inotify.",
    ),
    (
        &["mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages"],
        "Placement of memory on nodes of the machine. Ranges of a shared file's policy are not charged.",
    ),
    (
        &["setxattrat", "getxattrat", "listxattrat", "removexattrat", "file_setattr", "file_getattr"],
        "Newer forms of calls that are refused or allowed in their older ones.",
    ),
    (
        &["io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel", "io_destroy"],
        "Queues of the host, of which there is a fixed number for all users together.",
    ),
    (&["seccomp"], "Filters are programs in the kernel."),
    (&["cachestat"], "Tells what of the host's files is in memory."),
];
