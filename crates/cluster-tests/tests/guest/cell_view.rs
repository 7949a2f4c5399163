//! Lists everything that a command can see and reach from within its cell, and compares it with what is expected.

use cluster_tests::{CommandOutput, GuestMachine};

/// The content of world-readable files that only the cell hides.
const SECRET: &str = "nobody's business";

const CHECKER: &str = r#"#!/bin/sh
exec 2>/dev/null
# By the shell itself: nobody else is there then.
set -- /proc/[0-9]*
echo "processes: $*"
echo "user: $(id -u) $(id -g) $(id -G)"
echo "host: $(hostname)"
grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status
echo "uid_map:" $(cat /proc/self/uid_map)
echo "gid_map:" $(cat /proc/self/gid_map)
echo "group: $(cat /proc/self/cgroup)"
# The last one is the list itself.
echo "descriptors:" $(ls /proc/self/fd)
echo "interfaces:" $(tail -n +3 /proc/net/dev | cut -d: -f1)
echo "routes:" $(tail -n +2 /proc/net/route)
echo "mounts:" $(cut -d' ' -f5 /proc/self/mountinfo | sort)
echo "writable:" $(cut -d' ' -f5,6 /proc/self/mountinfo | grep ' rw' | cut -d' ' -f1 | sort)
echo "root:" $(ls -A /)
echo "settings:" $(ls -A /etc)
echo "devices:" $(ls -A /dev)
echo "homes:" $(ls -A /root /home /home/user)
echo "secrets:" $(cat /etc/shadow /root/secret /home/user/secret)
for folder in / /usr /usr/bin /etc /dev /proc /box /tmp /dev/shm; do
    echo x >$folder/new && echo "wrote to $folder"
done
mount -t tmpfs none /tmp && echo mounted
cat /tmp/new
"#;

/// Adds the hidden files and the program that looks for them.
pub(crate) fn add_files(guest: GuestMachine) -> GuestMachine {
    ["/etc/shadow", "/root/secret", "/home/user/secret"]
        .into_iter()
        .fold(guest, |guest, path| guest.file(path, SECRET, 0o644))
        .file("/usr/bin/checker", CHECKER, 0o755)
}

/// The expected view of a command of root's executor, which runs as this user id.
pub(crate) fn by_root(user: u32) -> String {
    from_within(user, "0 0 4294967295", [DEVICES_OF_ROOT, "/proc"])
}

/// The expected view of a command of an ordinary user. The host's /proc is mounted below the cell's own and cannot be reached:
/// without it the kernel would not allow an ordinary user to mount another.
pub(crate) fn by_user() -> String {
    from_within(1000, "1000 1000 1", [DEVICES_OF_USER, "/proc /proc"])
}

/// The expected view of a command of an ordinary user with subordinate ids.
pub(crate) fn by_subordinate(id: u32) -> String {
    let map = format!("999 1000 1 1000 {id} 1");
    from_within(1000, &map, [DEVICES_OF_USER, "/proc /proc"])
}

/// Root's wardens create device nodes in the root of cells; other wardens bind-mount those of the machine.
const DEVICES_OF_ROOT: &str = "/dev/shm";
const DEVICES_OF_USER: &str = "/dev/full /dev/null /dev/random /dev/shm /dev/urandom /dev/zero";

fn from_within(user: u32, map: &str, [devices, processes]: [&str; 2]) -> String {
    format!(
        "processes: /proc/2
user: {user} {user} {user}
host: cell
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t2
uid_map: {map}
gid_map: {map}
group: 0::/
descriptors: 0 1 2 3
interfaces: lo
routes:
mounts: / /box /box {devices} {processes} /tmp /usr
writable: /box /box {devices} /tmp
root: bin box dev etc lib lib64 proc sbin tmp usr
settings: group hosts nsswitch.conf passwd
devices: fd full null random shm stderr stdin stdout urandom zero
homes:
secrets:
wrote to /box
wrote to /tmp
wrote to /dev/shm
x
"
    )
}

/// Asserts that the checker does see the hidden files outside of a cell.
pub(crate) fn assert_seen_outside(said: &CommandOutput) {
    let lines: Vec<&str> = said.text().lines().collect();
    let secrets = format!("secrets: {}", [SECRET; 3].concat());
    for expected in [
        "user: 0 0 0",
        "host: guest",
        "NoNewPrivs:\t0",
        "Seccomp:\t0",
        &secrets,
        "wrote to /",
        "wrote to /usr",
        "wrote to /etc",
        "mounted",
    ] {
        assert!(lines.contains(&expected), "{expected}: {said:?}");
    }
    assert!(!lines.contains(&"CapEff:\t0000000000000000"), "{said:?}");
}
