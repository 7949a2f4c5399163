//! A task that lists everything that it can see and reach from within its cell, which is compared with what is expected.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource, first_user};

const CHECKER: &str = r#"
import json, os, resource
def read(path): return open(path).read()
status = dict(line.split(':\t', 1) for line in read('/proc/self/status').splitlines() if ':\t' in line)
mounts = [line.split() for line in read('/proc/self/mountinfo').splitlines()]
family = (os.getpid(), os.getppid())
print(json.dumps({
    'ids': [os.getresuid(), os.getresgid(), os.getgroups()],
    'id maps': [read('/proc/self/' + name).split() for name in ('uid_map', 'gid_map')],
    'capabilities': [status[c] for c in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')],
    'no new privileges': status['NoNewPrivs'], 'seccomp': [status['Seccomp'], status['Seccomp_filters']],
    # Not the one by which they are listed, which is gone then.
    'descriptors': sorted(int(fd) for fd in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + fd)),
    'mounts': sorted(mount[4] for mount in mounts),
    'writable': sorted(mount[4] for mount in mounts if 'rw' in mount[5].split(',')),
    'without nosuid': [mount[4] for mount in mounts if 'nosuid' not in mount[5].split(',')],
    'interfaces': [line.split(':')[0].strip() for line in read('/proc/net/dev').splitlines()[2:]],
    'addresses': read('/proc/net/if_inet6') + ''.join(read('/proc/net/route').splitlines()[1:]),
    'other processes': [p for p in os.listdir('/proc') if p.isdigit() and int(p) not in family],
    'groups': [line.split(':', 2)[2] for line in read('/proc/self/cgroup').splitlines()],
    'host': os.uname().nodename, 'core': resource.getrlimit(resource.RLIMIT_CORE), 'cwd': os.getcwd(),
    'terminals': [fd for fd in (0, 1, 2) if os.isatty(fd)] + [os.path.exists('/dev/tty')],
    'session': os.getsid(0) in family,
    'root': sorted(os.listdir('/')), 'devices': sorted(os.listdir('/dev')),
    'namespaces': {name: os.readlink('/proc/self/ns/' + name) for name in ('cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts')},
}))
"#;

const DEVICES: [&str; 5] = ["full", "null", "random", "urandom", "zero"];

#[tokio::test]
async fn a_cell_shows_exactly_what_is_expected() {
    let node = HostileTestNode::start().await;
    let said = node
        .output_of(HostileProgram::new("checker", ProgramSource::Python(CHECKER)))
        .await;
    let mut seen: Value = serde_json::from_str(&said).unwrap();

    // All namespaces but the user namespace are new: root needs none to run commands as another user.
    let namespaces = seen["namespaces"].take();
    for (name, namespace) in namespaces.as_object().unwrap() {
        let own = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        let is_own = namespace.as_str().unwrap() == own.to_string_lossy();
        assert_eq!(
            is_own,
            name == "user",
            "{name}: {namespace} and {}",
            own.display()
        );
    }
    let user = seen["ids"][0][0].as_u64().unwrap();
    assert!(
        (first_user()..first_user() + 4).contains(&(user as u32)),
        "{seen:#}"
    );
    let hierarchies = fs::read_to_string("/proc/self/cgroup").unwrap().lines().count();
    let none = "0000000000000000";
    let expected = json!({
        "ids": [[user, user, user], [user, user, user], []],
        "id maps": [["0", "0", "4294967295"], ["0", "0", "4294967295"]],
        "capabilities": [none, none, none, none, none],
        "no new privileges": "1",
        // One filter of the warden, and one of the stub.
        "seccomp": ["2", "2"],
        "descriptors": [0, 1, 2],
        "mounts": mounts(),
        "writable": writable(),
        "without nosuid": [],
        "interfaces": ["lo"],
        "addresses": "",
        "other processes": [],
        // In each hierarchy the cell's own group looks like the root.
        "groups": vec!["/"; hierarchies],
        "host": "cell",
        "core": [1, 1],
        "cwd": "/box",
        "terminals": [false],
        "session": true,
        "root": root(),
        "devices": devices(),
        "namespaces": null,
    });
    assert_eq!(seen, expected, "seen:\n{seen:#}\nexpected:\n{expected:#}");
}

fn sorted(paths: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut paths: Vec<String> = paths.into_iter().collect();
    paths.sort();
    paths
}

/// The host's folders of programs that are not symbolic links.
fn programs() -> Vec<&'static str> {
    let mut programs = vec!["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
    programs.retain(|path| fs::symlink_metadata(path).is_ok_and(|it| it.is_dir()));
    programs
}

fn settings() -> Vec<String> {
    let mut folders = vec![
        "/etc/ld.so.conf.d".to_string(),
        "/etc/alternatives".to_string(),
        "/etc/ssl/certs".to_string(),
    ];
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        let path = entry.path().display().to_string();
        if path.starts_with("/etc/java-") {
            folders.push(path);
        }
    }
    folders.retain(|path| Path::new(path).is_dir());
    folders
}

/// The workspace is mounted over the task's file system, so /box is listed twice.
fn writable() -> Vec<String> {
    sorted(["/box", "/box", "/dev/shm", "/tmp"].map(String::from))
}

fn mounts() -> Vec<String> {
    let own = ["/", "/proc"].map(String::from);
    let programs = programs().into_iter().map(String::from);
    sorted(
        own.into_iter()
            .chain(programs)
            .chain(settings())
            .chain(writable()),
    )
}

fn root() -> Vec<String> {
    let all = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
    let there = all.into_iter().filter(|path| fs::symlink_metadata(path).is_ok());
    let programs = there.map(|path| path[1..].to_string());
    sorted(programs.chain(["box", "dev", "etc", "proc", "tmp"].map(String::from)))
}

fn devices() -> Vec<String> {
    let links = ["fd", "shm", "stderr", "stdin", "stdout"];
    sorted(DEVICES.into_iter().chain(links).map(String::from))
}
