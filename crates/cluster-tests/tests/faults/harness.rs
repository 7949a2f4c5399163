//! A system under test whose tasks record their runs and wait at a gate that the test opens.

use std::path::PathBuf;
use std::time::Duration;

use api::{ExecutorState, Task};
use cluster_tests::{RunHistory, TaskRun, TestSystem, shell, wait_until};
use model::{TaskId, TaskStatus};
use serde_json::Value;

/// Long, because the machine may be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(40);

/// Short, so that failures are detected soon. A shorter lease could expire on a busy machine.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(4);
pub(crate) const SHORT_LEASE_FLAGS: [&str; 8] = [
    "--set",
    "judicator.lease=4s",
    "--set",
    "judicator.grace=500ms",
    "--set",
    "executor.self_kill=2500ms",
    "--set",
    "executor.heartbeat=400ms",
];

/// For tests in which something must end before the lease expires, also on a busy machine.
pub(crate) const MEDIUM_LEASE: Duration = Duration::from_secs(10);
pub(crate) const MEDIUM_LEASE_FLAGS: [&str; 8] = [
    "--set",
    "judicator.lease=10s",
    "--set",
    "judicator.grace=500ms",
    "--set",
    "executor.self_kill=8s",
    "--set",
    "executor.heartbeat=500ms",
];

/// Longer than any test, so that nothing happens because of an expired lease.
pub(crate) const LONG_LEASE_FLAGS: [&str; 4] =
    ["--set", "judicator.lease=10m", "--set", "executor.self_kill=9m"];

/// A system on one machine for fault tests, and the recorded runs of its tasks.
pub(crate) struct FaultHarness {
    pub(crate) system: TestSystem,
    pub(crate) history: RunHistory,
}

impl FaultHarness {
    pub(crate) fn new() -> FaultHarness {
        let system = TestSystem::new().unwrap();
        let history = RunHistory::new(system.folder.path());
        FaultHarness { system, history }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.system.folder.path().join(name)
    }

    /// A task that runs until the gate opens, with a daemonised child that only a kill ends. It prints the run's pid.
    pub(crate) fn waiting(&self) -> Value {
        shell(&self.history.until(&self.path("gate")))
    }

    /// As `waiting`, but the first run waits at another gate, `first_gate`.
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
    pub(crate) fn short_task(&self) -> Value {
        shell(&self.history.record("echo $$"))
    }

    pub(crate) fn open(&self, gate: &str) {
        std::fs::write(self.path(gate), "").unwrap();
    }

    /// Waits until `count` runs of the task have begun, with all of their processes.
    pub(crate) async fn wait_for_runs(&self, id: TaskId, count: usize) -> Vec<TaskRun> {
        wait_until(&format!("run {count} of {id}"), SOON, async || {
            let runs = self.history.runs_of(id);
            let complete = runs.get(count - 1).is_some_and(|run| run.pids.len() > 1);
            complete.then_some(runs)
        })
        .await
    }

    /// Reads the task; retries if the connection was to a process that has died.
    pub(crate) async fn get(&self, id: TaskId) -> Task {
        wait_until(&format!("an answer about {id}"), SOON, async || {
            self.system.client.get(id, None).await.ok()
        })
        .await
    }

    pub(crate) async fn wait_for_status(&self, id: TaskId, status: TaskStatus) -> Task {
        wait_until(&format!("task {id} to be {status}"), SOON, async || {
            let task = self.system.client.get(id, None).await.ok()?;
            (task.status == status).then_some(task)
        })
        .await
    }

    /// Waits until no process of the run is alive.
    pub(crate) async fn wait_until_gone(&self, run: &TaskRun) {
        wait_until(&format!("run {} to be gone", run.pid), SOON, async || {
            let alive = self.history.alive();
            run.pids.iter().all(|pid| !alive.contains(pid)).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_until_all_gone(&self) {
        wait_until("every process of every run to be gone", SOON, async || {
            self.history.alive().is_empty().then_some(())
        })
        .await;
    }

    /// Opens the gate, and asserts that the task succeeds with the result of its last run.
    pub(crate) async fn finish(&self, id: TaskId) -> (Task, Vec<TaskRun>) {
        self.open("gate");
        let task = self.system.done(id).await;
        let runs = self.history.runs_of(id);
        assert_eq!(task.status, TaskStatus::Success, "{task:?}");
        let last = runs.last().unwrap();
        assert_eq!(output(&task), format!("{}\n", last.pid), "{runs:?}");
        self.history.assert_no_overlap();
        (task, runs)
    }

    /// The state of the executor in the judicator's list.
    pub(crate) async fn executor(&self, name: &str) -> Option<ExecutorState> {
        let executors = self.system.client.executors().await.ok()?;
        executors
            .into_iter()
            .find(|executor| executor.name.as_str() == name)
    }

    /// Waits until the executor is alive in another session than this.
    pub(crate) async fn wait_for_other_session(&self, name: &str, than: &str) -> ExecutorState {
        wait_until(&format!("a new session of {name}"), SOON, async || {
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

/// A generator of pseudo-random pauses between the faults of a test, with a printed seed.
pub(crate) struct RandomPauses(u64);

impl RandomPauses {
    /// Seeded with the time; prints the seed.
    pub(crate) fn new() -> RandomPauses {
        let seed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64;
        println!("seed {seed}");
        RandomPauses(seed | 1)
    }

    /// A pause of at most `most`.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        // Xorshift64.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        most.mul_f64((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}
