//! Loses the primary while callers add tasks and executors run them: no acknowledged work is lost, and no result is
//! committed twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::{AttemptEnd, ExecutingAttempt, Report, ReportAnswer, TaskId, TaskStatus, UnixTime};
use store::contract::fake_executor::{FakeExecutor, completed};
use store::contract::fixtures::{attempt_result, get_task, new_task, task_spec};
use store::{ChangeEvent, NewTaskRecord, StoreError, TaskStore};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::replica_set::{TestAuthentication, TestReplicaSet};

const ADDERS: usize = 6;
const EXECUTORS: usize = 3;
/// How many tasks must be added and finished before and after each fault.
const PROGRESS: usize = 100;
const DEADLINE: Duration = Duration::from_secs(90);

/// In the MongoDB failover test: the tasks whose addition or result a store has acknowledged, so that none may be lost.
#[derive(Default)]
struct AcknowledgedWork {
    stop: AtomicBool,
    added: Mutex<BTreeMap<TaskId, UnixTime>>,
    finished: Mutex<BTreeSet<TaskId>>,
    errors: AtomicUsize,
}

impl AcknowledgedWork {
    fn counts(&self) -> (usize, usize) {
        (
            self.added.lock().unwrap().len(),
            self.finished.lock().unwrap().len(),
        )
    }

    /// Retries transient errors, as callers do, and fails the test on any other.
    async fn retry<T, F>(&self, call: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let started = Instant::now();
        loop {
            match call().await {
                Ok(value) => return value,
                Err(error) => {
                    assert!(error.is_transient(), "{error:?}");
                    assert!(started.elapsed() < DEADLINE, "{error:?}");
                    self.errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Waits until this many more tasks were added and finished. Returns how long that took.
    async fn wait_for_more(&self, more: usize) -> Duration {
        let started = Instant::now();
        let (added, finished) = self.counts();
        loop {
            let now = self.counts();
            if now.0 >= added + more && now.1 >= finished + more {
                return started.elapsed();
            }
            assert!(
                started.elapsed() < DEADLINE,
                "no progress: {now:?} after {added} added and {finished} finished"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// How the failover test makes the replica set lose its MongoDB primary.
#[derive(Clone, Copy)]
enum PrimaryFault {
    Kill,
    Pause,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_work_is_lost_with_the_primary() {
    let mut replica_set = TestReplicaSet::start(3, TestAuthentication::Disabled).await;
    let stores: Vec<Arc<dyn TaskStore>> = vec![
        Arc::new(replica_set.open("failover").await),
        Arc::new(replica_set.open("failover").await),
    ];
    let acknowledged = Arc::new(AcknowledgedWork::default());
    let observed = tokio::spawn(collect_events(stores[1].subscribe(), acknowledged.clone()));
    let mut load = JoinSet::new();
    for index in 0..ADDERS {
        load.spawn(add(stores[index % 2].clone(), acknowledged.clone()));
    }
    for index in 0..EXECUTORS {
        load.spawn(run_executor(
            stores.clone(),
            format!("e{index}"),
            acknowledged.clone(),
        ));
    }
    acknowledged.wait_for_more(PROGRESS).await;
    for fault in [PrimaryFault::Kill, PrimaryFault::Pause] {
        replica_set.wait_until_all_members_replicate().await;
        let primary = replica_set.primary().await;
        match fault {
            PrimaryFault::Kill => replica_set.kill(primary),
            PrimaryFault::Pause => replica_set.pause(primary),
        }
        let took = acknowledged.wait_for_more(PROGRESS).await;
        match fault {
            PrimaryFault::Kill => replica_set.restart(primary),
            PrimaryFault::Pause => replica_set.resume(primary),
        }
        println!("progress {took:.1?} after the primary was lost");
        // The old primary rolls back what it had not replicated.
        acknowledged.wait_for_more(PROGRESS).await;
    }
    acknowledged.stop.store(true, Ordering::Relaxed);
    load.join_all().await;
    println!(
        "{:?} added and finished, {} calls retried",
        acknowledged.counts(),
        acknowledged.errors.load(Ordering::Relaxed)
    );
    check(&*stores[0], &acknowledged).await;
    let observed = observed.await.unwrap();
    if let ObservedEvents::All(finished_events) = &observed {
        let finished = acknowledged.finished.lock().unwrap();
        let missed: Vec<_> = finished.difference(finished_events).collect();
        assert!(
            missed.is_empty(),
            "no events for these finished tasks: {missed:?}"
        );
    }
}

async fn add(store: Arc<dyn TaskStore>, acknowledged: Arc<AcknowledgedWork>) {
    while !acknowledged.stop.load(Ordering::Relaxed) {
        let tasks: Vec<NewTaskRecord> = (0..3).map(|_| new_task(task_spec())).collect();
        let added = acknowledged.retry(|| store.add(tasks.clone())).await;
        let mut all = acknowledged.added.lock().unwrap();
        all.extend(added.iter().map(|added| (added.id, added.add_time)));
    }
}

/// Runs an executor that repeats a failed report at the other judicator. Ends when it has no more tasks.
async fn run_executor(stores: Vec<Arc<dyn TaskStore>>, name: String, acknowledged: Arc<AcknowledgedWork>) {
    let mut executor = FakeExecutor::new(&stores[0], &name);
    let calls = AtomicUsize::new(0);
    loop {
        let stopped = acknowledged.stop.load(Ordering::Relaxed);
        let complete: Vec<_> = std::mem::take(&mut executor.running)
            .into_iter()
            .map(|running| {
                let result = attempt_result(running.attempt_id.attempt, &name);
                completed(running.attempt_id, AttemptEnd::Result(result))
            })
            .collect();
        let report = Report {
            complete,
            vacant: 8,
            ..executor.next_report()
        };
        let reported = acknowledged
            .retry(|| {
                let count = calls.fetch_add(1, Ordering::Relaxed);
                stores[count % stores.len()].report(report.clone())
            })
            .await;
        let ReportAnswer::Done(answer) = reported.answer else {
            panic!("refused: {:?}", reported.answer);
        };
        executor.acked = report.seq;
        executor.running = answer
            .assign
            .iter()
            .map(|assigned| ExecutingAttempt {
                attempt_id: assigned.attempt_id,
                status: None,
            })
            .collect();
        for attempt_id in answer.delete {
            let fresh = acknowledged.finished.lock().unwrap().insert(attempt_id.task);
            assert!(fresh, "{attempt_id:?} was assigned after it had finished");
        }
        if stopped && executor.running.is_empty() {
            return;
        }
    }
}

/// In the MongoDB failover test: the tasks whose end a subscriber learned from change events.
enum ObservedEvents {
    All(BTreeSet<TaskId>),
    /// The store reported lost events, which is permitted.
    Incomplete,
}

/// Collects events until all acknowledged results were seen, or events were lost.
async fn collect_events(
    mut events: Receiver<ChangeEvent>,
    acknowledged: Arc<AcknowledgedWork>,
) -> ObservedEvents {
    let mut finished_events = BTreeSet::new();
    let mut quiet_since = None;
    loop {
        match tokio::time::timeout(Duration::from_millis(500), events.recv()).await {
            Ok(Ok(ChangeEvent::StatusChanged { id, status, .. })) if status.is_done() => {
                finished_events.insert(id);
            }
            Ok(Ok(ChangeEvent::EventsLost) | Err(RecvError::Lagged(_))) => return ObservedEvents::Incomplete,
            Ok(Err(RecvError::Closed)) => panic!("the store is open"),
            Ok(Ok(_)) => {}
            // The load has stopped, but events may still arrive.
            Err(_) if acknowledged.stop.load(Ordering::Relaxed) => {
                let since = *quiet_since.get_or_insert_with(Instant::now);
                let all = acknowledged.finished.lock().unwrap().is_subset(&finished_events);
                if all || since.elapsed() > Duration::from_secs(10) {
                    return ObservedEvents::All(finished_events);
                }
            }
            Err(_) => {}
        }
    }
}

async fn check(store: &dyn TaskStore, acknowledged: &AcknowledgedWork) {
    let added = acknowledged.added.lock().unwrap().clone();
    let finished = acknowledged.finished.lock().unwrap().clone();
    for (id, add_time) in &added {
        let task = get_task(store, *id).await;
        assert_eq!(task.add_time, *add_time);
        assert_eq!(task.status, TaskStatus::Success, "{task:?}");
        assert!(finished.contains(id));
        let result = task.result.unwrap().execute.unwrap();
        let mark = String::from_utf8(result.stdout.head.to_vec()).unwrap();
        assert!(
            mark.starts_with(&format!("{} ", task.attempt)),
            "the result is from another attempt: {mark}"
        );
    }
    let totals = store.totals().await.unwrap();
    assert_eq!(totals.held, 0);
    assert_eq!(totals.counts[&TaskStatus::Success], finished.len() as u64);
    // An unacknowledged addition may have taken effect, but its caller repeated it, so it is counted.
    assert_eq!(totals.counts.values().sum::<u64>(), added.len() as u64);
}
