//! Rows that cannot be read: they are passed over and kept, and everything else goes on. How a row is damaged differs
//! from store to store, so a store's own tests call this.

use std::sync::Arc;

use async_trait::async_trait;
use model::{Age, BlobHash, ExecutorName, Health, Query, ReportAnswer, Status, TaskId};

use super::sample::{add_one, blob, get, needing, put, success};
use super::searching::found;
use super::worker::Worker;
use crate::{SessionSeen, StoreError, TaskStore};

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// There is no such status.
    Status,
    /// It is no UUID.
    Id,
    /// It is empty.
    User,
    /// It has letters that no executor's name has.
    Executor,
    /// It is no UUID.
    Session,
    /// It is negative.
    Attempt,
    /// The content of the spec is not one.
    Spec,
    /// It is in the queue, and its status is one of a task that is done.
    DoneInQueue,
    /// It is in the queue, and an executor that nobody knows has it.
    HeldInQueue,
    /// It was lost as often as can be counted.
    Lost,
}

/// What is wrong with the row of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorDamage {
    /// It is no UUID.
    Session,
    /// It is negative.
    Seq,
    /// It is no text.
    Host,
}

/// What is wrong with the row of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobDamage {
    /// It is no hash.
    Hash,
    /// There is no row.
    Missing,
}

impl Damage {
    const OF_ROWS: [Damage; 6] = [
        Damage::Status,
        Damage::Id,
        Damage::User,
        Damage::Executor,
        Damage::Session,
        Damage::Attempt,
    ];
}

/// What lies under a store, past its promises.
#[async_trait]
pub trait Rows: Sync {
    async fn damage(&self, id: TaskId, damage: Damage);
    async fn damage_executor(&self, name: &ExecutorName, damage: ExecutorDamage);
    async fn damage_blob(&self, hash: BlobHash, damage: BlobDamage);
    /// How many tasks there are, readable or not.
    async fn count(&self) -> u64;
    /// How many the store has found unreadable.
    fn noted(&self) -> usize;
}

const EVER: Age = Age(i64::MAX);

/// The store is empty at first.
pub async fn everything_else_goes_on(store: Arc<dyn TaskStore>, rows: &dyn Rows) {
    let waiting = waiting(&store, rows).await;
    held(&store, rows).await;
    done(&store, rows).await;
    let noted = rows.noted();
    // Each row is noted once, however often it is met.
    let mut worker = Worker::new(&store, "later");
    assert_eq!(worker.claim(10).await.len(), 0);
    found(&store, Query::default()).await;
    for (id, damage) in waiting {
        check_get(&store, id, damage).await;
    }
    assert_eq!(rows.noted(), noted);
    store.totals().await.unwrap();
    store.executors().await.unwrap();
    store.live_sessions().await.unwrap();
}

/// Unreadable tasks at the head of the queue: they are not handed out, and all behind them are.
async fn waiting(store: &Arc<dyn TaskStore>, rows: &dyn Rows) -> Vec<(TaskId, Damage)> {
    let mut damaged = vec![];
    for damage in Damage::OF_ROWS {
        damaged.push((add_one(&**store).await, damage));
    }
    let without_spec = add_one(&**store).await;
    let mut good = vec![];
    for _ in 0..3 {
        good.push(add_one(&**store).await);
    }
    for (id, damage) in &damaged {
        rows.damage(*id, *damage).await;
    }
    rows.damage(without_spec, Damage::Spec).await;
    let mut worker = Worker::new(store, "first");
    // Fewer at a time than are unreadable.
    let mut claimed = vec![];
    for _ in 0..4 {
        claimed.extend(worker.claim(2).await);
    }
    let claimed: Vec<_> = claimed.iter().map(|assignment| assignment.handout).collect();
    let ids: Vec<_> = claimed.iter().map(|handout| handout.task).collect();
    assert_eq!(ids, good);
    check_get(store, without_spec, Damage::Spec).await;
    // A task whose spec makes no sense can still be ended, and who waits for it is told.
    let listed = [vec![without_spec], good].concat();
    assert_eq!(found(store, Query::default()).await, listed);
    let text = Query {
        text: Some("a.out".into()),
        ..Query::default()
    };
    assert_eq!(found(store, text).await, listed);
    let given_up = Query {
        statuses: vec![Status::SystemError],
        ..Query::default()
    };
    assert_eq!(found(store, given_up).await, [without_spec]);
    for (id, damage) in &damaged {
        check_get(store, *id, *damage).await;
        if *damage != Damage::Id {
            let cancelled = store.cancel(*id).await;
            assert!(
                matches!(cancelled, Err(StoreError::Unreadable { .. })),
                "{cancelled:?}"
            );
        }
    }
    for handout in claimed {
        worker.finish(handout, success()).await;
        assert_eq!(get(&**store, handout.task).await.status, Status::Success);
    }
    damaged
}

async fn check_get(store: &Arc<dyn TaskStore>, id: TaskId, damage: Damage) {
    match (damage, store.get(id).await) {
        (Damage::Id, Ok(None)) => {}
        (_, Err(error @ StoreError::Unreadable { .. })) => {
            assert!(!error.is_transient());
            assert!(error.to_string().contains(&id.to_string()), "{error}");
        }
        (damage, other) => panic!("{damage:?}: {other:?}"),
    }
}

/// Tasks that become unreadable while an executor has them: it is told to forget them, and its others go on.
async fn held(store: &Arc<dyn TaskStore>, rows: &dyn Rows) {
    let mut ids = vec![];
    for _ in 0..4 {
        ids.push(add_one(&**store).await);
    }
    let mut worker = Worker::new(store, "second");
    let handouts: Vec<_> = worker.claim(4).await.iter().map(|one| one.handout).collect();
    rows.damage(ids[0], Damage::Status).await;
    rows.damage(ids[1], Damage::Session).await;
    let answer = worker.progress(ids[2], Status::Running).await;
    assert_eq!(answer.delete, handouts[..2]);
    worker.finish(handouts[0], success()).await;
    worker.finish(handouts[2], success()).await;
    assert_eq!(get(&**store, ids[2]).await.status, Status::Success);
    let released = store.expire(worker.seen()).await.unwrap();
    assert_eq!(released, Some(1), "the one that is left");
    assert_eq!(get(&**store, ids[3]).await.status, Status::Retrying);
    store.cancel(ids[3]).await.unwrap();
}

/// Tasks that become unreadable when they are done: they are never removed, and the others are.
async fn done(store: &Arc<dyn TaskStore>, rows: &dyn Rows) {
    for damage in [Damage::Status, Damage::User, Damage::Attempt] {
        let id = add_one(&**store).await;
        store.cancel(id).await.unwrap();
        rows.damage(id, damage).await;
    }
    // Fewer at a time than are unreadable.
    while store.retire(EVER, Age(0), 2).await.unwrap().tasks > 0 {}
    assert_eq!(found(store, Query::default()).await, []);
    let unreadable = Damage::OF_ROWS.len() + 2 + 3;
    assert_eq!(rows.count().await, unreadable as u64);
}

/// Tasks at the head of the queue that do not wait, as many as an executor asks for: they are not handed out, and the
/// one behind them is.
pub async fn tasks_that_do_not_wait_are_passed_over(store: Arc<dyn TaskStore>, rows: &dyn Rows) {
    let mut mistaken = vec![];
    for damage in [Damage::DoneInQueue, Damage::HeldInQueue] {
        let id = add_one(&*store).await;
        rows.damage(id, damage).await;
        mistaken.push(get(&*store, id).await);
    }
    let good = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    assert_eq!(handout.task, good);
    assert!(rows.noted() > 0);
    worker.finish(handout, success()).await;
    for task in mistaken {
        assert_eq!(get(&*store, task.id).await, task, "it stays as it is");
    }
}

/// An executor's reports are refused while its row cannot be read. The leader sees it as a session that does not move,
/// and expires it; then the executor begins a new session.
pub async fn an_unreadable_executor_is_expired(store: Arc<dyn TaskStore>, rows: &dyn Rows) {
    for damage in [ExecutorDamage::Session, ExecutorDamage::Seq, ExecutorDamage::Host] {
        let name = format!("executor-{damage:?}");
        let id = add_one(&*store).await;
        let mut worker = Worker::new(&store, &name);
        worker.claim_one().await;
        let noted = rows.noted();
        rows.damage_executor(&worker.name, damage).await;
        for _ in 0..2 {
            let refused = store.report(worker.next_report()).await;
            let error = refused.expect_err("the row cannot be read");
            assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        }
        assert_eq!(rows.noted(), noted + 1);
        let other = add_one(&*store).await;
        let mut neighbour = Worker::new(&store, &format!("neighbour-{damage:?}"));
        assert_eq!(neighbour.claim_one().await.task, other);

        let seen = live(&store, &worker.name).await.expect("the leader sees it");
        assert_eq!(
            live(&store, &worker.name).await.as_ref(),
            Some(&seen),
            "it does not move"
        );
        assert_eq!(store.expire(seen.clone()).await.unwrap(), Some(1));
        assert_eq!(get(&*store, id).await.status, Status::Retrying);
        assert_eq!(live(&store, &worker.name).await, None);
        assert_eq!(
            store.expire(seen.clone()).await.unwrap(),
            None,
            "it can be read now"
        );
        let listed = store.executors().await.unwrap();
        let listed = listed.iter().find(|executor| executor.name == worker.name);
        assert_eq!(listed.map(|executor| executor.health), Some(Health::Gone));
        let late = store.report(worker.next_report()).await.unwrap();
        assert_eq!(late.answer, ReportAnswer::Ended);

        let mut next = Worker::new(&store, &name);
        let handout = next.claim_one().await;
        assert_eq!(handout.task, id);
        next.finish(handout, success()).await;
        assert_eq!(
            store.expire(seen).await.unwrap(),
            None,
            "a session that can be read"
        );
        // What an ended session leaves may become unreadable too.
        next.die().await;
        rows.damage_executor(&next.name, damage).await;
        let seen = live(&store, &next.name).await.expect("the leader sees it");
        assert_eq!(store.expire(seen).await.unwrap(), Some(0));
        assert_eq!(next.claim(1).await.len(), 0);
    }
    store.totals().await.unwrap();
}

async fn live(store: &Arc<dyn TaskStore>, name: &ExecutorName) -> Option<SessionSeen> {
    let live = store.live_sessions().await.unwrap();
    live.into_iter().find(|seen| seen.executor == *name)
}

/// The row of a blob is unreadable or missing: the others are retired and scanned, and so are tasks that needed it.
pub async fn an_unreadable_blob_does_not_stop_retention(store: Arc<dyn TaskStore>, rows: &dyn Rows) {
    let unreadable = put(&*store, b"unreadable").await.unwrap();
    let missing = put(&*store, b"missing").await.unwrap();
    let task = needing(&[missing]);
    let id = task.id;
    store.add(vec![task]).await.unwrap();
    store.cancel(id).await.unwrap();
    rows.damage_blob(unreadable, BlobDamage::Hash).await;
    rows.damage_blob(missing, BlobDamage::Missing).await;
    // Behind the damaged one in the order in which they are retired.
    super::sample::grow_older(&*store, std::time::Duration::from_secs(1)).await;
    let good = put(&*store, b"good").await.unwrap();
    for first_byte in 0..=255 {
        store.scan_blobs(first_byte).await.unwrap();
    }
    assert_eq!(blob(&*store, good).await.as_deref(), Some(&b"good"[..]));
    let (mut tasks, mut blobs) = (0, 0);
    for _ in 0..3 {
        let retired = store.retire(EVER, EVER, 1).await.unwrap();
        tasks += retired.tasks;
        blobs += retired.blobs;
    }
    assert_eq!((tasks, blobs), (1, 1));
    assert_eq!(blob(&*store, good).await, None);
    assert!(rows.noted() > 0);
}

/// A task that was lost as often as can be counted ends when it is lost once more.
pub async fn losses_are_counted_to_an_end(store: Arc<dyn TaskStore>, rows: &dyn Rows) {
    let id = add_one(&*store).await;
    rows.damage(id, Damage::Lost).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim_one().await;
    worker.die().await;
    assert_eq!(get(&*store, id).await.status, Status::SystemError);
}
