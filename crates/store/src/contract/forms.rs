//! Contract cases: tasks of forms that a node does not know. Only other versions write them, so each store's own tests
//! call these cases with a [`RawDatabase`].

use std::sync::Arc;

use model::{
    AttemptEnd, AttemptId, CompletedAttempt, Report, ReportIntent, ReportSeq, StoreAge, TaskForm, TaskId,
    TaskQuery, TaskStatus,
};

use super::MAX_ATTEMPTS;
use super::fake_executor::{FakeExecutor, completed, instructions};
use super::fixtures::{add_task, get_task, new_task, success, task_spec, task_status};
use super::search::search_ids;
use super::unreadable_rows::RawDatabase;
use crate::{NewTaskRecord, StoreError, TaskStore};

/// A form that no node of this version knows.
const UNKNOWN: TaskForm = TaskForm(TaskForm::NEWEST.0 + 1);

/// The form of the tasks that these cases add.
const ADDED: TaskForm = TaskForm::WITH_KEPT_FILES;

/// An executor that knows a newer form than the store.
fn newer_executor(store: &Arc<dyn TaskStore>) -> FakeExecutor {
    let mut executor = FakeExecutor::new(store, "newer");
    executor.newest_form = UNKNOWN;
    executor
}

/// Expects an empty store.
pub async fn tasks_of_an_unknown_form_are_not_claimed(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    assert_eq!(store.newer_form(), None);
    let unknown = add_task(&*store).await;
    let known = add_task(&*store).await;
    database.set_form(unknown, UNKNOWN).await;
    let mut executor = newer_executor(&store);
    let assigned = executor.claim(2).await;
    let ids: Vec<_> = assigned.iter().map(|assigned| assigned.attempt_id.task).collect();
    assert_eq!(ids, [known], "it does not block the queue");
    assert_eq!(store.newer_form(), Some(UNKNOWN));
    // The task is no damage: it is listed, and a read says what is missing.
    assert_eq!(search_ids(&store, TaskQuery::default()).await, [unknown, known]);
    let read = store.get(unknown).await;
    assert!(
        matches!(read, Err(StoreError::NewerForm(form)) if form == UNKNOWN),
        "{read:?}"
    );
    assert_eq!(database.unreadable_rows(), 0);
    // A node that knows the form claims it.
    database.set_form(unknown, ADDED).await;
    assert_eq!(executor.claim_one().await.task, unknown);
}

/// Expects an empty store.
pub async fn older_executors_get_no_newer_tasks(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    let newer = add_task(&*store).await;
    let older = add_task(&*store).await;
    database.set_form(older, TaskForm::UNRECORDED).await;
    let mut executor = FakeExecutor::new(&store, "older");
    executor.newest_form = TaskForm::UNRECORDED;
    let assigned = executor.claim(2).await;
    let ids: Vec<_> = assigned.iter().map(|assigned| assigned.attempt_id.task).collect();
    assert_eq!(ids, [older]);
    assert_eq!(store.newer_form(), None, "this node knows the form");
    assert_eq!(FakeExecutor::new(&store, "e").claim_one().await.task, newer);
}

/// A node must not end a task of a form that it does not know, whatever happens to it. Expects an empty store.
pub async fn tasks_of_an_unknown_form_are_not_ended(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    let (waiting, held) = (add_task(&*store).await, add_task(&*store).await);
    let mut executor = newer_executor(&store);
    database.set_form(waiting, UNKNOWN).await;
    let attempt_id = executor.claim_one().await;
    assert_eq!(attempt_id.task, held);
    // From here on it is as if a newer node had handed it out.
    database.set_form(held, UNKNOWN).await;
    for id in [waiting, held] {
        let cancelled = store.cancel(id).await;
        assert!(
            matches!(cancelled, Err(StoreError::NewerForm(_))),
            "{cancelled:?}"
        );
    }
    assert_eq!(store.cancel_many(vec![waiting, held]).await.unwrap(), 0);
    // Its end is neither committed nor deleted, so the executor reports it again, to a newer node.
    for end in [
        AttemptEnd::Result(success()),
        AttemptEnd::Broken("no".into()),
        AttemptEnd::PlatformFailure("no".into()),
    ] {
        let report = Report {
            complete: vec![completed(attempt_id, end)],
            executing: vec![],
            ..executor.next_report()
        };
        let answer = instructions(executor.send(report).await);
        assert_eq!((answer.delete, answer.upload_again), (vec![], vec![]));
    }
    // If the answer that handed it out was lost, a newer node hands it out again. This one leaves it held.
    executor.acked = ReportSeq(0);
    executor.running.clear();
    assert_eq!(executor.claim(0).await, []);
    database.set_form(held, ADDED).await;
    assert_eq!(get_task(&*store, held).await.session, Some(executor.session));
    database.set_form(held, UNKNOWN).await;
    // Its release is no loss, however often that happens.
    for _ in 0..=MAX_ATTEMPTS {
        executor.expire().await;
        executor.newest_form = UNKNOWN;
        database.set_form(held, ADDED).await;
        assert_eq!(task_status(&*store, held).await, TaskStatus::Retrying);
        assert_eq!(executor.claim_one().await.task, held);
        database.set_form(held, UNKNOWN).await;
    }
    // When it is done, retention leaves it to newer nodes: its result may refer to something that this one does not know.
    database.set_form(held, ADDED).await;
    let attempt_id = executor.running[0].attempt_id;
    executor.finish(attempt_id, success()).await;
    database.set_form(held, UNKNOWN).await;
    let retired = store.apply_retention(StoreAge(i64::MAX), StoreAge(0), 10).await;
    assert_eq!((retired.unwrap().tasks, database.count_tasks().await), (0, 2));
}

/// An attempt of an unknown form that an executor names as executing may have finished: its result cannot be parsed here.
/// Expects an empty store.
pub async fn a_leaving_executor_keeps_attempts_of_unknown_forms(
    store: Arc<dyn TaskStore>,
    database: &dyn RawDatabase,
) {
    let (unknown, known) = (add_task(&*store).await, add_task(&*store).await);
    let mut executor = newer_executor(&store);
    let assigned = executor.claim(2).await;
    database.set_form(unknown, UNKNOWN).await;
    let report = Report {
        intent: ReportIntent::Leave,
        ..executor.next_report()
    };
    let answer = instructions(executor.send(report).await);
    assert_eq!(answer.delete, [assigned[1].attempt_id]);
    assert_eq!(task_status(&*store, known).await, TaskStatus::Retrying);
    assert_eq!(store.live_sessions().await.unwrap(), [executor.observed()]);
    // A newer node commits the result.
    database.set_form(unknown, ADDED).await;
    let answer = instructions(executor.finish(assigned[0].attempt_id, success()).await);
    assert_eq!(answer.delete, [assigned[0].attempt_id]);
    assert_eq!(task_status(&*store, unknown).await, TaskStatus::Success);
}

/// Expects an empty store.
pub async fn a_result_of_an_unknown_form_is_not_committed(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = newer_executor(&store);
    let attempt_id = executor.claim_one().await;
    // Nobody holds this one. A newer node says so.
    let late = AttemptId {
        attempt: attempt_id.attempt.next(),
        ..attempt_id
    };
    for attempt_id in [attempt_id, late] {
        let report = Report {
            complete: vec![CompletedAttempt {
                form: UNKNOWN,
                ..completed(attempt_id, AttemptEnd::Result(success()))
            }],
            ..executor.next_report()
        };
        let answer = instructions(executor.send(report).await);
        assert_eq!((answer.delete, answer.upload_again), (vec![], vec![]));
    }
    assert!(get_task(&*store, id).await.executor.is_some());
}

/// Earlier versions computed the digest of a request in another way. Expects an empty store.
pub async fn a_task_of_an_earlier_version_may_be_added_again(
    store: Arc<dyn TaskStore>,
    database: &dyn RawDatabase,
) {
    let earlier = NewTaskRecord {
        digest: [1; 32],
        ..new_task(task_spec())
    };
    store.add(vec![earlier.clone()]).await.unwrap();
    let again = |id: TaskId, legacy_digest| NewTaskRecord {
        id,
        digest: [2; 32],
        legacy_digest,
        ..earlier.clone()
    };
    let conflicts = async |task: NewTaskRecord| {
        let added = store.add(vec![task]).await;
        matches!(added, Err(StoreError::Conflict(_)))
    };
    assert!(
        conflicts(again(earlier.id, Some([1; 32]))).await,
        "it has the current form"
    );
    database.set_form(earlier.id, TaskForm::UNRECORDED).await;
    assert!(conflicts(again(earlier.id, None)).await);
    assert!(conflicts(again(earlier.id, Some([3; 32]))).await);
    let task = again(earlier.id, Some([1; 32]));
    let added = store.add(vec![task.clone(), task]).await.unwrap();
    assert!(added.iter().all(|added| added.existed));
    assert_eq!(search_ids(&store, TaskQuery::default()).await, [earlier.id]);
}
