//! The table of system calls: what each call is answered, and why.
//!
//! The calls that compilers, interpreters and ordinary programs in any language use are allowed. A call that is not
//! in this file does not exist for a command. Each group says what the kernel allocates for its calls and who pays
//! for it: memory that is charged to the control group is limited by the task's memory limit, and everything else
//! must be bounded in another way. A test generates docs/system-calls.md from this table.

use std::collections::BTreeMap;
use std::str::FromStr;

use syscalls::Sysno;

use super::rules::{self, ALLOW, FORBID, NOT_SUPPORTED, SUCCEED_WITHOUT_EFFECT};
use super::{CommandAffinity, SyscallRule};

/// An entry of the seccomp filter's table: system calls that share one rule for the same reason.
pub(super) struct SyscallGroup {
    /// The names of the calls. Not every architecture has all of them.
    pub(super) calls: &'static [&'static str],
    pub(super) rule: SyscallRule,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a test generates docs/system-calls.md from it")
    )]
    pub(super) why: &'static str,
}

/// The rules by the call numbers of this architecture.
pub(super) fn rules_by_number(affinity: CommandAffinity) -> BTreeMap<u32, SyscallRule> {
    let calls = SYSCALL_GROUPS
        .iter()
        .flat_map(|kind| kind.calls.iter().map(|call| (*call, kind.rule)))
        .map(|(call, rule)| match (call, affinity) {
            (SET_AFFINITY, CommandAffinity::Fixed) => (call, FORBID),
            _ => (call, rule),
        });
    calls
        .filter_map(|(call, rule)| Some((number(call)?, rule)))
        .collect()
}

fn number(call: &str) -> Option<u32> {
    Some(Sysno::from_str(call).ok()?.id() as u32)
}

/// The rules for a system call that differ between the two seccomp filters, of the warden and of the stub.
#[derive(Clone, Copy)]
pub(super) struct RuleSplit {
    pub(super) in_warden: SyscallRule,
    /// `None` means the rule of the table.
    pub(super) in_stub: Option<SyscallRule>,
}

/// Refused if cells are pinned.
const SET_AFFINITY: &str = "sched_setaffinity";

/// Calls that the warden and the processes of a cell need before the command starts, and that the command may not
/// make.
pub(super) fn warden_rule_splits() -> BTreeMap<u32, RuleSplit> {
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
        "ioctl" => RuleSplit {
            in_warden: rules::WARDEN_IOCTL,
            in_stub: Some(rules::STUB_IOCTL),
        },
        _ => RuleSplit {
            in_warden: ALLOW,
            in_stub: None,
        },
    };
    CALLS
        .into_iter()
        .filter_map(|call| Some((number(call)?, split(call))))
        .collect()
}

#[rustfmt::skip]
pub(super) const SYSCALL_GROUPS: &[SyscallGroup] = &[
    SyscallGroup {
        calls: &[
            "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "pwritev2",
            "lseek", "getdents64", "getdents", "sendfile", "splice", "tee", "vmsplice", "copy_file_range",
            "truncate", "ftruncate", "fallocate", "readahead",
        ],
        rule: ALLOW,
        why: "File contents. Pages of written files and of the page cache are charged to the group; the task's file \
              system limits the files.",
    },
    SyscallGroup {
        calls: &["preadv2"],
        rule: rules::PREADV2,
        why: "Like `preadv`. Reading only what needs no waiting (RWF_NOWAIT) would reveal which files of the host \
              are in memory: EOPNOTSUPP, and programs read as usual.",
    },
    SyscallGroup {
        calls: &[
            "open", "creat", "openat", "openat2", "close", "close_range", "dup", "dup2", "dup3", "flock",
        ],
        rule: ALLOW,
        why: "Descriptors. Open files, directory entries and inodes are charged to the group; `open_files` limits \
              them. A `flock` is one small lock for each open file, which is not charged.",
    },
    SyscallGroup {
        calls: &["fcntl"],
        rule: rules::FCNTL,
        why: "Byte-range locks (about 200 bytes each) are not charged and the kernel does not limit them, but \
              databases need them: the executor's reserve of memory bounds them. Leases, notifications about folders \
              (F_NOTIFY), write hints and commands that the filter does not know get EINVAL.",
    },
    SyscallGroup {
        calls: &[
            "stat", "lstat", "fstat", "newfstatat", "fstatat", "statx", "statfs", "fstatfs", "access", "faccessat",
            "faccessat2", "readlink", "readlinkat", "getcwd", "chdir", "fchdir", "umask", "getxattr", "lgetxattr",
            "fgetxattr", "listxattr", "llistxattr", "flistxattr",
        ],
        rule: ALLOW,
        why: "Queries about files. Directory entries and inodes are charged to the group.",
    },
    SyscallGroup {
        calls: &[
            "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat",
            "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown",
            "fchownat", "utime", "utimes", "futimesat", "utimensat", "removexattr", "lremovexattr", "fremovexattr",
        ],
        rule: ALLOW,
        why: "File names and attributes. Inodes are charged to the group, and the task's file system limits their \
              number. The text of a short symbolic link (128 bytes) is not charged.",
    },
    SyscallGroup {
        calls: &["mknod"],
        rule: rules::mknod_rule::<1>(),
        why: "FIFOs, sockets and regular files like any other file; devices are refused with EPERM.",
    },
    SyscallGroup {
        calls: &["mknodat"],
        rule: rules::mknod_rule::<2>(),
        why: "FIFOs, sockets and regular files like any other file; devices are refused with EPERM.",
    },
    SyscallGroup {
        calls: &["setxattr", "lsetxattr", "fsetxattr"],
        rule: NOT_SUPPORTED,
        why: "An access control list of 64 KiB on each of many files is kernel memory that is not charged. The \
              answer is that of a file system without extended attributes.",
    },
    SyscallGroup {
        calls: &["sync", "syncfs", "fsync", "fdatasync", "sync_file_range", "fadvise64"],
        rule: SUCCEED_WITHOUT_EFFECT,
        why: "Everything that a command can write is in memory. For files that it can only read, these calls would \
              flush the host's disks or drop its caches. So they succeed and do nothing.",
    },
    SyscallGroup {
        calls: &[
            "brk", "munmap", "mremap", "mprotect", "msync", "mincore", "mlock", "mlock2", "munlock", "mlockall",
            "munlockall", "mseal", "pkey_alloc", "pkey_free", "pkey_mprotect", "get_mempolicy",
        ],
        rule: ALLOW,
        why: "Memory. Pages, page tables and mappings are charged to the group. `mincore` reveals which pages of a \
              file are in memory if the command's user owns the file: with `sandbox.root` of an ordinary user, all \
              files of the root.",
    },
    SyscallGroup {
        calls: &["mmap"],
        rule: rules::MMAP,
        why: "Memory, charged to the group. A mapping keeps its file open after `close`, so `open_files` does not \
              limit mappings: both (about 400 bytes) are charged to the group. Huge pages of the host's pool, which \
              are not charged, are refused with ENOMEM.",
    },
    SyscallGroup {
        calls: &["memfd_create"],
        rule: rules::MEMFD_CREATE,
        why: "A file in memory, charged to the group. Huge pages of the host's pool, which are not charged, are \
              refused with EINVAL.",
    },
    SyscallGroup {
        calls: &["madvise"],
        rule: rules::MADVISE,
        why: "Pages that it requests are charged to the group. Merging equal memory of different processes would \
              reveal by its timing what others have in memory: MADV_MERGEABLE is refused with EINVAL.",
    },
    SyscallGroup {
        calls: &["clone"],
        rule: rules::CLONE,
        why: "Processes and threads, charged to the group and limited by `processes`. New namespaces are refused \
              with EPERM. (`clone3` passes its flags in memory, which the filter cannot read, so it gets ENOSYS and \
              programs use `clone`.)",
    },
    SyscallGroup {
        calls: &[
            "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "setsid", "setpgid",
            "pidfd_open", "pidfd_send_signal",
        ],
        rule: ALLOW,
        why: "Processes, charged to the group and limited by `processes`. A session has a scheduling group of about \
              a kilobyte for each core that is not charged; there is at most one for each process.",
    },
    SyscallGroup {
        calls: &[
            "getpid", "getppid", "gettid", "getpgid", "getpgrp", "getsid", "set_tid_address", "getrlimit", "getrusage",
            "times", "getpriority", "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
            "sched_getattr", "sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval",
        ],
        rule: ALLOW,
        why: "Queries about processes. Nothing is allocated.",
    },
    SyscallGroup {
        calls: &["setrlimit"],
        rule: rules::SETRLIMIT,
        why: "Limits of the command's own processes; a hard limit can only be lowered. The limit of core files must \
              stay 1, because with 0 a crash would start the host's core dump helper: changing it succeeds and does \
              nothing, because sanitizers exit if it fails.",
    },
    SyscallGroup {
        calls: &["prlimit64"],
        rule: rules::PRLIMIT64,
        why: "Like `setrlimit`, but a call that changes the limit of core files and asks for its old value gets \
              EPERM. For the init process of the cell the call is refused with EPERM: a limit of CPU time would end \
              it.",
    },
    SyscallGroup {
        calls: &[SET_AFFINITY],
        rule: rules::not_of_init::<0>(),
        why: "The CPUs of the command's own processes; for the init process of the cell it is refused with EPERM, and \
              for all processes if their cell is pinned to one CPU. Nothing is allocated.",
    },
    SyscallGroup {
        calls: &["sched_setparam", "sched_setscheduler"],
        rule: rules::not_of_init::<0>(),
        why: "Scheduling of the command's own processes; for the init process of the cell it is refused with EPERM. \
              Nothing is allocated.",
    },
    SyscallGroup {
        calls: &["setpriority"],
        rule: rules::not_of_init::<1>(),
        why: "Scheduling of the command's own processes; for the init process of the cell it is refused with EPERM. \
              Nothing is allocated.",
    },
    SyscallGroup {
        calls: &["prctl"],
        rule: rules::PRCTL,
        why: "Harmless options are allowed. Others get EINVAL, as from a kernel that does not know them; so does \
              naming memory areas (PR_SET_VMA), because the names are not charged.",
    },
    SyscallGroup {
        calls: &["arch_prctl"],
        rule: ALLOW,
        why: "Registers of the processor. Nothing is allocated.",
    },
    SyscallGroup {
        calls: &["personality"],
        rule: rules::PERSONALITY,
        why: "Allowed are queries, the default personality, fixed addresses, which thread sanitizers need, and two \
              that only change names. Others are refused with EPERM.",
    },
    SyscallGroup {
        calls: &["ptrace"],
        rule: rules::PTRACE,
        why: "Allowed is what a leak sanitizer does to its own threads; everything else is refused with EPERM, so \
              `strace` does not work.",
    },
    SyscallGroup {
        calls: &[
            "getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "setuid", "setgid",
            "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "capget", "capset",
        ],
        rule: ALLOW,
        why: "Harmless without capabilities; some interpreters set the ids that they already have. Credentials are \
              charged to the group.",
    },
    SyscallGroup {
        calls: &[
            "kill", "tkill", "tgkill", "rt_sigaction", "rt_sigprocmask", "rt_sigpending", "rt_sigreturn",
            "rt_sigsuspend", "rt_sigtimedwait", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigaltstack", "signalfd",
            "signalfd4", "restart_syscall", "pause",
        ],
        rule: ALLOW,
        why: "Signals. Pending signals are charged to the group and limited for each user by RLIMIT_SIGPENDING.",
    },
    SyscallGroup {
        calls: &[
            "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time", "alarm",
            "getitimer", "setitimer",
        ],
        rule: ALLOW,
        why: "Clocks and sleeping. Nothing is allocated.",
    },
    SyscallGroup {
        calls: &[
            "timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete", "timerfd_create",
            "timerfd_settime", "timerfd_gettime",
        ],
        rule: ALLOW,
        why: "Timers, charged to the group. RLIMIT_SIGPENDING limits the first five calls, `open_files` the others \
              (about 200 bytes each are not charged).",
    },
    SyscallGroup {
        calls: &["futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "membarrier"],
        rule: ALLOW,
        why: "Synchronisation. Memory is allocated only while a thread waits, and `processes` limits the threads.",
    },
    SyscallGroup {
        calls: &[
            "pipe", "pipe2", "eventfd", "eventfd2", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait",
            "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6",
        ],
        rule: ALLOW,
        why: "Communication between processes. Pipes, their pages and epoll watches are charged to the group; \
              watches are also limited for each user.",
    },
    SyscallGroup {
        calls: &["shmget"],
        rule: rules::SHMGET,
        why: "Shared memory, charged to the group. Huge pages of the host's pool, which are not charged, are refused \
              with ENOMEM.",
    },
    SyscallGroup {
        calls: &[
            "shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv",
            "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
        ],
        rule: ALLOW,
        why: "System V and POSIX queues, semaphores and shared memory, in the ipc namespace of the cell. Charged to \
              the group.",
    },
    SyscallGroup {
        calls: &["socket", "socketpair"],
        rule: rules::SOCKET,
        why: "Local sockets, TCP and UDP, charged to the group. Other families (EAFNOSUPPORT) and protocols \
              (EPROTONOSUPPORT) are refused, because the kernel would load a module for them; raw sockets are \
              refused with EPERM.",
    },
    SyscallGroup {
        calls: &["setsockopt"],
        rule: rules::SETSOCKOPT,
        why: "Only common options. Socket filters are programs in the kernel: EPERM. Others get ENOPROTOOPT: sticky \
              IPv6 options, group memberships, source lists and keys are kernel memory that is not charged. An \
              address that is bound with SO_REUSEPORT takes 2 KiB that are not charged; the number of ports limits \
              them.",
    },
    SyscallGroup {
        calls: &[
            "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername", "getsockopt", "sendto",
            "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown",
        ],
        rule: ALLOW,
        why: "Data in local sockets is charged to the group, and `open_files` limits the descriptors in flight for \
              each user. Data in TCP and UDP sockets is charged to the group (cgroup v2) or has its own limit there \
              (cgroup v1).",
    },
    SyscallGroup {
        calls: &["ioctl"],
        rule: rules::IOCTL,
        why: "Requests to terminals, pipes and sockets. Inserting input into a terminal (TIOCSTI) or changing its \
              line discipline is refused with EPERM. All other requests get ENOTTY, so none reaches a file system of \
              the host or makes the kernel load a module.",
    },
    SyscallGroup {
        calls: &["uname", "sysinfo", "getcpu", "getrandom"],
        rule: ALLOW,
        why: "Queries about the machine. Nothing is allocated.",
    },
    SyscallGroup {
        calls: &[
            "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "add_key", "request_key", "keyctl",
            "perf_event_open", "syslog",
        ],
        rule: FORBID,
        why: "Access to memory, descriptors and secrets of other processes.",
    },
    SyscallGroup {
        calls: &[
            "open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd",
        ],
        rule: FORBID,
        why: "Access to files other than by their names, and notifications about what others do with files.",
    },
    SyscallGroup {
        calls: &[
            "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
            "move_mount", "mount_setattr", "setns", "unshare", "setgroups",
        ],
        rule: FORBID,
        why: "Changes of the mounts, and other namespaces.",
    },
    SyscallGroup {
        calls: &[
            "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "memfd_secret",
            "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
        ],
        rule: FORBID,
        why: "Programs in the kernel, and work that the kernel does without passing the filter.",
    },
    SyscallGroup {
        calls: &[
            "reboot", "swapon", "swapoff", "acct", "vhangup", "sethostname", "setdomainname", "settimeofday",
            "clock_settime", "clock_adjtime", "adjtimex", "iopl", "ioperm", "modify_ldt",
        ],
        rule: FORBID,
        why: "Control of the machine.",
    },
];

/// Why calls without a group are not allowed, if there is more to say than that programs do not need them.
#[cfg(test)]
#[rustfmt::skip]
pub(super) const UNKNOWN: &[(&[&str], &str)] = &[
    (&["clone3"], "Its flags are in memory, which the filter cannot read; programs use `clone` instead."),
    (
        &["inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch"],
        "A watch on a shared folder reveals what other tasks and the host run, and instances are counted for the \
         host's user. `tail -f` and similar programs poll instead; programs that depend on inotify, such as file \
         watchers of Node and Java, fail as on a kernel without it.",
    ),
    (
        &["mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages"],
        "Placement of memory on NUMA nodes. The policy ranges of a shared file are not charged.",
    ),
    (
        &["setxattrat", "getxattrat", "listxattrat", "removexattrat", "file_setattr", "file_getattr"],
        "Newer forms of calls whose older forms are refused or allowed.",
    ),
    (
        &["io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel", "io_destroy"],
        "Queues of which the host has a fixed number for all users together.",
    ),
    (&["seccomp"], "Filters are programs in the kernel."),
    (&["cachestat"], "Reveals which files of the host are in memory."),
];
