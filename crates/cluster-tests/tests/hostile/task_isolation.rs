//! Programs that look for other tasks' data, and programs that leave traps for later tasks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cluster_tests::{shell, wait_until};
use serde_json::{Value, json};

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource, SECRET, executed};
use crate::node_inventory::{cell_processes, groups};

const SOON: Duration = Duration::from_secs(30);

/// Looks for planted files and variables. It plants one file itself, which it must find.
const SPY: &str = r#"
touch /tmp/zoo-plant
for process in /proc/[0-9]*; do
    case ${process#/proc/} in $$) echo itself;; $PPID) ;; *) echo "another: $process";; esac
done
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | sed 's/=.*//' | grep -vxE 'OLDPWD|PWD|SHLVL|_' | sort -u | tr '\n' ' '
echo
find / \( -path /proc -o -path /usr \) -prune -o -name 'zoo-plant*' -print 2>/dev/null
find /box /tmp /dev/shm -mindepth 1 | sort
ls -A / | tr '\n' ' '
echo
ls /dev | tr '\n' ' '
"#;

#[tokio::test]
async fn files_and_variables_of_others_are_not_visible() {
    let node = HostileTestNode::start().await;
    let plants = ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/run"].map(|folder| {
        let mut plant = tempfile::Builder::new();
        plant
            .prefix("zoo-plant")
            .permissions(Permissions::from_mode(0o666));
        plant.tempfile_in(folder).expect("a place of this machine")
    });
    let said = node
        .output_of(HostileProgram::new("spy", ProgramSource::Shell(SPY)))
        .await;
    let said: Vec<&str> = said.lines().map(str::trim_end).collect();
    let root: Vec<_> = [
        "bin", "box", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr",
    ]
    .into_iter()
    // Each cell has its own /tmp and /dev/shm; the other folders are the machine's.
    .filter(|name| ["box", "proc"].contains(name) || Path::new("/").join(name).exists())
    .collect();
    let expected = [
        "itself",
        "CONCLAVE_ATTEMPT CONCLAVE_EXECUTOR CONCLAVE_TASK HOME LANG PATH TMPDIR",
        "/tmp/zoo-plant",
        "/box/main.sh",
        "/tmp/zoo-plant",
        &root.join(" "),
        "fd full null random shm stderr stdin stdout urandom zero",
    ];
    assert_eq!(said, expected);
    drop(plants);
}

const READER: &str = r#"
import json, os
seen = {}
for process in os.listdir('/proc') + ['1', '2', '3']:
    try:
        seen[process] = open('/proc/' + process + '/environ').read().split('\0')[:-1]
    except OSError:
        pass
print(json.dumps(seen))
"#;

#[tokio::test]
async fn only_its_own_environment_is_readable() {
    let node = HostileTestNode::start().await;
    let (name, secret) = SECRET;
    let keeper = fs::read(format!("/proc/{}/environ", node.pid())).unwrap();
    let keeper = String::from_utf8_lossy(&keeper).into_owned();
    assert!(keeper.contains(&format!("{name}={secret}")), "{keeper}");
    let task = json!({
        "source": {"main.py": READER},
        "execute": {"command": ["python3", "-S", "main.py"], "env": {"OWN": "mine"}},
    });
    let task = node.task(&task).await;
    let said = task["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let seen: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {task:#}"));
    let seen = seen.as_object().expect("an object");
    // The process itself, by each of its names in /proc.
    assert!(
        seen.contains_key("self") && seen.contains_key("thread-self"),
        "{task:#}"
    );
    for (process, variables) in seen {
        let variables = variables.as_array().expect("a list").iter();
        let mut names: Vec<_> = variables
            .filter_map(|variable| variable.as_str()?.split('=').next())
            .collect();
        names.sort_unstable();
        let expected = [
            "CONCLAVE_ATTEMPT",
            "CONCLAVE_EXECUTOR",
            "CONCLAVE_TASK",
            "HOME",
            "LANG",
            "OWN",
            "PATH",
            "TMPDIR",
        ];
        assert_eq!(names, expected, "{process}: {task:#}");
    }
    assert!(!said.contains(secret), "{task:#}");
}

/// Shares everything that it can; only the cell keeps others away.
const DATA_OWNER: &str = r#"
import ctypes, os, signal, socket
os.umask(0)
for folder in ('/box', '/tmp', '/dev/shm'): os.chmod(folder, 0o777)
assert ctypes.CDLL(None).shmget(0x7a6f6f, 4096, 0o1666) >= 0
listener = socket.socket(socket.AF_UNIX)
listener.bind('\0zoo-treasure')
listener.listen()
held = open('/box/treasure', 'w')
open('/dev/shm/treasure', 'w').close()
open('/tmp/treasure', 'w').close()
signal.pause()
"#;

/// Looks for the other task's data in several ways. It has data of its own, which it must find.
const DATA_SEEKER: &str = r#"
import ctypes, errno, json, os, socket
open('/tmp/treasure', 'w').close()
ways, files = [], set()
def look(path):
    try:
        status = os.stat(path)
    except OSError:
        return
    ways.append(path)
    files.add((status.st_dev, status.st_ino))
for folder, folders, _ in os.walk('/'):
    if folder == '/': folders[:] = [name for name in folders if name not in ('proc', 'usr')]
    look(folder + '/treasure')
for process in {name for name in os.listdir('/proc') if name.isdigit()} | set(map(str, range(1, 5000))):
    for root in ('root', 'cwd'):
        for folder in ('', 'box/', 'tmp/', 'dev/shm/'):
            look('/proc/' + process + '/' + root + '/' + folder + 'treasure')
try:
    socket.socket(socket.AF_UNIX).connect('\0zoo-treasure'); called = 'CONNECTED'
except OSError as e:
    called = errno.errorcode[e.errno]
libc = ctypes.CDLL(None, use_errno=True)
segment = libc.shmget(0x7a6f6f, 0, 0)
print(json.dumps({
    'user': os.getuid(), 'ways': len(ways), 'files': len(files), 'called': called,
    'segment': 'FOUND' if segment >= 0 else errno.errorcode[ctypes.get_errno()],
    'others': [name for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()],
}))
"#;

/// The user id of the process that owns the data, once it runs.
fn owner() -> Option<u32> {
    let mut cell_processes = cell_processes().into_iter();
    let owner = cell_processes.find(|inmate| inmate.path("tmp/treasure").exists());
    owner.map(|owner| owner.user)
}

#[tokio::test]
async fn data_of_a_concurrent_task_is_not_visible() {
    let node = HostileTestNode::start().await;
    let task = |text: &str| {
        json!({
            "source": {"main.py": text},
            "execute": {"command": ["python3", "-S", "main.py"], "limits": {"wall": "120s"}},
        })
    };
    let first = node.system.add(task(DATA_OWNER)).await;
    let owner = wait_until("a treasure", SOON, async || owner()).await;
    let second = node.system.run(task(DATA_SEEKER)).await;
    let now = node.system.client.get(first.id, None).await.unwrap();
    assert!(!now.done, "the two did not run at the same time: {now:?}");

    let outcome = executed(second);
    let seen: Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    assert_ne!(seen["user"], owner, "{seen:#}");
    // Its own data, in /tmp and through /proc.
    assert!(seen["ways"].as_u64() >= Some(2), "{seen:#}");
    assert_eq!(seen["files"], 1, "{seen:#}");
    assert_eq!(seen["called"], "ECONNREFUSED", "{seen:#}");
    assert_eq!(seen["segment"], "ENOENT", "{seen:#}");
    assert_eq!(seen["others"], json!([]), "{seen:#}");
    node.system.client.cancel(first.id).await.unwrap();
    node.assert_clean().await;
}

/// Takes locks on devices, which exist in every cell, and creates a file then.
const LOCKER: &str = r#"
import fcntl, os, signal
held = [os.open(path, os.O_RDONLY) for path in ('/dev/null', '/dev/zero', '/dev/urandom')]
for file in held: fcntl.flock(file, fcntl.LOCK_EX)
open('/tmp/locked', 'w').close()
signal.pause()
"#;

const SECOND_LOCKER: &str = r#"
import fcntl, os
for path in ('/dev/null', '/dev/zero', '/dev/urandom'):
    try:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(path, 'is free')
    except OSError as error:
        print(path, error)
"#;

#[tokio::test]
async fn locks_on_devices_do_not_affect_other_slots() {
    let node = HostileTestNode::start().await;
    let task = |text: &str| {
        json!({
            "source": {"main.py": text},
            "execute": {"command": ["python3", "-S", "main.py"], "limits": {"wall": "120s"}},
        })
    };
    let first = node.system.add(task(LOCKER)).await;
    wait_until("the locks", SOON, async || {
        let mut cell_processes = cell_processes().into_iter();
        cell_processes.find(|inmate| inmate.path("tmp/locked").exists())
    })
    .await;
    let second = node.system.run(task(SECOND_LOCKER)).await;
    assert_eq!(
        executed(second).stdout,
        "/dev/null is free\n/dev/zero is free\n/dev/urandom is free\n"
    );
    node.system.client.cancel(first.id).await.unwrap();
    node.assert_clean().await;
}

#[tokio::test]
async fn what_a_compiler_left_is_run_as_what_it_is() {
    let node = HostileTestNode::start().await;
    for (name, compile) in [
        ("a link out", "ln -s /etc/shadow main"),
        ("a link to a device", "ln -s /dev/zero main"),
        ("a pipe", "mkfifo main"),
        ("a folder", "mkdir main"),
        ("a loop of links", "ln -s main main"),
    ] {
        let task = json!({
            "compile": {"command": compile},
            "execute": {"command": ["./main"], "limits": {"wall": "5s"}},
        });
        let task = node.task(&task).await;
        let outcome = &task["result"]["execute"];
        assert_eq!(task["status"], "run_failed", "{name}: {task:#}");
        assert!(
            outcome["exit_code"] == 126 || outcome["exit_code"] == 127,
            "{name}: {outcome:#}"
        );
    }
}

#[tokio::test]
async fn a_file_of_the_host_cannot_be_made_an_output() {
    let node = HostileTestNode::start().await;
    for foreign in ["/usr/bin/env", "/etc/passwd"] {
        // The same works with the task's own file.
        let text = format!("echo > own && ln own main && rm main && ln {foreign} main");
        let task = json!({"compile": {"command": text}, "execute": {"command": ["./main"]}});
        let task = node.task(&task).await;
        assert_eq!(task["status"], "compile_failed", "{task:#}");
        let said = task["result"]["compile"]["stderr"].as_str().unwrap_or_default();
        assert!(said.contains("cross-device"), "{task:#}");
    }
}

#[tokio::test]
async fn file_trees_that_are_hard_to_delete_are_removed_with_their_task() {
    let node = HostileTestNode::start().await;
    for (name, text) in [
        (
            "closed tree",
            "mkdir -p a/b/c && touch a/b/c/f && chmod 000 a/b/c a/b a",
        ),
        ("locked workspace", "chmod 000 /box /tmp"),
    ] {
        node.output_of(HostileProgram::new(name, ProgramSource::Shell(text)))
            .await;
    }
    let deep =
        "import os\nfor _ in range(5000):\n    os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w').close()";
    node.output_of(HostileProgram::new("5,000 deep", ProgramSource::Python(deep)))
        .await;
}

#[tokio::test]
async fn a_killed_node_leaves_nothing_behind() {
    let mut node = HostileTestNode::start().await;
    let task = node.system.add(shell("setsid sleep 600 & sleep 600")).await;
    wait_until("two sleepers", SOON, async || {
        let sleepers = cell_processes()
            .iter()
            .filter(|inmate| inmate.name == "sleep")
            .count();
        (sleepers == 2).then_some(())
    })
    .await;
    node.kill_and_start_again();
    // The running task is lost with its executor and runs again; after its cancel no process is left. The client's old
    // connection ended with the node, so its first call may fail.
    wait_until("the task to be cancelled", SOON, async || {
        node.system.client.cancel(task.id).await.ok()
    })
    .await;
    node.assert_clean().await;
    assert!(!groups(&node.system).is_empty());
    let system = node.stop().await;
    assert_eq!(groups(&system), Vec::<std::path::PathBuf>::new());
}
