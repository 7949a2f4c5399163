//! Real processes make calls that must be refused.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libc::*;

use super::super::SeccompAction::{self, KillProcess, ReturnErrno};
use super::filtered;

fn compiled(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&file, source).unwrap();
    let output = Command::new("cc")
        .arg("-O1")
        .arg("-o")
        .arg(&program)
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// A program that makes one call with the given arguments and prints the error number.
const CALL: &str = r#"
    #include <errno.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(int count, char **words) {
        unsigned long a[7] = {0};
        for (int i = 1; i < count && i <= 7; i++) a[i - 1] = strtoul(words[i], 0, 0);
        setsid();
        long result = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
        printf("%d", result == -1 ? errno : 0);
        return 0;
    }
"#;

fn action_of(output: &Output) -> SeccompAction {
    match output.status.signal() {
        Some(SIGSYS) => KillProcess,
        Some(signal) => panic!("killed by signal {signal}"),
        None => ReturnErrno(String::from_utf8_lossy(&output.stdout).parse().unwrap()),
    }
}

/// The tests run as root, to whom the kernel would give other answers. The arguments are invalid or have no effect.
#[test]
fn each_refused_call_fails_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "call", CALL);
    let check = |call: c_long, arguments: &[u64], wanted: SeccompAction| {
        let words = arguments.iter().map(u64::to_string);
        let output = filtered(&program)
            .arg(call.to_string())
            .args(words)
            .output()
            .unwrap();
        assert_eq!(action_of(&output), wanted, "call {call:#x} with {arguments:#x?}");
    };
    let (done, forbidden, unknown) = (ReturnErrno(0), ReturnErrno(EPERM), ReturnErrno(ENOSYS));
    check(SYS_getpid, &[], done);

    #[rustfmt::skip]
    let harmless_with_zeros = [
        SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_bpf, SYS_perf_event_open,
        SYS_keyctl, SYS_add_key, SYS_request_key, SYS_userfaultfd, SYS_memfd_secret, SYS_mount, SYS_umount2,
        SYS_pivot_root, SYS_chroot, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_open_tree,
        SYS_move_mount, SYS_mount_setattr, SYS_setns, SYS_unshare, SYS_ptrace, SYS_process_vm_readv,
        SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd, SYS_open_by_handle_at, SYS_name_to_handle_at,
        SYS_fanotify_init, SYS_fanotify_mark, SYS_init_module, SYS_delete_module, SYS_swapon, SYS_swapoff,
        SYS_reboot, SYS_quotactl, SYS_syslog, SYS_clock_settime, SYS_adjtimex, SYS_vhangup,
    ];
    for call in harmless_with_zeros {
        check(call, &[], forbidden);
    }
    check(SYS_kexec_load, &[0, 17, 0, 0], forbidden);
    check(SYS_kexec_file_load, &[u64::MAX, 0, 0, 0, u64::MAX], forbidden);
    check(SYS_finit_module, &[u64::MAX], forbidden);
    check(SYS_settimeofday, &[1], forbidden);
    check(SYS_sethostname, &[0, 65], forbidden);
    check(SYS_setdomainname, &[0, 65], forbidden);

    check(SYS_clone3, &[], unknown);
    check(SYS_seccomp, &[], unknown);
    check(SYS_io_setup, &[], unknown);
    check(1000, &[], unknown);
    for call in [
        SYS_inotify_init1,
        SYS_inotify_add_watch,
        SYS_mbind,
        SYS_set_mempolicy,
        SYS_migrate_pages,
        SYS_move_pages,
    ] {
        check(call, &[], unknown);
    }
    for call in [SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr] {
        check(call, &[], ReturnErrno(EOPNOTSUPP));
    }
    // There is no such descriptor, so the kernel itself would return an error.
    for call in [SYS_fsync, SYS_fdatasync, SYS_sync_file_range, SYS_fadvise64] {
        check(call, &[u64::MAX], done);
    }
    check(SYS_sync, &[], done);
    for request in [F_SETLEASE, F_NOTIFY, 1036, 1038, 1040, 12, 2000] {
        check(SYS_fcntl, &[u64::MAX, request as u64], ReturnErrno(EINVAL));
    }
    check(SYS_fcntl, &[u64::MAX, F_SETLK as u64], ReturnErrno(EBADF));
    let map = |flags: c_int| {
        [
            0,
            1 << 21,
            0,
            (flags | MAP_PRIVATE | MAP_ANONYMOUS) as u64,
            u64::MAX,
            0,
        ]
    };
    check(SYS_mmap, &map(0), done);
    check(SYS_mmap, &map(MAP_HUGETLB), ReturnErrno(ENOMEM));
    check(SYS_memfd_create, &[0, MFD_HUGETLB.into()], ReturnErrno(EINVAL));
    check(SYS_shmget, &[0, 1, SHM_HUGETLB as u64], ReturnErrno(ENOMEM));

    // The limit of core files cannot be changed up or down. The filter does not read the pointers, so any value will
    // do.
    let core = RLIMIT_CORE.into();
    check(SYS_prlimit64, &[0, core, 0, 0], done);
    for pointer in [1, 1 << 32, u64::MAX] {
        check(SYS_prlimit64, &[0, core, pointer, 0], done);
        check(SYS_prlimit64, &[0, core, pointer, pointer], forbidden);
    }
    const RWF_NOWAIT: u64 = 8;
    check(
        SYS_preadv2,
        &[u64::MAX, 0, 0, 0, 0, RWF_NOWAIT],
        ReturnErrno(EOPNOTSUPP),
    );
    check(SYS_preadv2, &[u64::MAX, 0, 0, 0, 0, 0], ReturnErrno(EBADF));
    check(SYS_prlimit64, &[0, RLIMIT_CPU.into(), 1, 0], ReturnErrno(EFAULT));
    check(SYS_setrlimit, &[core, 0], done);
    check(SYS_getrlimit, &[core, 0], ReturnErrno(EFAULT));

    // Calls on process 1 are refused; for other processes the kernel decides.
    for call in [
        SYS_prlimit64,
        SYS_sched_setaffinity,
        SYS_sched_setparam,
        SYS_sched_setscheduler,
    ] {
        check(call, &[1], forbidden);
    }
    check(SYS_setpriority, &[0, 1, 19], forbidden);
    check(SYS_setpriority, &[0, 0, 19], done);
    check(SYS_prlimit64, &[0], done);
    check(SYS_syncfs, &[u64::MAX], done);

    for namespace in [
        CLONE_NEWNS,
        CLONE_NEWCGROUP,
        CLONE_NEWUTS,
        CLONE_NEWIPC,
        CLONE_NEWUSER,
        CLONE_NEWPID,
        CLONE_NEWNET,
    ] {
        check(SYS_clone, &[(namespace | SIGCHLD) as u32 as u64], forbidden);
    }

    let family = |family: c_int, kind: c_int, protocol: c_int, wanted| {
        let arguments = [family as u64, kind as u64, protocol as u64];
        check(SYS_socket, &arguments, wanted);
        check(SYS_socket, &arguments.map(|value| value | 1 << 32), wanted);
    };
    family(AF_UNIX, SOCK_STREAM, 0, done);
    family(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP, done);
    family(AF_INET, SOCK_DGRAM, 0, done);
    family(AF_INET6, SOCK_DGRAM, IPPROTO_UDP, done);
    family(AF_INET, SOCK_STREAM, IPPROTO_SCTP, ReturnErrno(EPROTONOSUPPORT));
    family(AF_INET, SOCK_STREAM, IPPROTO_UDP, ReturnErrno(EPROTONOSUPPORT));
    family(AF_INET6, SOCK_DGRAM, IPPROTO_TCP, ReturnErrno(EPROTONOSUPPORT));
    family(AF_INET, SOCK_DGRAM, IPPROTO_ICMP, ReturnErrno(EPROTONOSUPPORT));
    family(AF_INET, SOCK_RAW, IPPROTO_UDP, forbidden);
    #[rustfmt::skip]
    let others = [AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, AF_XDP, AF_KEY, AF_BLUETOOTH, AF_TIPC, 0, 1000];
    for other in others {
        family(other, SOCK_RAW, 0, ReturnErrno(EAFNOSUPPORT));
    }
    check(
        SYS_setsockopt,
        &[0, SOL_SOCKET as u64, SO_ATTACH_FILTER as u64],
        forbidden,
    );
    check(
        SYS_setsockopt,
        &[0, SOL_TCP as u64, TCP_ULP as u64],
        ReturnErrno(ENOPROTOOPT),
    );

    let option = |level: c_int, option: c_int, wanted| {
        // There is no such descriptor, so an allowed call fails with EBADF.
        check(SYS_setsockopt, &[u64::MAX, level as u64, option as u64], wanted);
    };
    for (level, name) in [
        (SOL_SOCKET, SO_REUSEADDR),
        (SOL_TCP, TCP_NODELAY),
        (SOL_UDP, UDP_CORK),
        (SOL_IP, IP_TTL),
        (SOL_IPV6, IPV6_V6ONLY),
    ] {
        option(level, name, ReturnErrno(EBADF));
    }
    const STICKY: [c_int; 5] = [6, 54, 55, 57, 59];
    for name in STICKY {
        option(SOL_IPV6, name, ReturnErrno(ENOPROTOOPT));
    }
    for (level, name) in [
        (SOL_IPV6, IPV6_ADD_MEMBERSHIP),
        (SOL_IPV6, IPV6_FLOWINFO_SEND),
        (SOL_IP, IP_ADD_MEMBERSHIP),
        (SOL_IP, IP_OPTIONS),
        (SOL_IP, IP_FREEBIND),
        (SOL_IP, IP_MSFILTER),
        (SOL_TCP, TCP_MD5SIG),
        (SOL_TCP, TCP_CONGESTION),
        (SOL_SOCKET, SO_ZEROCOPY),
        (IPPROTO_SCTP, 1),
    ] {
        option(level, name, ReturnErrno(ENOPROTOOPT));
    }
    // VLAN and bridge requests, for which the kernel would load modules.
    for request in [0x8982, 0x8983, 0x8940, 0x8941, 0x8980, 0x89a0, 0x8b01] {
        check(SYS_ioctl, &[0, request], ReturnErrno(ENOTTY));
    }
    check(SYS_ioctl, &[u64::MAX, 0x8912], ReturnErrno(EBADF));
    for request in [TIOCSTI, TIOCLINUX, TIOCSETD] {
        check(SYS_ioctl, &[0, request], forbidden);
        check(SYS_ioctl, &[0, request | 1 << 32], forbidden);
    }
    check(SYS_ioctl, &[u64::MAX, TCGETS], ReturnErrno(EBADF));

    check(SYS_prctl, &[PR_GET_DUMPABLE as u64], done);
    check(SYS_prctl, &[PR_SET_KEEPCAPS as u64, 0], ReturnErrno(EINVAL));
    check(
        SYS_prctl,
        &[PR_SET_SECCOMP as u64, SECCOMP_MODE_STRICT as u64],
        ReturnErrno(EINVAL),
    );
    check(SYS_personality, &[0xffff_ffff], done);
    check(SYS_personality, &[READ_IMPLIES_EXEC as u64], forbidden);
    check(SYS_mknodat, &[u64::MAX, 0, S_IFCHR as u64 | 0o666], forbidden);
    check(SYS_mknodat, &[u64::MAX, 0, S_IFBLK as u64 | 0o666], forbidden);
    check(
        SYS_mknodat,
        &[u64::MAX, 0, S_IFIFO as u64 | 0o666],
        ReturnErrno(EFAULT),
    );
    check(SYS_madvise, &[0, 0, MADV_MERGEABLE as u64], ReturnErrno(EINVAL));
    check(SYS_madvise, &[0, 0, MADV_DONTNEED as u64], done);

    #[cfg(target_arch = "x86_64")]
    {
        check(SYS_iopl, &[0], forbidden);
        check(SYS_ioperm, &[0, 0, 0], forbidden);
        check(SYS_modify_ldt, &[0, 0, 0], forbidden);
        check(SYS_mknod, &[0, S_IFCHR as u64], forbidden);
        const X32: c_long = 0x4000_0000;
        check(X32 | SYS_getpid, &[], KillProcess);
        check(X32 | 520, &[], KillProcess);
    }
}

/// In the 32-bit table the same numbers are other calls: 20 is `getpid`.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_call_kills_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
        #include <stdio.h>
        int main(void) {
            int result;
            __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
            printf("%d", 0);
            return 0;
        }
    "#;
    let program = compiled(folder.path(), "call32", source);
    assert_eq!(action_of(&filtered(&program).output().unwrap()), KillProcess);
}
