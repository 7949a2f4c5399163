//! What the tests of faults share: tasks that wait at a gate, and how to wait for what they do.

use std::path::PathBuf;
use std::time::Duration;

use api::{Executor, Task};
use cluster_tests::{History, Run, System, await_that, shell};
use model::{Status, TaskId};
use serde_json::Value;

/// Generous: the machine may be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(40);

/// So that a silence is believed soon. Not shorter, or a busy machine could fall silent by itself.
pub(crate) const LEASE: Duration = Duration::from_secs(4);
pub(crate) const SHORT_LEASE: [&str; 8] = [
    "--set",
    "judicator.lease=4s",
    "--set",
    "judicator.grace=500ms",
    "--set",
    "executor.self_kill=2500ms",
    "--set",
    "executor.heartbeat=400ms",
];

/// Where something has to be over before a silence is believed: long enough for that on a busy machine.
pub(crate) const FAIR: Duration = Duration::from_secs(10);
pub(crate) const FAIR_LEASE: [&str; 8] = [
    "--set",
    "judicator.lease=10s",
    "--set",
    "judicator.grace=500ms",
    "--set",
    "executor.self_kill=8s",
    "--set",
    "executor.heartbeat=500ms",
];

/// So that no silence is believed while a test lasts: what happens then happens for another reason.
pub(crate) const LONG_LEASE: [&str; 4] = ["--set", "judicator.lease=10m", "--set", "executor.self_kill=9m"];

pub(crate) struct Stage {
    pub(crate) system: System,
    pub(crate) history: History,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        let system = System::new().unwrap();
        let history = History::new(system.folder.path());
        Stage { system, history }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.system.folder.path().join(name)
    }

    /// A task that runs until the gate is opened, with a child that only a kill can end. It prints the run's pid.
    pub(crate) fn waiting(&self) -> Value {
        shell(&self.history.until(&self.path("gate")))
    }

    /// The same, but its first run waits at a gate of its own.
    pub(crate) fn waiting_twice(&self) -> Value {
        let [once, first, gate] =
            ["once", "first_gate", "gate"].map(|name| self.path(name).display().to_string());
        let choose = format!("mkdir {once} 2> /dev/null && gate={first} || gate={gate}");
        shell(&format!("{choose}; {}", self.history.until("$gate".as_ref())))
    }

    pub(crate) async fn add_waiting(&self) -> TaskId {
        self.system.add(self.waiting()).await.id
    }

    /// A task that ends at once.
    pub(crate) fn quick(&self) -> Value {
        shell(&self.history.record("echo $$"))
    }

    pub(crate) fn open(&self, gate: &str) {
        std::fs::write(self.path(gate), "").unwrap();
    }

    /// Waits until so many runs of the task have begun, with all of their processes.
    pub(crate) async fn runs(&self, id: TaskId, count: usize) -> Vec<Run> {
        await_that(&format!("run {count} of {id}"), SOON, async || {
            let runs = self.history.runs_of(id);
            let complete = runs.get(count - 1).is_some_and(|run| run.pids.len() > 1);
            complete.then_some(runs)
        })
        .await
    }

    /// The task as it is now. Asked again where the connection was to a process that has died.
    pub(crate) async fn look(&self, id: TaskId) -> Task {
        await_that(&format!("an answer about {id}"), SOON, async || {
            self.system.client.get(id, None).await.ok()
        })
        .await
    }

    pub(crate) async fn status(&self, id: TaskId, status: Status) -> Task {
        await_that(&format!("task {id} to be {status}"), SOON, async || {
            let task = self.system.client.get(id, None).await.ok()?;
            (task.status == status).then_some(task)
        })
        .await
    }

    /// Waits until nothing of the run is alive.
    pub(crate) async fn gone(&self, run: &Run) {
        await_that(&format!("run {} to be gone", run.pid), SOON, async || {
            let alive = self.history.alive();
            run.pids.iter().all(|pid| !alive.contains(pid)).then_some(())
        })
        .await;
    }

    pub(crate) async fn nobody_alive(&self) {
        await_that("every process of every run to be gone", SOON, async || {
            self.history.alive().is_empty().then_some(())
        })
        .await;
    }

    /// Opens the gate; the task must succeed, with the result of its last run.
    pub(crate) async fn finish(&self, id: TaskId) -> (Task, Vec<Run>) {
        self.open("gate");
        let task = self.system.done(id).await;
        let runs = self.history.runs_of(id);
        assert_eq!(task.status, Status::Success, "{task:?}");
        let last = runs.last().unwrap();
        assert_eq!(output(&task), format!("{}\n", last.pid), "{runs:?}");
        self.history.assert_no_overlap();
        (task, runs)
    }

    /// The executor as the judicator knows it.
    pub(crate) async fn executor(&self, name: &str) -> Option<Executor> {
        let executors = self.system.client.executors().await.ok()?;
        executors
            .into_iter()
            .find(|executor| executor.name.as_str() == name)
    }

    /// Waits until the executor is alive in a session that is not this one.
    pub(crate) async fn another_session(&self, name: &str, than: &str) -> Executor {
        await_that(&format!("a new session of {name}"), SOON, async || {
            let executor = self.executor(name).await?;
            (executor.health == "alive" && executor.session != than).then_some(executor)
        })
        .await
    }
}

pub(crate) fn output(task: &Task) -> &str {
    let result = task.result.as_ref().and_then(|result| result.execute.as_ref());
    &result.unwrap_or_else(|| panic!("no outcome: {task:?}")).stdout
}

/// Numbers that differ from run to run.
pub(crate) struct Chance(u64);

impl Chance {
    /// Says where it began, so that a failure can be told from another.
    pub(crate) fn new() -> Chance {
        let seed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64;
        println!("seed {seed}");
        Chance(seed | 1)
    }

    /// A moment up to this far away.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        // Xorshift: good enough to miss no moment for long.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        most.mul_f64((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}
