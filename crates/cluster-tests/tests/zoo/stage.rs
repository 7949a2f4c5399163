//! A node with cells, and a look around after each task.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::{Outcome, Task};
use cluster_tests::{Node, System, Web, await_that, lives};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::scene::Scene;

/// Where the users of this zoo's cells begin. Another's are other users, so that each looks at its own.
pub(crate) fn first_user() -> u32 {
    1_900_000_000 + std::process::id() % 1_000_000 * 16
}

const SLOTS: u32 = 2;
/// Two take turns in each slot. Each has a user of its own.
pub(crate) const WARDENS: u32 = 2 * SLOTS;
const GONE: Duration = Duration::from_secs(20);
/// For the tasks that it takes until each warden has had one; each of them may have something to compile.
const TURNS: Duration = Duration::from_secs(60);

/// In the environment of every node here, and nobody's business but the node's.
pub(crate) const SECRET: (&str, &str) = ("ZOO_KEEPER", "has-the-keys-to-all-cages");

pub(crate) struct Zoo {
    up: Option<Node>,
    web: Web,
    settings: Vec<String>,
    /// What there was when each warden had had one task, and none was left.
    quiet: Scene,
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
    pub(crate) async fn open() -> Zoo {
        Zoo::open_with(System::new().expect("a folder"), &[]).await
    }

    /// With the operator's settings, each as KEY=VALUE.
    pub(crate) async fn open_with(system: System, settings: &[String]) -> Zoo {
        let up = start(&system, settings).expect("conclave up serves");
        let web = Web::new(&system.url(""));
        every_warden_says(&web, &next_task(), NEXT).await;
        // One look takes a while, in which a cell may have been made anew: it counts if the next sees the same.
        let mut last = None;
        let quiet = await_that("every warden to have a cell ready", GONE, async || {
            let seen = Some(Scene::of(up.pid(), &system)).filter(Scene::is_quiet);
            let before = std::mem::replace(&mut last, seen);
            before.filter(|before| last.as_ref() == Some(before))
        })
        .await;
        Zoo {
            up: Some(up),
            web,
            settings: settings.to_vec(),
            quiet,
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
        // One that takes its warden along is tried again: whoever asks only for its end would not see that.
        assert_eq!(done["attempt"], 1, "{done:#}");
        self.look_around().await;
        done
    }

    /// Runs it, which is a shell's text, until every warden has had it. It must say this each time.
    pub(crate) async fn every_warden_says(&self, task: &Value, expected: &str) {
        every_warden_says(&self.web, task, expected).await;
        self.await_quiet().await;
    }

    pub(crate) fn pid(&self) -> i32 {
        self.up.as_ref().expect("it is open").pid()
    }

    pub(crate) fn log(&self) -> String {
        self.up.as_ref().expect("it is open").log()
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
        every_warden_says(&self.web, &next_task(), NEXT).await;
        self.await_quiet().await;
    }

    /// Whether there is now what there was when it was opened.
    pub(crate) fn is_quiet(&self) -> bool {
        Scene::of(self.pid(), &self.system) == self.quiet
    }

    async fn await_quiet(&self) {
        self.system.remains().await_none().await;
        let deadline = Instant::now() + GONE;
        let seen = await_that("a look around", 2 * GONE, async || {
            let seen = Scene::of(self.pid(), &self.system);
            (seen == self.quiet || Instant::now() > deadline).then_some(seen)
        })
        .await;
        assert_eq!(seen, self.quiet, "what is left, and what there was before");
        await_that("all slots of the executor to be free", GONE, async || {
            let stats = self.web.get("/api/v1/stats").await.json();
            assert_eq!(
                (&stats["executors"], &stats["slots"]),
                (&json!(1), &json!(SLOTS)),
                "{stats:#}"
            );
            (stats["held"] == 0).then_some(())
        })
        .await;
    }
}

/// What its execute step came to.
pub(crate) fn executed(task: Task) -> Outcome {
    let outcome = task.result.and_then(|result| result.execute);
    outcome.expect("an outcome")
}

/// Finds nothing of any task before it.
fn next_task() -> Value {
    json!({"execute": {"command": "echo $((6 * 7)); ls -A /box /tmp /dev/shm"}})
}

const NEXT: &str = "42\n/box:\n\n/dev/shm:\n\n/tmp:\n";

async fn every_warden_says(web: &Web, task: &Value, expected: &str) {
    let mut task = task.clone();
    let command = task["execute"]["command"].as_str().expect("a shell's text");
    // Not every root has `id`.
    task["execute"]["command"] = json!(format!("set -- $(ls -nd /box); echo $3; {command}"));
    let mut users = BTreeSet::new();
    let deadline = Instant::now() + TURNS;
    while users.len() < WARDENS as usize {
        assert!(Instant::now() < deadline, "tasks run as {users:?} only");
        let done = web.run(&task).await;
        let said = done["result"]["execute"]["stdout"].as_str().unwrap_or_default();
        let (user, rest) = said.split_once('\n').unwrap_or_default();
        assert_eq!(rest, expected, "{done:#}");
        assert_eq!(done["attempt"], 1, "{done:#}");
        users.insert(user.to_string());
    }
}

fn start(system: &System, settings: &[String]) -> anyhow::Result<Node> {
    let (slots, user) = (SLOTS.to_string(), format!("sandbox.first_user={}", first_user()));
    let mut command = system.up_command(&["--isolation", "cell", "--slots", &slots, "--set", &user]);
    // A busy machine may let the node stand still for seconds. With the defaults its tasks would be lost and tried again.
    for setting in ["executor.self_kill=20s", "judicator.lease=30s"] {
        command.args(["--set", setting]);
    }
    for setting in settings {
        command.args(["--set", setting]);
    }
    let (name, value) = SECRET;
    command.env(name, value);
    Node::launch("up", system.folder.path(), command)
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
