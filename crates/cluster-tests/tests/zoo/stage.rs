//! A node with cells, and a look around after each task.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster_tests::{Node, System, Web, await_that};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Where the users of this zoo's cells begin. Another's are other users, so that each looks at its own.
pub(crate) fn first_user() -> u32 {
    1_900_000_000 + std::process::id() % 1_000_000 * 16
}

const SLOTS: u32 = 2;
const GONE: Duration = Duration::from_secs(20);

/// In the environment of every node here, and nobody's business but the node's.
pub(crate) const SECRET: (&str, &str) = ("ZOO_KEEPER", "has-the-keys-to-all-cages");

pub(crate) struct Zoo {
    up: Option<Node>,
    web: Web,
    settings: Vec<String>,
    pub(crate) system: System,
}

/// One program and how it is to be run.
pub(crate) struct Animal {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) limits: Value,
}

pub(crate) enum Program {
    C(&'static str),
    Python(&'static str),
    Shell(&'static str),
}

/// Every limit is there, so that each program meets the one that it is about.
pub(crate) fn usual() -> Value {
    json!({
        "wall": "20s", "cpu": "5s", "memory": "64MiB", "processes": 32, "output": "1MiB",
        "space": "32MiB", "open_files": 256, "stack": "8MiB"
    })
}

impl Animal {
    pub(crate) fn new(name: &'static str, program: Program) -> Animal {
        Animal {
            name,
            program,
            limits: usual(),
        }
    }

    pub(crate) fn with(mut self, limit: &str, value: Value) -> Animal {
        self.limits[limit] = value;
        self
    }

    fn task(&self) -> Value {
        let (file, text, compile, command) = match self.program {
            Program::C(text) => (
                "main.c",
                text,
                Some("gcc -O1 -w -pthread -o main main.c"),
                "./main",
            ),
            Program::Python(text) => ("main.py", text, None, "python3 -S main.py"),
            Program::Shell(text) => ("main.sh", text, None, "sh main.sh"),
        };
        let mut task = json!({
            "user": "zoo",
            "source": {file: text},
            "execute": {"command": command, "limits": self.limits},
        });
        if let Some(command) = compile {
            task["compile"] = json!({"command": command, "limits": {"wall": "60s"}});
        }
        task
    }
}

impl Zoo {
    pub(crate) fn open() -> Zoo {
        Zoo::open_with(System::new().expect("a folder"), &[])
    }

    /// With the operator's settings, each as KEY=VALUE.
    pub(crate) fn open_with(system: System, settings: &[String]) -> Zoo {
        let up = start(&system, settings).expect("conclave up serves");
        let web = Web::new(&system.url(""));
        Zoo {
            up: Some(up),
            web,
            settings: settings.to_vec(),
            system,
        }
    }

    /// Runs it and looks around. Gives the outcome of its execute step.
    pub(crate) async fn run(&self, animal: Animal) -> Value {
        let task = self.task(&animal.task()).await;
        let outcome = task["result"]["execute"].clone();
        assert!(outcome.is_object(), "{}: {task:#}", animal.name);
        outcome
    }

    /// Runs it, and it must end by this reason.
    pub(crate) async fn ends_by(&self, reason: &str, animal: Animal) -> Value {
        let name = animal.name;
        let outcome = self.run(animal).await;
        assert_eq!(outcome["reason"], reason, "{name}: {outcome:#}");
        outcome
    }

    /// Runs it to a good end. Gives what it wrote.
    pub(crate) async fn says(&self, animal: Animal) -> String {
        let name = animal.name;
        let outcome = self.run(animal).await;
        assert_eq!(outcome["exit_code"], 0, "{name}: {outcome:#}");
        outcome["stdout"].as_str().expect("text").to_string()
    }

    /// Any task. What it says is judged by the caller; that it leaves nothing, here.
    pub(crate) async fn task(&self, task: &Value) -> Value {
        let done = self.web.run(task).await;
        self.look_around().await;
        done
    }

    pub(crate) fn pid(&self) -> i32 {
        self.up.as_ref().expect("it is open").pid()
    }

    /// As a power failure of this one process, and then its next life on the same folder.
    pub(crate) fn kill_and_start_again(&mut self) {
        if let Some(up) = self.up.take() {
            up.kill();
        }
        self.up = Some(start(&self.system, &self.settings).expect("conclave up serves again"));
        self.web = Web::new(&self.system.url(""));
    }

    /// Ends the node in order.
    pub(crate) async fn close(mut self) -> System {
        let mut up = self.up.take().expect("it is open");
        up.signal(Signal::SIGTERM);
        up.ended(GONE).await;
        std::mem::replace(&mut self.system, System::new().expect("a folder"))
    }

    pub(crate) async fn look_around(&self) {
        let next = self
            .web
            .run(&json!({"execute": {"command": "echo $((6 * 7)); ls -A /box /tmp /dev/shm"}}))
            .await;
        let outcome = &next["result"]["execute"];
        assert_eq!(outcome["stdout"], "42\n/box:\n\n/dev/shm:\n\n/tmp:\n", "{next:#}");
        self.system.remains().await_none().await;
        let mut left = Vec::new();
        await_that("nothing to be left in cells", GONE, async || {
            left = inmates();
            left.is_empty().then_some(())
        })
        .await;
    }
}

fn start(system: &System, settings: &[String]) -> anyhow::Result<Node> {
    let (slots, user) = (SLOTS.to_string(), format!("sandbox.first_user={}", first_user()));
    let mut command = system.up_command(&["--isolation", "cell", "--slots", &slots, "--set", &user]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let (name, value) = SECRET;
    command.env(name, value);
    Node::launch("up", system.folder.path(), command)
}

/// The control groups of an executor, wherever they are.
pub(crate) fn groups(system: &System) -> Vec<PathBuf> {
    let id = fs::read_to_string(system.data().join("executor/id")).unwrap_or_default();
    let name = format!("conclave-{}", id.trim());
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() == name.as_str() => found.push(entry.path()),
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

impl Drop for Zoo {
    /// In order, so that nothing is left on the machine that tests it.
    fn drop(&mut self) {
        if let Some(up) = self.up.take() {
            up.signal(Signal::SIGTERM);
            let deadline = Instant::now() + GONE;
            while lives(up.pid()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Processes of the cells' users, but for those that wait for a task: these are still ours.
pub(crate) fn inmates() -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim().to_string()).unwrap_or_default()
        };
        let user: u32 = field("Uid:")
            .split_whitespace()
            .next()
            .and_then(|id| id.parse().ok())
            .unwrap_or(0);
        let is_parked = is_ours(&entry.path());
        if (first_user()..first_user() + 2 * SLOTS).contains(&user) && !is_parked {
            found.push(format!(
                "{} {}",
                entry.file_name().to_string_lossy(),
                field("Name:")
            ));
        }
    }
    found
}

fn is_ours(process: &Path) -> bool {
    let program = fs::read_link(process.join("exe"));
    program.is_ok_and(|program| program.to_string_lossy().contains("conclave"))
}
