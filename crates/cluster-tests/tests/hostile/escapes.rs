//! Programs that try to escape by mounts, namespaces, devices and unusual system calls.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};

#[tokio::test]
async fn system_calls_that_allow_escapes_are_refused() {
    let node = HostileTestNode::start().await;
    let program = ProgramSource::C(
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
    let said = node.output_of(HostileProgram::new("doors", program)).await;
    assert_eq!(
        said,
        "mount EPERM\nbind EPERM\nremount EPERM\numount EPERM\npivot_root EPERM\nchroot EPERM\nfsopen EPERM\n\
         open_tree EPERM\nunshare user EPERM\nunshare mount EPERM\nclone user EPERM\nclone3 ENOSYS\nsetns EPERM\n\
         keyctl EPERM\nadd_key EPERM\nio_uring EPERM\nperf_event EPERM\nbpf EPERM\nuserfaultfd EPERM\n\
         open_by_handle EPERM\ninit_module EPERM\nreboot EPERM\nsettime EPERM\nmknod EPERM\n/dev/mem ENOENT\n\
         /dev/kmsg ENOENT\nsetuid EPERM\nsethostname EPERM\nswapon EPERM\niopl EPERM\n"
    );
}

/// Calls with invalid arguments: without the filter the kernel would answer EINVAL or the like before it checks privileges.
const NONSENSE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TRY(name) do { long r = syscall(SYS_##name, -1, -1, -1, -1, -1, -1); printf("%s %s\n", #name, r < 0 ? strerrorname_np(errno) : "SUCCESS"); } while (0)
int main() {
    TRY(mount); TRY(umount2); TRY(chroot); TRY(open_tree); TRY(unshare); TRY(setns);
    TRY(keyctl); TRY(add_key); TRY(request_key); TRY(io_uring_setup); TRY(io_uring_enter); TRY(io_uring_register);
    TRY(perf_event_open); TRY(bpf); TRY(userfaultfd); TRY(name_to_handle_at);
    TRY(process_vm_readv); TRY(process_vm_writev); TRY(pidfd_getfd); TRY(kcmp);
    TRY(clock_settime); TRY(clock_adjtime); TRY(fanotify_mark);
    return 0;
}
"#;

#[tokio::test]
async fn the_seccomp_filter_refuses_the_calls() {
    let node = HostileTestNode::start().await;
    let inside = node
        .output_of(HostileProgram::new("nonsense", ProgramSource::C(NONSENSE)))
        .await;
    let outside = output_as_nobody(NONSENSE);
    assert_eq!(inside.lines().count(), 23, "{inside}");
    for (inside, outside) in inside.lines().zip(outside.lines()) {
        assert!(inside.ends_with(" EPERM"), "{inside}");
        // The machine may refuse these for everyone; then the test cannot tell who refuses.
        let may_be_closed = ["bpf EPERM", "io_uring_setup EPERM"].contains(&outside);
        assert!(inside != outside || may_be_closed, "{outside} outside as well");
    }
}

/// The output of a program that runs outside of a cell as an unprivileged user.
fn output_as_nobody(text: &str) -> String {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a folder of our own");
    let (source, program) = (folder.path().join("main.c"), folder.path().join("main"));
    fs::write(&source, text).expect("a new folder");
    let compiled = Command::new("gcc")
        .arg("-w")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    assert!(compiled.expect("gcc").success());
    let said = Command::new(&program)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("a program");
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).expect("text")
}

/// The classic chroot escape: change the root without changing the working directory.
const CHROOT_ESCAPE: &str = r#"
import errno, os
def attempt(name, act):
    try:
        act(); print(name, 'DONE')
    except OSError as e:
        print(name, errno.errorcode[e.errno])
def climb():
    for _ in range(100): os.chdir('..')
top = os.stat('/')
attempt('mkdir', lambda: os.mkdir('jail'))
attempt('chroot', lambda: os.chroot('jail'))
attempt('climb', climb)
attempt('chroot', lambda: os.chroot('.'))
print(os.path.samestat(os.stat('.'), top), os.path.samestat(os.stat('/'), top))
attempt('root', lambda: os.listdir('/root'))
attempt('usr', lambda: os.listdir('/usr'))
"#;

#[tokio::test]
async fn the_root_cannot_be_left() {
    let node = HostileTestNode::start().await;
    let said = node
        .output_of(HostileProgram::new(
            "climber",
            ProgramSource::Python(CHROOT_ESCAPE),
        ))
        .await;
    assert_eq!(
        said,
        "mkdir DONE\nchroot EPERM\nclimb DONE\nchroot EPERM\nTrue True\nroot ENOENT\nusr DONE\n"
    );
}

/// File permissions would answer EACCES or EPERM; these answers show that other protections refuse.
const FILE_CHANGES: &str = r#"
import errno, os
def attempt(name, act, *arguments):
    try:
        act(*arguments); answer = 'DONE'
    except OSError as e:
        answer = errno.errorcode[e.errno]
    print(name, *arguments, answer)
def write(path): open(path, 'w').close()
for path in ('own', '/tmp/own', '/dev/shm/own', '/dev/null'): attempt('write', write, path)
for path in ('/etc/passwd', '/usr/bin/x', '/x', '/etc/x', '/dev/x'): attempt('write', write, path)
for path in ('sys/kernel/core_pattern', 'sys/vm/drop_caches', 'sysrq-trigger', 'self/oom_score_adj', 'self/mem'):
    attempt('write', write, '/proc/' + path)
for path in ('folder', '/usr/x', '/x'): attempt('mkdir', os.mkdir, path)
for path in ('own', '/usr/bin/env', '/dev/null'): attempt('chmod', os.chmod, path, 0o4755)
for path in ('own', '/usr/bin/env', '/etc/passwd'): attempt('link', os.link, path, '/box/' + os.path.basename(path) + '-here')
for path in ('/usr/bin/env', '/etc/passwd'): attempt('rename', os.rename, path, '/box/there')
for path in ('own', '/usr/bin/env', '/etc/passwd', '/dev/null'): attempt('remove', os.remove, path)
for path in ('/etc/passwd', '/etc/shadow'): attempt('read', lambda path: open(path).close(), path)
for path in ('/usr', '/root', '/home', '/var/lib', '/sys/fs/cgroup', '/boot', '/run'): attempt('list', os.listdir, path)
"#;

#[tokio::test]
async fn files_of_the_host_cannot_be_changed() {
    let node = HostileTestNode::start().await;
    let said = node
        .output_of(HostileProgram::new("vandal", ProgramSource::Python(FILE_CHANGES)))
        .await;
    // Not every kernel has this call.
    let trigger = match Path::new("/proc/sysrq-trigger").exists() {
        true => "EROFS",
        false => "ENOENT",
    };
    let expected = format!(
        "\
        write own DONE\nwrite /tmp/own DONE\nwrite /dev/shm/own DONE\nwrite /dev/null DONE\n\
        write /etc/passwd EROFS\nwrite /usr/bin/x EROFS\nwrite /x EROFS\nwrite /etc/x EROFS\nwrite /dev/x EROFS\n\
        write /proc/sys/kernel/core_pattern EROFS\nwrite /proc/sys/vm/drop_caches EROFS\n\
        write /proc/sysrq-trigger {trigger}\nwrite /proc/self/oom_score_adj EROFS\nwrite /proc/self/mem EROFS\n\
        mkdir folder DONE\nmkdir /usr/x EROFS\nmkdir /x EROFS\n\
        chmod own 2541 DONE\nchmod /usr/bin/env 2541 EROFS\nchmod /dev/null 2541 EROFS\n\
        link own /box/own-here DONE\nlink /usr/bin/env /box/env-here EXDEV\n\
        link /etc/passwd /box/passwd-here EXDEV\n\
        rename /usr/bin/env /box/there EXDEV\nrename /etc/passwd /box/there EXDEV\n\
        remove own DONE\nremove /usr/bin/env EROFS\nremove /etc/passwd EROFS\nremove /dev/null EROFS\n\
        read /etc/passwd DONE\nread /etc/shadow ENOENT\n\
        list /usr DONE\nlist /root ENOENT\nlist /home ENOENT\nlist /var/lib ENOENT\nlist /sys/fs/cgroup ENOENT\n\
        list /boot ENOENT\nlist /run ENOENT\n"
    );
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_crash_leaves_no_core_file() {
    let node = HostileTestNode::start().await;
    let program = ProgramSource::Shell(
        "ulimit -c unlimited 2>/dev/null; python3 -S -c 'import os; os.abort()'; ls -A; grep 'core file' /proc/self/limits",
    );
    let said = node.output_of(HostileProgram::new("core dump", program)).await;
    let said: Vec<_> = said.split_whitespace().collect();
    assert_eq!(
        said,
        ["main.sh", "Max", "core", "file", "size", "1", "1", "bytes"]
    );
}
