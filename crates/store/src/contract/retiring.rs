//! Retention of tasks and blobs.

use std::sync::Arc;
use std::time::Duration;

use model::{Age, Query, Status, TaskId};

use super::LOSSES;
use super::sample::{add_one, blob, get, grow_older, needing, put, success};
use super::worker::Worker;
use crate::{Retired, TaskStore};

const NEVER: Age = Age(0);
const EVER: Age = Age(i64::MAX);
const MINUTE: Duration = Duration::from_secs(60);

pub async fn only_tasks_done_long_enough_ago(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    let early = add_one(&*store).await;
    let handout = worker.claim_one().await;
    worker.finish(handout, success()).await;
    let later = grow_older(&*store, MINUTE).await;
    let late = add_one(&*store).await;
    let cancelled = store.cancel(late).await.unwrap().unwrap();
    let (held, waiting) = (add_one(&*store).await, add_one(&*store).await);
    worker.claim_one().await;
    let retired = store.retire(later, NEVER, 100).await.unwrap();
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
        put(&*store, &[index]).await.unwrap();
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
    let shared = put(&*store, b"shared").await.unwrap();
    let own = put(&*store, b"own").await.unwrap();
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
    let asked = put(&*store, b"1").await.unwrap();
    let put_again = put(&*store, b"2").await.unwrap();
    let idle = put(&*store, b"3").await.unwrap();
    let since = grow_older(&*store, MINUTE).await;
    assert_eq!(store.has_blobs(vec![asked]).await.unwrap(), [Some(1)]);
    put(&*store, b"2").await.unwrap();
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
    let hash = put(&*store, b"x").await.unwrap();
    // Both at once, many times: whatever the order, a blob that was put last is there.
    for _ in 0..30 {
        let (retired, put) = tokio::join!(store.retire(NEVER, EVER, 10), put(&*store, b"x"));
        retired.unwrap();
        put.unwrap();
        let size = store.has_blobs(vec![hash]).await.unwrap()[0];
        assert_eq!(blob(&*store, hash).await.map(|bytes| bytes.len() as u64), size);
    }
    put(&*store, b"x").await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&b"x"[..]));
}

/// Only a leader makes it older, and only from what it saw: nothing else does, least of all a clock.
pub async fn the_age_is_advanced_from_what_was_seen(store: Arc<dyn TaskStore>) {
    let begun = store.age().await.unwrap();
    assert_eq!(store.advance_age(begun, Duration::ZERO).await.unwrap(), begun);
    let later = store.advance_age(begun, MINUTE).await.unwrap();
    assert_eq!(later, begun.plus(MINUTE));
    // Another who takes himself for the leader has not seen that.
    assert_eq!(store.advance_age(begun, MINUTE).await.unwrap(), later);
    assert_eq!(
        store.advance_age(later, MINUTE).await.unwrap(),
        later.plus(MINUTE)
    );
    add_one(&*store).await;
    assert_eq!(store.age().await.unwrap(), later.plus(MINUTE));
}

/// Every way in which a task ends is stamped with the age at that time.
pub async fn every_end_is_stamped(store: Arc<dyn TaskStore>) {
    grow_older(&*store, MINUTE).await;
    let mut worker = Worker::new(&store, "e");
    let mut ids = vec![];
    for _ in 0..3 {
        ids.push(add_one(&*store).await);
    }
    // A result, a cancellation, and losses until it is given up.
    let finished = worker.claim_one().await;
    worker.finish(finished, success()).await;
    store.cancel(ids[1]).await.unwrap();
    for _ in 0..LOSSES {
        worker.claim_one().await;
        worker.die().await;
    }
    assert_eq!(get(&*store, ids[2]).await.status, Status::SystemError);
    let age = store.age().await.unwrap();
    let none = Retired::default();
    assert_eq!(store.retire(age, NEVER, 10).await.unwrap(), none);
    let later = grow_older(&*store, MINUTE).await;
    let all = Retired { tasks: 3, blobs: 0 };
    assert_eq!(store.retire(later, NEVER, 10).await.unwrap(), all);
}
