//! Those that want out: by mounts, namespaces, devices and calls that no program of this kind needs.

use crate::stage::{Animal, Program, Zoo};

#[tokio::test]
async fn calls_that_open_doors_are_refused() {
    let zoo = Zoo::open().await;
    let program = Program::C(
        r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#define TRY(name, call) do { errno = 0; long r = (long)(call); printf("%s %s\n", name, r < 0 ? strerrorname_np(errno) : "SUCCESS"); } while (0)
int main() {
    char attr[256] = {0};
    TRY("mount", mount("none", "/tmp", "tmpfs", 0, 0));
    TRY("bind", mount("/usr", "/tmp", 0, MS_BIND, 0));
    TRY("remount", mount(0, "/usr", 0, MS_REMOUNT | MS_BIND, 0));
    TRY("umount", umount2("/proc", MNT_DETACH));
    TRY("pivot_root", syscall(SYS_pivot_root, ".", "."));
    TRY("chroot", chroot("/tmp"));
    TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    TRY("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    TRY("unshare user", unshare(CLONE_NEWUSER));
    TRY("unshare mount", unshare(CLONE_NEWNS));
    TRY("clone user", syscall(SYS_clone, CLONE_NEWUSER | 17, 0, 0, 0, 0));
    TRY("clone3", syscall(SYS_clone3, attr, 88));
    TRY("setns", setns(open("/proc/self/ns/mnt", O_RDONLY), 0));
    TRY("keyctl", syscall(SYS_keyctl, 0, -3, 0));
    TRY("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
    TRY("io_uring", syscall(425, 8, attr));
    TRY("perf_event", syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
    TRY("bpf", syscall(SYS_bpf, 0, attr, sizeof attr));
    TRY("userfaultfd", syscall(SYS_userfaultfd, 0));
    TRY("open_by_handle", syscall(SYS_open_by_handle_at, AT_FDCWD, attr, 0));
    TRY("init_module", syscall(SYS_init_module, attr, 1, ""));
    TRY("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, 0));
    TRY("settime", syscall(SYS_clock_settime, 0, attr));
    TRY("mknod", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
    TRY("/dev/mem", open("/dev/mem", O_RDONLY));
    TRY("/dev/kmsg", open("/dev/kmsg", O_RDONLY));
    TRY("setuid", setuid(0));
    TRY("sethostname", sethostname("x", 1));
    TRY("swapon", syscall(SYS_swapon, "/tmp/x", 0));
    TRY("iopl", syscall(172, 3));
    return 0;
}
"#,
    );
    let said = zoo.says(Animal::new("doors", program)).await;
    let open: Vec<_> = said.lines().filter(|line| line.ends_with("SUCCESS")).collect();
    assert_eq!(open, Vec::<&str>::new(), "{said}");
    assert_eq!(said.lines().count(), 30, "{said}");
    for expected in [
        "mount EPERM",
        "clone3 ENOSYS",
        "io_uring EPERM",
        "bpf EPERM",
        "keyctl EPERM",
    ] {
        assert!(said.lines().any(|line| line == expected), "{expected} in {said}");
    }
}

#[tokio::test]
async fn files_of_the_machine_cannot_be_changed() {
    let zoo = Zoo::open().await;
    let text = r#"
try() { if eval "$1" 2>/dev/null; then echo "DONE: $1"; fi; }
try 'echo x > /etc/passwd'
try 'echo x > /usr/bin/x'
try 'echo x > /x'
try 'mkdir /usr/x'
try 'rm /usr/bin/env'
try 'chmod u+s /usr/bin/env'
try 'echo 1 > /proc/sys/kernel/core_pattern'
try 'echo 1 > /proc/sys/vm/drop_caches'
try 'echo b > /proc/sysrq-trigger'
try 'echo -1000 > /proc/self/oom_score_adj'
try 'ls /sys/fs/cgroup'
try 'echo x > /sys/fs/cgroup/release_agent'
try 'ln /usr/bin/env here'
try 'ln /etc/passwd /tmp/here'
try 'cat /etc/shadow'
try 'ls /root /home /var/lib'
try 'su root -c id'
try 'mount'
"#;
    let said = zoo.says(Animal::new("vandal", Program::Shell(text))).await;
    // `mount` alone only lists what is there.
    let done: Vec<_> = said.lines().filter(|line| line.starts_with("DONE")).collect();
    assert!(done.iter().all(|line| *line == "DONE: mount"), "{said}");
}

#[tokio::test]
async fn a_program_that_crashes_leaves_no_core() {
    let zoo = Zoo::open().await;
    let program = Program::Shell(
        "ulimit -c unlimited 2>/dev/null; python3 -S -c 'import os; os.abort()'; ls -A; ulimit -c",
    );
    let said = zoo.says(Animal::new("core dump", program)).await;
    assert_eq!(said, "main.sh\n0\n");
}
