//! Contract cases: a store skips and keeps unreadable rows, and everything else works. How to damage a row differs
//! between stores, so each store's own tests call these cases with a [`RawDatabase`].

use std::sync::Arc;

use async_trait::async_trait;
use model::{
    BlobHash, ExecutorName, Health, ReportAnswer, StoreAge, TaskForm, TaskId, TaskQuery, TaskStatus,
};

use super::fake_executor::FakeExecutor;
use super::fixtures::{
    add_task, get_task, new_task, put_blob, read_blob, requiring, success, task_spec, task_with_blobs, tools,
};
use super::search::search_ids;
use crate::{ObservedSession, StoreError, TaskStore};

/// The ways in which a store test damages the database row (or document) of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRowDamage {
    /// The status does not exist.
    Status,
    /// The id is no UUID.
    Id,
    /// The user is empty.
    User,
    /// The executor's name has a character that is not allowed.
    Executor,
    /// The session is no UUID.
    Session,
    /// The attempt is negative.
    Attempt,
    /// The spec cannot be decoded.
    Spec,
    /// The task is in the queue, but its status is terminal.
    DoneInQueue,
    /// The task is in the queue, but an unknown executor holds it.
    HeldInQueue,
    /// The loss counter has its largest value.
    MaxLosses,
}

/// The ways in which a store test damages the database row (or document) of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorRowDamage {
    /// The session is no UUID.
    Session,
    /// The report number is negative.
    Seq,
    /// The host is no text.
    Host,
    /// The tools cannot be decoded. The executor is readable nevertheless.
    Tools,
}

/// The ways in which a store test damages the database row (or document) of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobRowDamage {
    /// The hash has the wrong length.
    Hash,
    /// The row is deleted.
    Missing,
}

impl TaskRowDamage {
    /// The damages that make a row unreadable.
    const UNREADABLE: [TaskRowDamage; 6] = [
        TaskRowDamage::Status,
        TaskRowDamage::Id,
        TaskRowDamage::User,
        TaskRowDamage::Executor,
        TaskRowDamage::Session,
        TaskRowDamage::Attempt,
    ];
}

/// Direct access to the database of a store under test, through which the contract tests damage rows.
#[async_trait]
pub trait RawDatabase: Sync {
    async fn damage(&self, id: TaskId, damage: TaskRowDamage);
    async fn damage_executor(&self, name: &ExecutorName, damage: ExecutorRowDamage);
    async fn damage_blob(&self, hash: BlobHash, damage: BlobRowDamage);
    /// Changes the form of the task and of its spec.
    async fn set_form(&self, id: TaskId, form: TaskForm);
    /// The number of tasks, readable or not.
    async fn count_tasks(&self) -> u64;
    /// The number of rows that the store has recorded as unreadable.
    fn unreadable_rows(&self) -> usize;
}

/// An age after every stamp.
const AFTER_ALL: StoreAge = StoreAge(i64::MAX);

/// Expects an empty store.
pub async fn unreadable_rows_are_skipped(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    let queued = check_queued(&store, database).await;
    check_held(&store, database).await;
    check_done(&store, database).await;
    let recorded = database.unreadable_rows();
    // The store records each row once, however often it encounters it.
    let mut executor = FakeExecutor::new(&store, "later");
    assert_eq!(executor.claim(10).await.len(), 0);
    search_ids(&store, TaskQuery::default()).await;
    for (id, damage) in queued {
        check_get(&store, id, damage).await;
    }
    assert_eq!(database.unreadable_rows(), recorded);
    store.totals().await.unwrap();
    store.executors().await.unwrap();
    store.live_sessions().await.unwrap();
}

/// Unreadable tasks at the head of the queue are not assigned, and the tasks behind them are.
async fn check_queued(
    store: &Arc<dyn TaskStore>,
    database: &dyn RawDatabase,
) -> Vec<(TaskId, TaskRowDamage)> {
    let mut damaged = vec![];
    for damage in TaskRowDamage::UNREADABLE {
        damaged.push((add_task(&**store).await, damage));
    }
    let without_spec = add_task(&**store).await;
    let mut good = vec![];
    for _ in 0..3 {
        good.push(add_task(&**store).await);
    }
    for (id, damage) in &damaged {
        database.damage(*id, *damage).await;
    }
    database.damage(without_spec, TaskRowDamage::Spec).await;
    let mut executor = FakeExecutor::new(store, "first");
    // Each claim asks for fewer tasks than are unreadable.
    let mut claimed = vec![];
    for _ in 0..4 {
        claimed.extend(executor.claim(2).await);
    }
    let claimed: Vec<_> = claimed.iter().map(|assignment| assignment.attempt_id).collect();
    let ids: Vec<_> = claimed.iter().map(|attempt_id| attempt_id.task).collect();
    assert_eq!(ids, good);
    check_get(store, without_spec, TaskRowDamage::Spec).await;
    // The store ends a task whose spec is unreadable, so that callers do not wait for it for ever.
    let listed = [vec![without_spec], good].concat();
    assert_eq!(search_ids(store, TaskQuery::default()).await, listed);
    let text = TaskQuery {
        text: Some("a.out".into()),
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(store, text).await, listed);
    let given_up = TaskQuery {
        statuses: vec![TaskStatus::SystemError],
        ..TaskQuery::default()
    };
    assert_eq!(search_ids(store, given_up).await, [without_spec]);
    for (id, damage) in &damaged {
        check_get(store, *id, *damage).await;
        if *damage != TaskRowDamage::Id {
            let cancelled = store.cancel(*id).await;
            assert!(
                matches!(cancelled, Err(StoreError::Unreadable { .. })),
                "{cancelled:?}"
            );
        }
    }
    for attempt_id in claimed {
        executor.finish(attempt_id, success()).await;
        assert_eq!(
            get_task(&**store, attempt_id.task).await.status,
            TaskStatus::Success
        );
    }
    damaged
}

async fn check_get(store: &Arc<dyn TaskStore>, id: TaskId, damage: TaskRowDamage) {
    match (damage, store.get(id).await) {
        (TaskRowDamage::Id, Ok(None)) => {}
        (_, Err(error @ StoreError::Unreadable { .. })) => {
            assert!(!error.is_transient());
            assert!(error.to_string().contains(&id.to_string()), "{error}");
        }
        (damage, other) => panic!("{damage:?}: {other:?}"),
    }
}

/// Tasks become unreadable while an executor holds them. The executor must delete these; its other tasks are not
/// affected.
async fn check_held(store: &Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    let mut ids = vec![];
    for _ in 0..4 {
        ids.push(add_task(&**store).await);
    }
    let mut executor = FakeExecutor::new(store, "second");
    let handouts: Vec<_> = executor.claim(4).await.iter().map(|one| one.attempt_id).collect();
    database.damage(ids[0], TaskRowDamage::Status).await;
    database.damage(ids[1], TaskRowDamage::Session).await;
    let answer = executor.report_status(ids[2], TaskStatus::Running).await;
    assert_eq!(answer.delete, handouts[..2]);
    executor.finish(handouts[0], success()).await;
    executor.finish(handouts[2], success()).await;
    assert_eq!(get_task(&**store, ids[2]).await.status, TaskStatus::Success);
    let released = store.expire(executor.observed()).await.unwrap();
    assert_eq!(released, Some(1), "the remaining task");
    assert_eq!(get_task(&**store, ids[3]).await.status, TaskStatus::Retrying);
    store.cancel(ids[3]).await.unwrap();
}

/// Retention never removes done tasks that are unreadable, and removes the others.
async fn check_done(store: &Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    for damage in [TaskRowDamage::Status, TaskRowDamage::User, TaskRowDamage::Attempt] {
        let id = add_task(&**store).await;
        store.cancel(id).await.unwrap();
        database.damage(id, damage).await;
    }
    // Each round may remove fewer tasks than are unreadable.
    while store
        .apply_retention(AFTER_ALL, StoreAge(0), 2)
        .await
        .unwrap()
        .tasks
        > 0
    {}
    assert_eq!(search_ids(store, TaskQuery::default()).await, []);
    let unreadable = TaskRowDamage::UNREADABLE.len() + 2 + 3;
    assert_eq!(database.count_tasks().await, unreadable as u64);
}

/// Tasks at the head of the queue that are done or held, as many as an executor asks for, are not assigned; the task
/// behind them is.
pub async fn inconsistent_tasks_in_the_queue_are_skipped(
    store: Arc<dyn TaskStore>,
    database: &dyn RawDatabase,
) {
    let mut inconsistent = vec![];
    for damage in [TaskRowDamage::DoneInQueue, TaskRowDamage::HeldInQueue] {
        let id = add_task(&*store).await;
        database.damage(id, damage).await;
        inconsistent.push(get_task(&*store, id).await);
    }
    let good = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    assert_eq!(attempt_id.task, good);
    assert!(database.unreadable_rows() > 0);
    executor.finish(attempt_id, success()).await;
    for task in inconsistent {
        assert_eq!(get_task(&*store, task.id).await, task, "it is not changed");
    }
}

/// The store refuses the reports of an executor whose row is unreadable. The leader observes a session whose report
/// number never changes and expires it; then the executor opens a new session.
pub async fn an_unreadable_executor_is_expired(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    for damage in [
        ExecutorRowDamage::Session,
        ExecutorRowDamage::Seq,
        ExecutorRowDamage::Host,
    ] {
        let name = format!("executor-{damage:?}");
        let id = add_task(&*store).await;
        let mut executor = FakeExecutor::new(&store, &name);
        executor.claim_one().await;
        let recorded = database.unreadable_rows();
        database.damage_executor(&executor.name, damage).await;
        for _ in 0..2 {
            let refused = store.report(executor.next_report()).await;
            let error = refused.expect_err("the row is unreadable");
            assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        }
        assert_eq!(database.unreadable_rows(), recorded + 1);
        let other = add_task(&*store).await;
        let mut neighbour = FakeExecutor::new(&store, &format!("neighbour-{damage:?}"));
        assert_eq!(neighbour.claim_one().await.task, other);

        let observed = live_session(&store, &executor.name)
            .await
            .expect("the leader observes it");
        assert_eq!(
            live_session(&store, &executor.name).await.as_ref(),
            Some(&observed),
            "its report number does not change"
        );
        assert_eq!(store.expire(observed.clone()).await.unwrap(), Some(1));
        assert_eq!(get_task(&*store, id).await.status, TaskStatus::Retrying);
        assert_eq!(live_session(&store, &executor.name).await, None);
        assert_eq!(
            store.expire(observed.clone()).await.unwrap(),
            None,
            "the row is readable now"
        );
        let listed = store.executors().await.unwrap();
        let listed = listed.iter().find(|state| state.name == executor.name);
        assert_eq!(listed.map(|executor| executor.health), Some(Health::Gone));
        let late = store.report(executor.next_report()).await.unwrap();
        assert_eq!(late.answer, ReportAnswer::Ended);

        let mut next = FakeExecutor::new(&store, &name);
        let attempt_id = next.claim_one().await;
        assert_eq!(attempt_id.task, id);
        next.finish(attempt_id, success()).await;
        assert_eq!(
            store.expire(observed).await.unwrap(),
            None,
            "the session is readable"
        );
        // The row of an ended session may become unreadable too.
        next.expire().await;
        database.damage_executor(&next.name, damage).await;
        let observed = live_session(&store, &next.name)
            .await
            .expect("the leader observes it");
        assert_eq!(store.expire(observed).await.unwrap(), Some(0));
        assert_eq!(next.claim(1).await.len(), 0);
    }
    store.totals().await.unwrap();
}

async fn live_session(store: &Arc<dyn TaskStore>, name: &ExecutorName) -> Option<ObservedSession> {
    let live = store.live_sessions().await.unwrap();
    live.into_iter().find(|observed| observed.executor == *name)
}

/// Retention and scans still work with a blob whose row is unreadable and a task whose blob has no row.
pub async fn an_unreadable_blob_does_not_stop_retention(
    store: Arc<dyn TaskStore>,
    database: &dyn RawDatabase,
) {
    let unreadable = put_blob(&*store, b"unreadable").await.unwrap();
    let missing = put_blob(&*store, b"missing").await.unwrap();
    let task = task_with_blobs(&[missing]);
    let id = task.id;
    store.add(vec![task]).await.unwrap();
    store.cancel(id).await.unwrap();
    database.damage_blob(unreadable, BlobRowDamage::Hash).await;
    database.damage_blob(missing, BlobRowDamage::Missing).await;
    // Retention reaches this blob after the damaged one.
    super::fixtures::advance_age(&*store, std::time::Duration::from_secs(1)).await;
    let good = put_blob(&*store, b"good").await.unwrap();
    for first_byte in 0..=255 {
        store.scan_blobs(first_byte).await.unwrap();
    }
    assert_eq!(read_blob(&*store, good).await.as_deref(), Some(&b"good"[..]));
    let (mut tasks, mut blobs) = (0, 0);
    for _ in 0..3 {
        let retired = store.apply_retention(AFTER_ALL, AFTER_ALL, 1).await.unwrap();
        tasks += retired.tasks;
        blobs += retired.blobs;
    }
    assert_eq!((tasks, blobs), (1, 1));
    assert_eq!(read_blob(&*store, good).await, None);
    assert!(database.unreadable_rows() > 0);
}

/// A task whose loss counter has its largest value ends at the next loss.
pub async fn the_loss_counter_does_not_overflow(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    let id = add_task(&*store).await;
    database.damage(id, TaskRowDamage::MaxLosses).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    executor.expire().await;
    assert_eq!(get_task(&*store, id).await.status, TaskStatus::SystemError);
}

/// An executor whose tools are unreadable has none, and runs all other tasks. Expects an empty store.
pub async fn unreadable_tools_count_as_none(store: Arc<dyn TaskStore>, database: &dyn RawDatabase) {
    let mut executor = FakeExecutor::new(&store, "e");
    executor.tools = Some(tools(&["/c"]));
    executor.claim(0).await;
    database
        .damage_executor(&executor.name, ExecutorRowDamage::Tools)
        .await;
    let tasks = [new_task(requiring("/c")), new_task(task_spec())];
    let [needs_tools, any] = [tasks[0].id, tasks[1].id];
    store.add(tasks.to_vec()).await.unwrap();
    assert_eq!(executor.claim_one().await.task, any);
    assert_eq!(executor.claim(1).await, []);
    let listed = store.executors().await.unwrap();
    assert_eq!((listed.len(), &listed[0].tools), (1, &tools(&[])));
    assert_eq!(store.live_sessions().await.unwrap(), [executor.observed()]);
    assert_eq!(database.unreadable_rows(), 1);
    executor.tools = Some(tools(&["/c"]));
    assert_eq!(executor.claim_one().await.task, needs_tools);
}
