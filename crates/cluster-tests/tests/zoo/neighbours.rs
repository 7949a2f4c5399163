//! Those that look for what is not theirs, and those that leave traps for whoever comes after them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cluster_tests::{await_that, shell};
use serde_json::{Value, json};

use crate::scene::{groups, inmates};
use crate::stage::{Animal, Program, SECRET, Zoo, executed};

const SOON: Duration = Duration::from_secs(30);

/// Has planted one file itself, which it must find. Of variables, shells add some of their own.
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
async fn there_is_nothing_of_others_to_be_seen() {
    let zoo = Zoo::open().await;
    let plants = ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/run"].map(|folder| {
        let mut plant = tempfile::Builder::new();
        plant
            .prefix("zoo-plant")
            .permissions(Permissions::from_mode(0o666));
        plant.tempfile_in(folder).expect("a place of this machine")
    });
    let said = zoo.says(Animal::new("spy", Program::Shell(SPY))).await;
    let said: Vec<&str> = said.lines().map(str::trim_end).collect();
    let root: Vec<_> = [
        "bin", "box", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr",
    ]
    .into_iter()
    // Every cell has those of its own; of the others, what the machine has.
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
async fn no_environment_can_be_read_but_the_own() {
    let zoo = Zoo::open().await;
    let (name, secret) = SECRET;
    let keeper = fs::read(format!("/proc/{}/environ", zoo.pid())).unwrap();
    let keeper = String::from_utf8_lossy(&keeper).into_owned();
    assert!(keeper.contains(&format!("{name}={secret}")), "{keeper}");
    let task = json!({
        "source": {"main.py": READER},
        "execute": {"command": ["python3", "-S", "main.py"], "env": {"OWN": "mine"}},
    });
    let task = zoo.task(&task).await;
    let said = task["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let seen: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {task:#}"));
    let seen = seen.as_object().expect("an object");
    // Itself, by each of its names.
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

/// Hides nothing: only the cell keeps others away.
const OWNER: &str = r#"
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

/// Has a treasure of its own, which it must find, and by several ways.
const SEEKER: &str = r#"
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

/// The user of the process that has the treasure, once it is there.
fn owner() -> Option<u32> {
    let mut inmates = inmates().into_iter();
    let owner = inmates.find(|inmate| inmate.path("tmp/treasure").exists());
    owner.map(|owner| owner.user)
}

#[tokio::test]
async fn a_task_that_runs_at_the_same_time_is_out_of_sight() {
    let zoo = Zoo::open().await;
    let task = |text: &str| {
        json!({
            "source": {"main.py": text},
            "execute": {"command": ["python3", "-S", "main.py"], "limits": {"wall": "120s"}},
        })
    };
    let first = zoo.system.add(task(OWNER)).await;
    let owner = await_that("a treasure", SOON, async || owner()).await;
    let second = zoo.system.run(task(SEEKER)).await;
    let now = zoo.system.client.get(first.id, None).await.unwrap();
    assert!(!now.done, "the two did not run at the same time: {now:?}");

    let outcome = executed(second);
    let seen: Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    assert_ne!(seen["user"], owner, "{seen:#}");
    // Its own, in /tmp and by way of /proc.
    assert!(seen["ways"].as_u64() >= Some(2), "{seen:#}");
    assert_eq!(seen["files"], 1, "{seen:#}");
    assert_eq!(seen["called"], "ECONNREFUSED", "{seen:#}");
    assert_eq!(seen["segment"], "ENOENT", "{seen:#}");
    assert_eq!(seen["others"], json!([]), "{seen:#}");
    zoo.system.client.cancel(first.id).await.unwrap();
    zoo.look_around().await;
}

/// Holds locks on devices, which are there in every cell, and says so by a file.
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
async fn a_lock_on_a_device_is_not_felt_in_another_slot() {
    let zoo = Zoo::open().await;
    let task = |text: &str| {
        json!({
            "source": {"main.py": text},
            "execute": {"command": ["python3", "-S", "main.py"], "limits": {"wall": "120s"}},
        })
    };
    let first = zoo.system.add(task(LOCKER)).await;
    await_that("the locks", SOON, async || {
        let mut inmates = inmates().into_iter();
        inmates.find(|inmate| inmate.path("tmp/locked").exists())
    })
    .await;
    let second = zoo.system.run(task(SECOND_LOCKER)).await;
    assert_eq!(
        executed(second).stdout,
        "/dev/null is free\n/dev/zero is free\n/dev/urandom is free\n"
    );
    zoo.system.client.cancel(first.id).await.unwrap();
    zoo.look_around().await;
}

#[tokio::test]
async fn what_a_compiler_left_is_run_as_what_it_is() {
    let zoo = Zoo::open().await;
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
        let task = zoo.task(&task).await;
        let outcome = &task["result"]["execute"];
        assert_eq!(task["status"], "run_failed", "{name}: {task:#}");
        assert!(
            outcome["exit_code"] == 126 || outcome["exit_code"] == 127,
            "{name}: {outcome:#}"
        );
    }
}

#[tokio::test]
async fn a_file_of_the_machine_cannot_be_made_an_output() {
    let zoo = Zoo::open().await;
    for foreign in ["/usr/bin/env", "/etc/passwd"] {
        // With a file of its own it can be done.
        let text = format!("echo > own && ln own main && rm main && ln {foreign} main");
        let task = json!({"compile": {"command": text}, "execute": {"command": ["./main"]}});
        let task = zoo.task(&task).await;
        assert_eq!(task["status"], "compile_failed", "{task:#}");
        let said = task["result"]["compile"]["stderr"].as_str().unwrap_or_default();
        assert!(said.contains("cross-device"), "{task:#}");
    }
}

#[tokio::test]
async fn trees_that_resist_are_gone_with_their_task() {
    let zoo = Zoo::open().await;
    for (name, text) in [
        (
            "closed tree",
            "mkdir -p a/b/c && touch a/b/c/f && chmod 000 a/b/c a/b a",
        ),
        ("locked workspace", "chmod 000 /box /tmp"),
    ] {
        zoo.says(Animal::new(name, Program::Shell(text))).await;
    }
    let deep =
        "import os\nfor _ in range(5000):\n    os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w').close()";
    zoo.says(Animal::new("5,000 deep", Program::Python(deep))).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_life_that_was_killed() {
    let mut zoo = Zoo::open().await;
    let task = zoo.system.add(shell("setsid sleep 600 & sleep 600")).await;
    await_that("two sleepers", SOON, async || {
        let sleepers = inmates().iter().filter(|inmate| inmate.name == "sleep").count();
        (sleepers == 2).then_some(())
    })
    .await;
    zoo.kill_and_start_again();
    // What ran is lost with its executor, and runs again in the new life; once it is cancelled nobody is there.
    // The client's old connection went down with the node, so its first call may fail.
    await_that("the task to be cancelled", SOON, async || {
        zoo.system.client.cancel(task.id).await.ok()
    })
    .await;
    zoo.look_around().await;
    assert!(!groups(&zoo.system).is_empty());
    let system = zoo.close().await;
    assert_eq!(groups(&system), Vec::<std::path::PathBuf>::new());
}
