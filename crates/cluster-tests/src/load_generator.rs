//! Clients that keep adding tasks while nodes fail, and verify at the end that every acknowledged task was kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::{NewTask, Task};
use futures::StreamExt;
use model::{TaskId, TaskStatus};
use serde_json::json;
use tokio::task::JoinHandle;

mod longest_gap;

use crate::{GatewayClients, RunHistory, TaskRun, wait_until};
use longest_gap::LongestGap;

/// Adders cancel one of this many tasks.
const CANCEL_EVERY: usize = 5;
/// Between two attempts of a call.
const RETRY_PAUSE: Duration = Duration::from_millis(30);
/// Long, because tests do not measure speed.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an event stream may be silent before the task is read.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Tasks that are read at the same time in the final check.
const PARALLEL_CHECKS: usize = 8;

/// Clients that keep adding tasks to a system under test, and the tasks whose adds were acknowledged to them.
pub struct LoadGenerator {
    stop: Arc<AtomicBool>,
    counts: Arc<LoadCounters>,
    clients: Vec<JoinHandle<Vec<AcknowledgedTask>>>,
    /// Tasks that the test itself has added.
    others: Vec<AcknowledgedTask>,
}

/// How many clients a test's load generator runs, and how long they pause.
#[derive(Clone, Copy)]
struct LoadProfile {
    /// Clients that wait for each task before they add the next.
    followers: usize,
    /// Clients that do not wait, and cancel some of their tasks.
    adders: usize,
    /// Between two tasks of a follower.
    rest: Duration,
    /// Between two tasks of an adder.
    pause: Duration,
}

/// As much as one machine can handle.
const HIGH_LOAD: LoadProfile = LoadProfile {
    followers: 4,
    adders: 3,
    rest: Duration::ZERO,
    pause: Duration::from_millis(30),
};

/// Leaves CPU time for a whole cluster on one small machine.
const LOW_LOAD: LoadProfile = LoadProfile {
    followers: 3,
    adders: 2,
    rest: Duration::from_millis(100),
    pause: Duration::from_millis(200),
};

/// The progress of all clients of a test's load generator: acknowledged adds, done tasks, and the longest gap.
struct LoadCounters {
    acknowledged: AtomicUsize,
    done: AtomicUsize,
    gap: LongestGap,
}

/// A task whose add was acknowledged to a client of the load generator, so it must not get lost.
struct AcknowledgedTask {
    id: TaskId,
    /// The task when it was first seen done; it must not change any more.
    done: Option<Task>,
}

/// Size of a task's data, large enough to be stored as a blob.
const BLOB: usize = 40 << 10;

/// One client of a test's load generator: adds, cancels and follows tasks, and repeats calls until they succeed.
struct LoadClient {
    gateways: GatewayClients,
    counts: Arc<LoadCounters>,
    commands: Vec<String>,
}

impl LoadGenerator {
    pub fn start(gateways: impl Into<GatewayClients>, history: &RunHistory) -> LoadGenerator {
        LoadGenerator::start_with(HIGH_LOAD, gateways.into(), history)
    }

    pub fn start_low_load(gateways: impl Into<GatewayClients>, history: &RunHistory) -> LoadGenerator {
        LoadGenerator::start_with(LOW_LOAD, gateways.into(), history)
    }

    fn start_with(profile: LoadProfile, gateways: GatewayClients, history: &RunHistory) -> LoadGenerator {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(LoadCounters {
            acknowledged: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            gap: LongestGap::new(),
        });
        let whole = format!("[ $(cat data/lines | wc -c) = {BLOB} ]");
        let works = [
            &whole,
            "sleep 0.05",
            // A daemonised process must not outlive its task.
            "setsid --fork sleep 600 < /dev/null > /dev/null 2>&1",
        ];
        let record = |work: &str| history.record(&format!("{work} && echo $CONCLAVE_TASK $$"));
        let commands = Vec::from(works.map(record));
        let clients = (0..profile.followers + profile.adders).map(|number| {
            let stop = stop.clone();
            let client = LoadClient {
                gateways: gateways.clone(),
                counts: counts.clone(),
                commands: commands.clone(),
            };
            // Distributes the clients over all gateways.
            (0..number).for_each(|_| client.gateways.switch_to_next());
            tokio::spawn(async move {
                let mut acknowledged_tasks = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let id = client.add(acknowledged_tasks.len()).await;
                    let done = if number < profile.followers {
                        let done = client.follow(id).await;
                        tokio::time::sleep(profile.rest).await;
                        Some(done)
                    } else if acknowledged_tasks.len() % CANCEL_EVERY == 0 {
                        Some(client.cancel(id).await)
                    } else {
                        tokio::time::sleep(profile.pause).await;
                        None
                    };
                    acknowledged_tasks.push(AcknowledgedTask { id, done });
                }
                acknowledged_tasks
            })
        });
        LoadGenerator {
            clients: clients.collect(),
            stop,
            counts,
            others: Vec::new(),
        }
    }

    /// Includes a task that the test itself has added in the final check.
    pub fn expect(&mut self, id: TaskId) {
        self.others.push(AcknowledgedTask { id, done: None });
    }

    /// Starts to measure the longest time without an acknowledged add.
    pub fn reset_longest_gap(&self) {
        self.counts.gap.reset();
    }

    /// The longest time without an acknowledged add since the last reset.
    pub fn longest_gap(&self) -> Duration {
        self.counts.gap.longest()
    }

    /// Waits until another add is acknowledged and another task is done; returns how long that took.
    pub async fn wait_for_progress(&self) -> Duration {
        let begun = Instant::now();
        let count = || {
            let LoadCounters {
                acknowledged, done, ..
            } = &*self.counts;
            (acknowledged.load(Ordering::Relaxed), done.load(Ordering::Relaxed))
        };
        let before = count();
        wait_until("tasks to be added and done again", PROGRESS_TIMEOUT, async || {
            let now = count();
            (now.0 > before.0 && now.1 > before.1).then_some(())
        })
        .await;
        begun.elapsed()
    }

    /// Stops the clients, and asserts that every acknowledged task has ended exactly once, as its last run reported.
    pub async fn stop_and_verify(self, gateways: impl Into<GatewayClients>, history: &RunHistory) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let gateways = gateways.into();
        let mut acknowledged_tasks = self.others;
        for client in self.clients {
            acknowledged_tasks.extend(client.await.expect("a client"));
        }
        let looks = acknowledged_tasks.iter().map(async |acknowledged_task| {
            let task = gateways.done(acknowledged_task.id).await;
            if let Some(earlier) = &acknowledged_task.done {
                assert_eq!(earlier, &task, "a done task changed");
            }
            task
        });
        let tasks: Vec<Task> = futures::stream::iter(looks)
            .buffered(PARALLEL_CHECKS)
            .collect()
            .await;
        let mut runs: HashMap<String, Vec<TaskRun>> = HashMap::new();
        for run in history.runs() {
            runs.entry(run.task.clone()).or_default().push(run);
        }
        for task in &tasks {
            let runs = runs.remove(&task.id.to_string()).unwrap_or_default();
            assert_ran_as_reported(task, &runs);
        }
        assert!(
            runs.is_empty(),
            "runs of tasks that were not acknowledged: {runs:?}"
        );
        let ids: HashSet<_> = tasks.iter().map(|task| task.id).collect();
        let stats = gateways.stats().await;
        let stored: u64 = stats.counts.values().sum();
        assert_eq!((stored, ids.len()), (ids.len() as u64, tasks.len()));
        history.assert_no_overlap();
        tasks.len()
    }
}

/// Asserts that the result is that of the last run.
fn assert_ran_as_reported(task: &Task, runs: &[TaskRun]) {
    if task.status == TaskStatus::Cancelled {
        assert_eq!(task.result, None);
        return;
    }
    let result = task.result.as_ref().and_then(|result| result.execute.as_ref());
    let (TaskStatus::Success, Some(outcome)) = (task.status, result) else {
        panic!("not a success: {task:?}, whose runs were {runs:?}");
    };
    let Some(last) = runs.last() else {
        panic!("done without having run: {task:?}");
    };
    assert_eq!(
        outcome.stdout,
        format!("{} {}\n", task.id, last.pid),
        "runs: {runs:?}"
    );
    assert!(
        last.end.is_some() && task.attempt as usize >= runs.len(),
        "{task:?}, whose runs were {runs:?}"
    );
}

impl LoadClient {
    /// Adds a task, with the same id until it is acknowledged.
    async fn add(&self, number: usize) -> TaskId {
        let id = TaskId(uuid::Uuid::now_v7());
        let task: NewTask = serde_json::from_value(json!({
            "id": id.to_string(),
            "user": "load",
            // Unique for each task, so that each blob has to be stored and fetched.
            "data": {"lines": format!("{:0>BLOB$}", id.to_string())},
            "execute": {"command": self.commands[number % self.commands.len()]},
        }))
        .expect("a task");
        loop {
            match self
                .gateways
                .call(async |client| client.add(&task, None).await)
                .await
            {
                Some(Ok(added)) => {
                    assert_eq!(added.id, id);
                    self.counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                    self.counts.gap.record_success();
                    return id;
                }
                Some(Err(error)) => assert!(error.is_transient(), "add was refused for good: {error:?}"),
                None => {}
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Cancels a task, until that is acknowledged or the task is done.
    async fn cancel(&self, id: TaskId) -> Task {
        loop {
            match self.gateways.call(async |client| client.cancel(id).await).await {
                Some(Ok(task)) => {
                    assert_eq!(task.status, TaskStatus::Cancelled);
                    return task;
                }
                Some(Err(error)) if error.problem().is_some_and(|problem| problem.status == 409) => {
                    return self.follow(id).await;
                }
                Some(Err(error)) => assert!(error.is_transient(), "cancel was refused for good: {error:?}"),
                None => {}
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Follows the events of a task until it is done, across broken connections.
    async fn follow(&self, id: TaskId) -> Task {
        loop {
            if let Some(Ok(mut events)) = self.gateways.call(async |client| client.events(id).await).await {
                let mut last: Option<TaskStatus> = None;
                while let Ok(Some(Ok(event))) = tokio::time::timeout(EVENT_TIMEOUT, events.next()).await {
                    let may_follow = last.is_none_or(|last| last.may_become(event.status));
                    assert!(may_follow, "task {id} went from {last:?} to {}", event.status);
                    last = Some(event.status);
                }
            }
            if let Some(Ok(task)) = self
                .gateways
                .call(async |client| client.get(id, None).await)
                .await
                && task.done
            {
                self.counts.done.fetch_add(1, Ordering::Relaxed);
                return task;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}
