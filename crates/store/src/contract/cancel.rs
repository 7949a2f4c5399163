//! Contract cases: cancelling tasks.

use std::sync::Arc;

use model::{AttemptEnd, TaskId, TaskStatus};

use super::fake_executor::{FakeExecutor, instructions};
use super::fixtures::{add_task, compile_failure, get_task, run_failure, success, task_status};
use crate::TaskStore;

pub async fn a_queued_task_is_cancelled_for_good(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let cancelled = store.cancel(id).await.unwrap().unwrap();
    assert_eq!(cancelled.status, TaskStatus::Cancelled);
    assert!(cancelled.finish_time.is_some());
    assert_eq!(get_task(&*store, id).await, cancelled);
    assert!(FakeExecutor::new(&store, "e").claim(1).await.is_empty());
    assert_eq!(store.cancel(id).await.unwrap(), Some(cancelled));
}

pub async fn cancelling_a_held_task_revokes_its_attempt(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.report_status(id, TaskStatus::Running).await;
    let cancelled = store.cancel(id).await.unwrap().unwrap();
    assert_eq!(
        (cancelled.status, &cancelled.executor, cancelled.session),
        (TaskStatus::Cancelled, &None, None)
    );
    let report = executor.next_report();
    assert_eq!(instructions(executor.send(report).await).delete, [attempt_id]);
    // A result that arrives after the cancellation is discarded, and the executor may delete it.
    let late = executor.finish(attempt_id, success()).await;
    assert!(late.finished.is_empty());
    assert_eq!(instructions(late).delete, [attempt_id]);
    assert_eq!(get_task(&*store, id).await, cancelled);
    assert_eq!(store.totals().await.unwrap().held, 0);
}

pub async fn a_retrying_task_is_cancelled(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    executor.expire().await;
    assert_eq!(task_status(&*store, id).await, TaskStatus::Retrying);
    store.cancel(id).await.unwrap();
    assert_eq!(task_status(&*store, id).await, TaskStatus::Cancelled);
    assert!(executor.claim(1).await.is_empty());
}

pub async fn cancelling_a_done_task_changes_nothing(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    for result in [success(), run_failure(), compile_failure()] {
        let id = add_task(&*store).await;
        let attempt_id = executor.claim_one().await;
        executor.finish(attempt_id, result).await;
        check_unchanged_by_cancel(&store, id).await;
    }
    let id = add_task(&*store).await;
    for _ in 0..super::MAX_ATTEMPTS {
        let attempt_id = executor.claim_one().await;
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("no".into()))
            .await;
    }
    assert_eq!(task_status(&*store, id).await, TaskStatus::SystemError);
    check_unchanged_by_cancel(&store, id).await;
}

async fn check_unchanged_by_cancel(store: &Arc<dyn TaskStore>, id: TaskId) {
    let before = get_task(&**store, id).await;
    assert!(before.status.is_done());
    assert_eq!(store.cancel(id).await.unwrap(), Some(before.clone()));
    assert_eq!(get_task(&**store, id).await, before);
}

pub async fn cancelling_an_unknown_task_returns_none(store: Arc<dyn TaskStore>) {
    assert_eq!(store.cancel(TaskId(uuid::Uuid::now_v7())).await.unwrap(), None);
}
