//! Retention of tasks and blobs.

use std::sync::Arc;

use model::{BlobHash, Moment, Query, Status, TaskId};

use super::sample::{add_one, blob, get, needing, put, success};
use super::worker::Worker;
use crate::{Retired, TaskStore};

const NEVER: Moment = Moment(0);
const EVER: Moment = Moment(i64::MAX);

pub async fn only_tasks_done_long_enough_ago(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    let early = add_one(&*store).await;
    let handout = worker.claim_one().await;
    worker.finish(handout, success()).await;
    let late = add_one(&*store).await;
    let cancelled = store.cancel(late).await.unwrap().unwrap();
    let (held, waiting) = (add_one(&*store).await, add_one(&*store).await);
    worker.claim_one().await;
    let retired = store
        .retire(cancelled.finish_time.unwrap(), NEVER, 100)
        .await
        .unwrap();
    assert_eq!(retired, Retired { tasks: 1, blobs: 0 });
    assert_eq!(store.get(early).await.unwrap(), None);
    assert_eq!(get(&*store, late).await, cancelled);
    let retired = store.retire(EVER, NEVER, 100).await.unwrap();
    assert_eq!(retired, Retired { tasks: 1, blobs: 0 });
    assert_eq!(store.retire(EVER, NEVER, 100).await.unwrap(), Retired::default());
    let left = super::searching::found(&store, Query::default()).await;
    assert_eq!(left, [held, waiting]);
    let counts = store.totals().await.unwrap().counts;
    assert_eq!(
        (
            counts[&Status::Success],
            counts[&Status::Cancelled],
            counts[&Status::Pending]
        ),
        (0, 0, 2)
    );
}

pub async fn a_bounded_number_at_a_time(store: Arc<dyn TaskStore>) {
    for index in 0..5 {
        let hash = BlobHash([index; 32]);
        put(&*store, hash, b"x").await.unwrap();
        let id = add_one(&*store).await;
        store.cancel(id).await.unwrap();
    }
    for (tasks, blobs) in [(2, 2), (2, 2), (1, 1), (0, 0)] {
        assert_eq!(
            store.retire(EVER, EVER, 2).await.unwrap(),
            Retired { tasks, blobs }
        );
    }
}

async fn cancel(store: &Arc<dyn TaskStore>, id: TaskId) {
    store.cancel(id).await.unwrap();
}

pub async fn a_blob_lives_as_long_as_a_task_uses_it(store: Arc<dyn TaskStore>) {
    let (shared, own) = (BlobHash([1; 32]), BlobHash([2; 32]));
    put(&*store, shared, b"shared").await.unwrap();
    put(&*store, own, b"own").await.unwrap();
    let (first, second) = (needing(&[shared, own]), needing(&[shared]));
    store.add(vec![first.clone(), second.clone()]).await.unwrap();
    // Adding again is adding once: it does not count as another use.
    store.add(vec![first.clone()]).await.unwrap();
    assert_eq!(store.retire(EVER, EVER, 10).await.unwrap(), Retired::default());
    cancel(&store, first.id).await;
    assert_eq!(
        store.retire(EVER, EVER, 10).await.unwrap(),
        Retired { tasks: 1, blobs: 1 }
    );
    assert_eq!(blob(&*store, own).await, None);
    assert_eq!(blob(&*store, shared).await.as_deref(), Some(&b"shared"[..]));
    cancel(&store, second.id).await;
    assert_eq!(
        store.retire(EVER, NEVER, 10).await.unwrap(),
        Retired { tasks: 1, blobs: 0 }
    );
    assert_eq!(
        store.retire(EVER, EVER, 10).await.unwrap(),
        Retired { tasks: 0, blobs: 1 }
    );
    assert_eq!(store.has_blobs(vec![shared, own]).await.unwrap(), [None, None]);
}

pub async fn asking_for_a_blob_keeps_it(store: Arc<dyn TaskStore>) {
    let (asked, put_again, idle) = (BlobHash([1; 32]), BlobHash([2; 32]), BlobHash([3; 32]));
    for hash in [asked, put_again, idle] {
        put(&*store, hash, b"x").await.unwrap();
    }
    let since = {
        let id = add_one(&*store).await;
        get(&*store, id).await.add_time
    };
    assert_eq!(store.has_blobs(vec![asked]).await.unwrap(), [Some(1)]);
    put(&*store, put_again, b"x").await.unwrap();
    assert_eq!(
        store.retire(NEVER, since, 10).await.unwrap(),
        Retired { tasks: 0, blobs: 1 }
    );
    assert_eq!(
        store.has_blobs(vec![asked, put_again, idle]).await.unwrap(),
        [Some(1), Some(1), None]
    );
}

pub async fn a_retired_blob_may_be_put_again(store: Arc<dyn TaskStore>) {
    let hash = BlobHash([1; 32]);
    put(&*store, hash, b"x").await.unwrap();
    // Both at once, many times: whatever the order, a blob that was put last is there.
    for _ in 0..30 {
        let (retired, put) = tokio::join!(store.retire(NEVER, EVER, 10), put(&*store, hash, b"x"));
        retired.unwrap();
        put.unwrap();
        let size = store.has_blobs(vec![hash]).await.unwrap()[0];
        assert_eq!(blob(&*store, hash).await.map(|bytes| bytes.len() as u64), size);
    }
    put(&*store, hash, b"x").await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&b"x"[..]));
}
