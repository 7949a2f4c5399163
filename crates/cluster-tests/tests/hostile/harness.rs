//! A node with cells that is checked for leftovers after each task.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::{Outcome, Task};
use cluster_tests::{NodeProcess, RawHttpClient, TestSystem, is_alive, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::node_inventory::NodeInventory;

/// The first user id of this node's cells. Nodes of other test processes use other ids, so that each finds its own processes.
pub(crate) fn first_user() -> u32 {
    1_900_000_000 + std::process::id() % 1_000_000 * 32
}

const SLOTS: u32 = 2;
/// Two wardens take turns in each slot. Each has its own user id.
pub(crate) const WARDENS: u32 = 2 * SLOTS;
const GONE: Duration = Duration::from_secs(20);
/// Until each warden has run a task; each task may have to compile.
const TURNS: Duration = Duration::from_secs(60);

/// A variable in the environment of every node, which no task may read.
pub(crate) const SECRET: (&str, &str) = ("ZOO_KEEPER", "has-the-keys-to-all-cages");

/// A `conclave up` with cells that runs hostile programs in a test, and its state when it is idle.
pub(crate) struct HostileTestNode {
    up: Option<NodeProcess>,
    web: RawHttpClient,
    settings: Vec<String>,
    /// Processes, mounts, control groups and files when each warden had run a task and none was left.
    idle_inventory: NodeInventory,
    pub(crate) system: TestSystem,
}

/// A hostile program that a test runs in a cell, and the limits with which it runs.
pub(crate) struct HostileProgram {
    pub(crate) name: &'static str,
    pub(crate) program: ProgramSource,
    pub(crate) limits: Value,
}

/// The source code of a hostile program that a test runs in a cell, by its language.
pub(crate) enum ProgramSource {
    C(&'static str),
    Python(&'static str),
    Shell(&'static str),
}

/// Every limit is set, so that each program reaches the one that it is about.
pub(crate) fn default_limits() -> Value {
    json!({
        "wall": "20s", "cpu": "5s", "memory": "64MiB", "processes": 32, "output": "1MiB",
        "space": "32MiB", "open_files": 256, "stack": "8MiB"
    })
}

impl HostileProgram {
    pub(crate) fn new(name: &'static str, program: ProgramSource) -> HostileProgram {
        HostileProgram {
            name,
            program,
            limits: default_limits(),
        }
    }

    pub(crate) fn with(mut self, limit: &str, value: Value) -> HostileProgram {
        self.limits[limit] = value;
        self
    }

    fn task(&self) -> Value {
        let (file, text, compile, command) = match self.program {
            ProgramSource::C(text) => (
                "main.c",
                text,
                Some("gcc -O1 -w -pthread -o main main.c"),
                "./main",
            ),
            ProgramSource::Python(text) => ("main.py", text, None, "python3 -S main.py"),
            ProgramSource::Shell(text) => ("main.sh", text, None, "sh main.sh"),
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

impl HostileTestNode {
    pub(crate) async fn start() -> HostileTestNode {
        HostileTestNode::start_with(TestSystem::new().expect("a folder"), &[]).await
    }

    /// Starts the node with settings, each as KEY=VALUE.
    pub(crate) async fn start_with(system: TestSystem, settings: &[String]) -> HostileTestNode {
        let up = start(&system, settings).expect("conclave up serves");
        let web = RawHttpClient::new(&system.url(""));
        assert_output_on_every_warden(&web, &next_task(), NEXT_OUTPUT).await;
        // An inventory takes a while, in which a cell may be replaced. It counts if the next one is the same.
        let mut last = None;
        let idle_inventory = wait_until("every warden to have a cell ready", GONE, async || {
            let seen = Some(NodeInventory::of(up.pid(), &system)).filter(NodeInventory::is_idle);
            let before = std::mem::replace(&mut last, seen);
            before.filter(|before| last.as_ref() == Some(before))
        })
        .await;
        HostileTestNode {
            up: Some(up),
            web,
            settings: settings.to_vec(),
            idle_inventory,
            system,
        }
    }

    /// Runs the program and checks for leftovers. Returns the outcome of its execute step.
    pub(crate) async fn run(&self, hostile_program: HostileProgram) -> Value {
        let task = self.task(&hostile_program.task()).await;
        let outcome = task["result"]["execute"].clone();
        assert!(outcome.is_object(), "{}: {task:#}", hostile_program.name);
        outcome
    }

    /// Runs the program, and asserts the reason with which it ended.
    pub(crate) async fn assert_reason(&self, reason: &str, hostile_program: HostileProgram) -> Value {
        let name = hostile_program.name;
        let outcome = self.run(hostile_program).await;
        assert_eq!(outcome["reason"], reason, "{name}: {outcome:#}");
        outcome
    }

    /// Runs a program that must succeed, and returns its output.
    pub(crate) async fn output_of(&self, hostile_program: HostileProgram) -> String {
        let name = hostile_program.name;
        let outcome = self.run(hostile_program).await;
        assert_eq!(outcome["exit_code"], 0, "{name}: {outcome:#}");
        outcome["stdout"].as_str().expect("text").to_string()
    }

    /// Runs a task and checks for leftovers. The caller checks the result.
    pub(crate) async fn task(&self, task: &Value) -> Value {
        let done = self.web.run(task).await;
        // A task that kills its warden runs again; the attempt number shows that.
        assert_eq!(done["attempt"], 1, "{done:#}");
        self.assert_clean().await;
        done
    }

    /// Runs a shell task until every warden has run it, and asserts its output each time.
    pub(crate) async fn assert_output_on_every_warden(&self, task: &Value, expected: &str) {
        assert_output_on_every_warden(&self.web, task, expected).await;
        self.wait_until_idle().await;
    }

    pub(crate) fn pid(&self) -> i32 {
        self.up.as_ref().expect("it is running").pid()
    }

    pub(crate) fn log(&self) -> String {
        self.up.as_ref().expect("it is running").log()
    }

    /// Kills the node, and starts it again on the same folder.
    pub(crate) fn kill_and_start_again(&mut self) {
        if let Some(up) = self.up.take() {
            up.kill();
        }
        self.up = Some(start(&self.system, &self.settings).expect("conclave up serves again"));
        self.web = RawHttpClient::new(&self.system.url(""));
    }

    /// Stops the node in order.
    pub(crate) async fn stop(mut self) -> TestSystem {
        let mut up = self.up.take().expect("it is running");
        up.signal(Signal::SIGTERM);
        up.wait_for_end(GONE).await;
        std::mem::replace(&mut self.system, TestSystem::new().expect("a folder"))
    }

    pub(crate) async fn assert_clean(&self) {
        assert_output_on_every_warden(&self.web, &next_task(), NEXT_OUTPUT).await;
        self.wait_until_idle().await;
    }

    /// Whether the inventory is the same as when the node was idle.
    pub(crate) fn is_idle(&self) -> bool {
        NodeInventory::of(self.pid(), &self.system) == self.idle_inventory
    }

    async fn wait_until_idle(&self) {
        self.system.leftovers().wait_until_clean().await;
        let deadline = Instant::now() + GONE;
        let seen = wait_until("an inventory", 2 * GONE, async || {
            let seen = NodeInventory::of(self.pid(), &self.system);
            (seen == self.idle_inventory || Instant::now() > deadline).then_some(seen)
        })
        .await;
        assert_eq!(
            seen, self.idle_inventory,
            "the inventory, and that of the idle node"
        );
        wait_until("all slots of the executor to be free", GONE, async || {
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

/// The outcome of the task's execute step.
pub(crate) fn executed(task: Task) -> Outcome {
    let outcome = task.result.and_then(|result| result.execute);
    outcome.expect("an outcome")
}

/// A task whose output shows leftovers of earlier tasks.
fn next_task() -> Value {
    json!({"execute": {"command": "echo $((6 * 7)); ls -A /box /tmp /dev/shm"}})
}

const NEXT_OUTPUT: &str = "42\n/box:\n\n/dev/shm:\n\n/tmp:\n";

async fn assert_output_on_every_warden(web: &RawHttpClient, task: &Value, expected: &str) {
    let mut task = task.clone();
    let command = task["execute"]["command"].as_str().expect("a shell's text");
    // `ls` instead of `id`, which not every root file system has.
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

fn start(system: &TestSystem, settings: &[String]) -> anyhow::Result<NodeProcess> {
    let (slots, user) = (SLOTS.to_string(), format!("sandbox.first_user={}", first_user()));
    let mut command = system.up_command(&["--isolation", "cell", "--slots", &slots, "--set", &user]);
    // On a busy machine the node may pause for seconds. With the default lease its tasks would run again.
    for setting in ["executor.self_kill=20s", "judicator.lease=30s"] {
        command.args(["--set", setting]);
    }
    for setting in settings {
        command.args(["--set", setting]);
    }
    let (name, value) = SECRET;
    command.env(name, value);
    NodeProcess::launch("up", system.folder.path(), command)
}

impl Drop for HostileTestNode {
    /// Stops the node in order, so that nothing is left on the machine.
    fn drop(&mut self) {
        if let Some(up) = self.up.take() {
            up.signal(Signal::SIGTERM);
            let deadline = Instant::now() + GONE;
            while is_alive(up.pid()) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
