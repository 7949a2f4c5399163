//! Clients that go on adding tasks whatever happens to the nodes, and remember what they were promised.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::{NewTask, Task};
use futures::StreamExt;
use model::{Status, TaskId};
use serde_json::json;
use tokio::task::JoinHandle;

mod gap;

use crate::{Gateways, History, Run, await_that};
use gap::Gap;

/// Which of their tasks they cancel: every so manieth.
const CANCELLED: usize = 5;
/// Between two tries to be heard.
const PAUSE: Duration = Duration::from_millis(30);
/// Generous: nothing here is a measure of speed.
const RESUMED: Duration = Duration::from_secs(60);
/// For how long a task may tell nothing new before it is looked at.
const NEWS: Duration = Duration::from_secs(10);
/// Tasks that are looked at together in the end.
const LOOKS: usize = 8;

pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<Vec<Promise>>>,
    /// Tasks of the test's own.
    others: Vec<Promise>,
}

/// How many clients there are, and how busy.
#[derive(Clone, Copy)]
struct Pace {
    /// They wait for each task before they add the next.
    followers: usize,
    /// They do not wait, and cancel some of what they have added.
    adders: usize,
    /// Between two tasks of a follower.
    rest: Duration,
    /// Between two tasks of an adder.
    pause: Duration,
}

/// As much as one machine can do.
const BRISK: Pace = Pace {
    followers: 4,
    adders: 3,
    rest: Duration::ZERO,
    pause: Duration::from_millis(30),
};

/// So that a whole cluster on one small machine has time for its faults.
const GENTLE: Pace = Pace {
    followers: 3,
    adders: 2,
    rest: Duration::from_millis(100),
    pause: Duration::from_millis(200),
};

struct Counts {
    acknowledged: AtomicUsize,
    done: AtomicUsize,
    gap: Gap,
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
    gateways: Gateways,
    counts: Arc<Counts>,
    commands: Vec<String>,
}

impl Load {
    pub fn start(gateways: impl Into<Gateways>, history: &History) -> Load {
        Load::paced(BRISK, gateways.into(), history)
    }

    pub fn gentle(gateways: impl Into<Gateways>, history: &History) -> Load {
        Load::paced(GENTLE, gateways.into(), history)
    }

    fn paced(pace: Pace, gateways: Gateways, history: &History) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts {
            acknowledged: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            gap: Gap::new(),
        });
        let whole = format!("[ $(cat data/lines | wc -c) = {BLOB} ]");
        let works = [
            &whole,
            "sleep 0.05",
            // What it leaves behind must not outlive it.
            "setsid --fork sleep 600 < /dev/null > /dev/null 2>&1",
        ];
        let record = |work: &str| history.record(&format!("{work} && echo $CONCLAVE_TASK $$"));
        let commands = Vec::from(works.map(record));
        let clients = (0..pace.followers + pace.adders).map(|number| {
            let stop = stop.clone();
            let adding = Adding {
                gateways: gateways.clone(),
                counts: counts.clone(),
                commands: commands.clone(),
            };
            // So that all gateways have some of them.
            (0..number).for_each(|_| adding.gateways.turn());
            tokio::spawn(async move {
                let mut promises = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let id = adding.add(promises.len()).await;
                    let done = if number < pace.followers {
                        let done = adding.follow(id).await;
                        tokio::time::sleep(pace.rest).await;
                        Some(done)
                    } else if promises.len() % CANCELLED == 0 {
                        Some(adding.cancel(id).await)
                    } else {
                        tokio::time::sleep(pace.pause).await;
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
            others: Vec::new(),
        }
    }

    /// A task that the test itself has added; it prints what those of the clients print.
    pub fn expect(&mut self, id: TaskId) {
        self.others.push(Promise { id, done: None });
    }

    /// From here on the time without an acknowledged add is measured anew.
    pub fn watch(&self) {
        self.counts.gap.begin();
    }

    /// The longest time in which no add was acknowledged, since the watch began.
    pub fn silence(&self) -> Duration {
        self.counts.gap.longest()
    }

    /// Waits until an add was acknowledged and a task came to its end since now; says how long that took.
    pub async fn resumed(&self) -> Duration {
        let begun = Instant::now();
        let count = || {
            let Counts {
                acknowledged, done, ..
            } = &*self.counts;
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
    pub async fn settle(self, gateways: impl Into<Gateways>, history: &History) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let gateways = gateways.into();
        let mut promises = self.others;
        for client in self.clients {
            promises.extend(client.await.expect("a client"));
        }
        let looks = promises.iter().map(async |promise| {
            let task = gateways.done(promise.id).await;
            if let Some(earlier) = &promise.done {
                assert_eq!(earlier, &task, "a done task changed");
            }
            task
        });
        let tasks: Vec<Task> = futures::stream::iter(looks).buffered(LOOKS).collect().await;
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
        let stats = gateways.stats().await;
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
            match self
                .gateways
                .call(async |client| client.add(&task, None).await)
                .await
            {
                Some(Ok(added)) => {
                    assert_eq!(added.id, id);
                    self.counts.acknowledged.fetch_add(1, Ordering::Relaxed);
                    self.counts.gap.good();
                    return id;
                }
                Some(Err(error)) => assert!(error.is_transient(), "add was refused for good: {error:?}"),
                None => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Repeats it until it is acknowledged, or the task is done otherwise.
    async fn cancel(&self, id: TaskId) -> Task {
        loop {
            match self.gateways.call(async |client| client.cancel(id).await).await {
                Some(Ok(task)) => {
                    assert_eq!(task.status, Status::Cancelled);
                    return task;
                }
                Some(Err(error)) if error.problem().is_some_and(|problem| problem.status == 409) => {
                    return self.follow(id).await;
                }
                Some(Err(error)) => assert!(error.is_transient(), "cancel was refused for good: {error:?}"),
                None => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Follows its statuses until it is done, over broken connections.
    async fn follow(&self, id: TaskId) -> Task {
        loop {
            if let Some(Ok(mut events)) = self.gateways.call(async |client| client.events(id).await).await {
                let mut last: Option<Status> = None;
                while let Ok(Some(Ok(event))) = tokio::time::timeout(NEWS, events.next()).await {
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
            tokio::time::sleep(PAUSE).await;
        }
    }
}
