//! Contract cases: drained executors.

use std::sync::Arc;

use model::{
    DrainReason, ExecutorDrain, ExecutorState, MachineLoad, StoreAge, TaskStatus, UnixTime, UserName,
};

use super::fake_executor::{FakeExecutor, instructions};
use super::fixtures::{add_task, advance_age, success, task_status};
use crate::{ChangeEvent, TaskStore};

fn drain(reason: &str, by: Option<&str>, since: i64) -> ExecutorDrain {
    ExecutorDrain {
        reason: DrainReason::new(reason).unwrap(),
        by: by.map(|name| UserName::new(name).unwrap()),
        since: UnixTime(since),
    }
}

async fn set_drain(store: &Arc<dyn TaskStore>, executor: &FakeExecutor, drain: Option<&ExecutorDrain>) {
    let exists = store.set_drain(executor.name.clone(), drain.cloned()).await;
    assert!(exists.unwrap());
}

/// The drain in the answer to a report without changes.
async fn reported_drain(executor: &mut FakeExecutor) -> Option<ExecutorDrain> {
    let report = executor.next_report();
    instructions(executor.send(report).await).drain
}

async fn listed(store: &Arc<dyn TaskStore>) -> ExecutorState {
    let mut executors = store.executors().await.unwrap();
    assert_eq!(executors.len(), 1);
    executors.remove(0)
}

pub async fn a_drained_executor_ends_its_tasks_and_claims_none(store: Arc<dyn TaskStore>) {
    let (held, waiting) = (add_task(&*store).await, add_task(&*store).await);
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    let drained = drain("new disk", Some("ada"), 7);
    set_drain(&store, &executor, Some(&drained)).await;
    assert!(executor.claim(4).await.is_empty());
    assert_eq!(reported_drain(&mut executor).await.as_ref(), Some(&drained));
    executor.finish(attempt_id, success()).await;
    assert_eq!(task_status(&*store, held).await, TaskStatus::Success);
    assert!(executor.claim(4).await.is_empty());
    let mut other = FakeExecutor::new(&store, "other");
    assert_eq!(
        other.claim_one().await.task,
        waiting,
        "other executors are not drained"
    );
    let resumed = add_task(&*store).await;
    set_drain(&store, &executor, None).await;
    assert_eq!(executor.claim_one().await.task, resumed);
    assert_eq!(reported_drain(&mut executor).await, None);
}

/// The attempt was handed out before the drain, so the executor decides what becomes of it.
pub async fn a_lost_assignment_of_a_drained_executor_is_assigned_again(store: Arc<dyn TaskStore>) {
    add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let lost = executor.claim_one().await;
    executor.running.clear();
    executor.acked = model::ReportSeq(0);
    set_drain(&store, &executor, Some(&drain("x", None, 1))).await;
    let again = executor.claim(1).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].attempt_id, lost);
    executor.running.clear();
    assert!(
        executor.claim(1).await.is_empty(),
        "it is given back, and not claimed"
    );
}

pub async fn a_drain_outlives_sessions(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    let drained = drain("noisy fan", None, 7);
    set_drain(&store, &executor, Some(&drained)).await;
    assert_eq!(listed(&store).await.drain.as_ref(), Some(&drained));
    executor.expire().await;
    assert_eq!(listed(&store).await.drain.as_ref(), Some(&drained));
    add_task(&*store).await;
    assert!(
        executor.claim(1).await.is_empty(),
        "the first report of the next session"
    );
    assert_eq!(reported_drain(&mut executor).await.as_ref(), Some(&drained));
    // A session that succeeds a live one.
    let mut successor = FakeExecutor::new(&store, "e");
    let mut report = successor.next_report();
    report.succeeds = Some(executor.session);
    report.vacant = 1;
    let answer = instructions(successor.send(report).await);
    assert_eq!((answer.assign.len(), answer.drain), (0, Some(drained)));
}

pub async fn draining_again_replaces_the_reason(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    set_drain(&store, &executor, Some(&drain("new disk", Some("ada"), 7))).await;
    set_drain(&store, &executor, Some(&drain("new fan", None, 9))).await;
    assert_eq!(listed(&store).await.drain, Some(drain("new fan", None, 7)));
    set_drain(&store, &executor, None).await;
    set_drain(&store, &executor, None).await;
    set_drain(&store, &executor, Some(&drain("new cpu", None, 11))).await;
    assert_eq!(listed(&store).await.drain, Some(drain("new cpu", None, 11)));
}

pub async fn an_unknown_executor_is_not_drained(store: Arc<dyn TaskStore>) {
    let unknown = FakeExecutor::new(&store, "nobody").name;
    for drain in [Some(drain("x", None, 1)), None] {
        assert!(!store.set_drain(unknown.clone(), drain).await.unwrap());
    }
    assert_eq!(store.executors().await.unwrap(), []);
}

/// It would come back without its drain.
pub async fn a_drained_executor_is_not_removed(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    set_drain(&store, &executor, Some(&drain("broken", None, 1))).await;
    executor.expire().await;
    advance_age(&*store, std::time::Duration::from_secs(60)).await;
    let everything = StoreAge(i64::MAX);
    assert_eq!(store.remove_ended_executors(everything).await.unwrap(), 0);
    set_drain(&store, &executor, None).await;
    assert_eq!(store.remove_ended_executors(everything).await.unwrap(), 1);
}

pub async fn drains_are_published(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    let mut subscription = store.subscribe();
    for drain in [Some(drain("x", None, 1)), Some(drain("y", None, 1)), None] {
        set_drain(&store, &executor, drain.as_ref()).await;
        // Reports publish nothing.
        executor.claim(0).await;
        assert_eq!(
            subscription.recv().await.unwrap(),
            ChangeEvent::DrainChanged(executor.name.clone())
        );
    }
}

pub async fn the_load_of_the_last_report_is_listed(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let load = |load_hundredths| MachineLoad {
        load_hundredths,
        cores: 2,
        memory_available: 3 << 30,
        memory_total: 8 << 30,
    };
    for expected in [Some(load(42)), Some(load(1207)), None] {
        let mut report = executor.next_report();
        report.executor_info.load = expected;
        executor.send(report).await;
        assert_eq!(listed(&store).await.load, expected);
    }
}
