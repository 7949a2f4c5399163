//! Clients that go on adding tasks whatever happens to the nodes, and remember what they were promised.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::{Client, NewTask, Task};
use futures::StreamExt;
use model::{Status, TaskId};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::{History, Run, System, await_that};

/// They wait for each task before they add the next.
const FOLLOWERS: usize = 4;
/// They do not wait, and cancel some of what they have added.
const ADDERS: usize = 3;
/// Which of their tasks they cancel: every so manieth.
const CANCELLED: usize = 5;
/// Between two tasks of one that does not wait, and between two tries to be heard.
const PAUSE: Duration = Duration::from_millis(30);
/// Generous: nothing here is a measure of speed.
const RESUMED: Duration = Duration::from_secs(60);

pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<Vec<Promise>>>,
}

#[derive(Default)]
struct Counts {
    acknowledged: AtomicUsize,
    done: AtomicUsize,
}

/// A task whose add was acknowledged.
struct Promise {
    id: TaskId,
    /// As it was when it was first seen done; it must stay like that.
    done: Option<Task>,
}

/// What was sent, large enough to lie beside the task as a blob.
const BLOB: usize = 40 << 10;

struct Adding {
    client: Client,
    counts: Arc<Counts>,
    commands: Vec<String>,
}

impl Load {
    pub fn start(system: &System, history: &History) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let whole = format!("[ $(cat data/lines | wc -c) = {BLOB} ]");
        let works = [
            &whole,
            "sleep 0.05",
            // What it leaves behind must not outlive it.
            "setsid --fork sleep 600 < /dev/null > /dev/null 2>&1",
        ];
        let record = |work: &str| history.record(&format!("{work} && echo $CONCLAVE_TASK $$"));
        let adding = Arc::new(Adding {
            client: system.client.clone(),
            counts: counts.clone(),
            commands: works.map(record).into(),
        });
        let clients = (0..FOLLOWERS + ADDERS).map(|number| {
            let (adding, stop) = (adding.clone(), stop.clone());
            tokio::spawn(async move {
                let mut promises = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let id = adding.add(promises.len()).await;
                    let done = if number < FOLLOWERS {
                        Some(adding.follow(id).await)
                    } else if promises.len() % CANCELLED == 0 {
                        Some(adding.cancel(id).await)
                    } else {
                        tokio::time::sleep(PAUSE).await;
                        None
                    };
                    promises.push(Promise { id, done });
                }
                promises
            })
        });
        Load {
            clients: clients.collect(),
            stop,
            counts,
        }
    }

    /// Waits until an add was acknowledged and a task came to its end since now; says how long that took.
    pub async fn resumed(&self) -> Duration {
        let begun = Instant::now();
        let count = || {
            let Counts { acknowledged, done } = &*self.counts;
            (acknowledged.load(Ordering::Relaxed), done.load(Ordering::Relaxed))
        };
        let before = count();
        await_that("tasks to be added and done again", RESUMED, async || {
            let now = count();
            (now.0 > before.0 && now.1 > before.1).then_some(())
        })
        .await;
        begun.elapsed()
    }

    /// Ends the clients; then every promise must be kept, exactly once.
    pub async fn settle(self, system: &System, history: &History) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut promises = Vec::new();
        for client in self.clients {
            promises.extend(client.await.expect("a client"));
        }
        let mut tasks = Vec::new();
        for promise in &promises {
            let task = system.done(promise.id).await;
            if let Some(earlier) = &promise.done {
                assert_eq!(earlier, &task, "a done task changed");
            }
            tasks.push(task);
        }
        let mut runs: HashMap<String, Vec<Run>> = HashMap::new();
        for run in history.runs() {
            runs.entry(run.task.clone()).or_default().push(run);
        }
        for task in &tasks {
            let runs = runs.remove(&task.id.to_string()).unwrap_or_default();
            assert_kept(task, &runs);
        }
        assert!(runs.is_empty(), "runs that nobody asked for: {runs:?}");
        let ids: HashSet<_> = tasks.iter().map(|task| task.id).collect();
        let stats = system.client.stats().await.expect("stats");
        let stored: u64 = stats.counts.values().sum();
        assert_eq!((stored, ids.len()), (ids.len() as u64, tasks.len()));
        history.assert_no_overlap();
        tasks.len()
    }
}

/// The result is that of the last run, and there was no run after it was committed.
fn assert_kept(task: &Task, runs: &[Run]) {
    if task.status == Status::Cancelled {
        assert_eq!(task.result, None);
        return;
    }
    let result = task.result.as_ref().and_then(|result| result.execute.as_ref());
    let (Status::Success, Some(outcome)) = (task.status, result) else {
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

impl Adding {
    /// Repeats it under the same id until it is acknowledged.
    async fn add(&self, number: usize) -> TaskId {
        let id = TaskId::generate();
        let task: NewTask = serde_json::from_value(json!({
            "id": id.to_string(),
            "user": "load",
            // Of its own for every task, so that each has to be kept and brought.
            "data": {"lines": format!("{:0>BLOB$}", id.to_string())},
            "execute": {"command": self.commands[number % self.commands.len()]},
        }))
        .expect("a task");
        loop {
            match self.client.add(&task, None).await {
                Ok(added) => {
                    assert_eq!(added.id, id);
                    self.counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                    return id;
                }
                Err(error) => assert!(error.is_transient(), "add was refused for good: {error:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Repeats it until it is acknowledged, or the task is done otherwise.
    async fn cancel(&self, id: TaskId) -> Task {
        loop {
            match self.client.cancel(id).await {
                Ok(task) => {
                    assert_eq!(task.status, Status::Cancelled);
                    return task;
                }
                Err(error) if error.problem().is_some_and(|problem| problem.status == 409) => {
                    return self.follow(id).await;
                }
                Err(error) => assert!(error.is_transient(), "cancel was refused for good: {error:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows its statuses until it is done, over broken connections.
    async fn follow(&self, id: TaskId) -> Task {
        loop {
            if let Ok(mut events) = self.client.events(id).await {
                let mut last: Option<Status> = None;
                while let Some(Ok(event)) = events.next().await {
                    let may_follow = last.is_none_or(|last| last.may_become(event.status));
                    assert!(may_follow, "task {id} went from {last:?} to {}", event.status);
                    last = Some(event.status);
                }
            }
            if let Ok(task) = self.client.get(id, None).await
                && task.done
            {
                self.counts.done.fetch_add(1, Ordering::Relaxed);
                return task;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
