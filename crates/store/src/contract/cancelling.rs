//! Cancelling.

use std::sync::Arc;

use model::{End, Status, TaskId};

use super::sample::{add_one, compile_failure, get, run_failure, status, success};
use super::worker::{Worker, done};
use crate::TaskStore;

pub async fn a_waiting_task_is_cancelled_for_good(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let cancelled = store.cancel(id).await.unwrap().unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    assert!(cancelled.finish_time.is_some());
    assert_eq!(get(&*store, id).await, cancelled);
    assert!(Worker::new(&store, "e").claim(1).await.is_empty());
    assert_eq!(store.cancel(id).await.unwrap(), Some(cancelled));
}

pub async fn a_held_task_is_withdrawn(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    worker.progress(id, Status::Running).await;
    let cancelled = store.cancel(id).await.unwrap().unwrap();
    assert_eq!(
        (cancelled.status, &cancelled.executor, cancelled.session),
        (Status::Cancelled, &None, None)
    );
    let report = worker.next_report();
    assert_eq!(done(worker.deliver(report).await).delete, [handout]);
    // A result that was on its way is settled, but comes too late.
    let late = worker.finish(handout, success()).await;
    assert!(late.finished.is_empty());
    assert_eq!(done(late).delete, [handout]);
    assert_eq!(get(&*store, id).await, cancelled);
    assert_eq!(store.totals().await.unwrap().held, 0);
}

pub async fn a_retrying_task_is_cancelled(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim_one().await;
    worker.die().await;
    assert_eq!(status(&*store, id).await, Status::Retrying);
    store.cancel(id).await.unwrap();
    assert_eq!(status(&*store, id).await, Status::Cancelled);
    assert!(worker.claim(1).await.is_empty());
}

pub async fn done_tasks_stay_as_they_are(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    for result in [success(), run_failure(), compile_failure()] {
        let id = add_one(&*store).await;
        let handout = worker.claim_one().await;
        worker.finish(handout, result).await;
        stays(&store, id).await;
    }
    let id = add_one(&*store).await;
    for _ in 0..super::LOSSES {
        let handout = worker.claim_one().await;
        worker.end(handout, End::Broken("no".into())).await;
    }
    assert_eq!(status(&*store, id).await, Status::SystemError);
    stays(&store, id).await;
}

async fn stays(store: &Arc<dyn TaskStore>, id: TaskId) {
    let before = get(&**store, id).await;
    assert!(before.status.done());
    assert_eq!(store.cancel(id).await.unwrap(), Some(before.clone()));
    assert_eq!(get(&**store, id).await, before);
}

pub async fn an_unknown_task_is_none(store: Arc<dyn TaskStore>) {
    assert_eq!(store.cancel(TaskId::generate()).await.unwrap(), None);
}
