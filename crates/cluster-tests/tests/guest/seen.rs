//! What a command sees and reaches from within its cell. All of it is judged.

use cluster_tests::{Guest, Said};

/// In files that no wall but the cell's keeps from anybody.
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

/// Puts there what is to be seen by nobody, and who looks for it.
pub(crate) fn put(guest: Guest) -> Guest {
    ["/etc/shadow", "/root/secret", "/home/user/secret"]
        .into_iter()
        .fold(guest, |guest, path| guest.file(path, SECRET, 0o644))
        .file("/usr/bin/checker", CHECKER, 0o755)
}

/// By a command of root's, who becomes somebody else, or of an ordinary user's, who stays who they are.
pub(crate) fn by_root(user: u32) -> String {
    from_within(user, "0 0 4294967295", [DEVICES_OF_ROOT, "/proc"])
}

/// Beneath the cell's own /proc and out of reach is the machine's: without it the kernel would not let an ordinary user
/// mount another.
pub(crate) fn by_user() -> String {
    from_within(1000, "1000 1000 1", [DEVICES_OF_USER, "/proc /proc"])
}

/// By a command of an ordinary user's who has subordinate ids.
pub(crate) fn by_subordinate(id: u32) -> String {
    let map = format!("999 1000 1 1000 {id} 1");
    from_within(1000, &map, [DEVICES_OF_USER, "/proc /proc"])
}

/// Root's wardens make device nodes in the cells' root; others mount those of the machine.
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

/// The checker would see it: where there are no walls, it does.
pub(crate) fn judge_outside(said: &Said) {
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
