//! Contract cases: retention of tasks and blobs.

use std::sync::Arc;
use std::time::Duration;

use model::{StoreAge, TaskId, TaskQuery, TaskStatus};

use super::MAX_ATTEMPTS;
use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task, advance_age, get_task, put_blob, read_blob, success, task_with_blobs};
use crate::{RetentionSummary, TaskStore};

/// An age before every stamp.
const BEFORE_ALL: StoreAge = StoreAge(0);
/// An age after every stamp.
const AFTER_ALL: StoreAge = StoreAge(i64::MAX);
const MINUTE: Duration = Duration::from_secs(60);

pub async fn only_tasks_that_ended_long_ago_are_removed(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let early = add_task(&*store).await;
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, success()).await;
    let later = advance_age(&*store, MINUTE).await;
    let late = add_task(&*store).await;
    let cancelled = store.cancel(late).await.unwrap().unwrap();
    let (held, waiting) = (add_task(&*store).await, add_task(&*store).await);
    executor.claim_one().await;
    let retired = store.apply_retention(later, BEFORE_ALL, 100).await.unwrap();
    assert_eq!(
        retired,
        RetentionSummary {
            tasks: 1,
            blobs: 0,
            more: false
        }
    );
    assert_eq!(store.get(early).await.unwrap(), None);
    assert_eq!(get_task(&*store, late).await, cancelled);
    let retired = store.apply_retention(AFTER_ALL, BEFORE_ALL, 100).await.unwrap();
    assert_eq!(
        retired,
        RetentionSummary {
            tasks: 1,
            blobs: 0,
            more: false
        }
    );
    assert_eq!(
        store.apply_retention(AFTER_ALL, BEFORE_ALL, 100).await.unwrap(),
        RetentionSummary::default()
    );
    let left = super::search::search_ids(&store, TaskQuery::default()).await;
    assert_eq!(left, [held, waiting]);
    let counts = store.totals().await.unwrap().counts;
    assert_eq!(
        (
            counts[&TaskStatus::Success],
            counts[&TaskStatus::Cancelled],
            counts[&TaskStatus::Pending]
        ),
        (0, 0, 2)
    );
}

pub async fn each_round_removes_a_bounded_number(store: Arc<dyn TaskStore>) {
    for index in 0..5 {
        put_blob(&*store, &[index]).await.unwrap();
        let id = add_task(&*store).await;
        store.cancel(id).await.unwrap();
    }
    for (tasks, blobs) in [(2, 2), (2, 2), (1, 1), (0, 0)] {
        assert_eq!(
            store.apply_retention(AFTER_ALL, AFTER_ALL, 2).await.unwrap(),
            RetentionSummary {
                tasks,
                blobs,
                more: tasks == 2
            }
        );
    }
}

async fn cancel(store: &Arc<dyn TaskStore>, id: TaskId) {
    store.cancel(id).await.unwrap();
}

pub async fn a_blob_is_kept_while_a_task_uses_it(store: Arc<dyn TaskStore>) {
    let shared = put_blob(&*store, b"shared").await.unwrap();
    let own = put_blob(&*store, b"own").await.unwrap();
    let (first, second) = (task_with_blobs(&[shared, own]), task_with_blobs(&[shared]));
    store.add(vec![first.clone(), second.clone()]).await.unwrap();
    // Adding the same task again does not count as another use of its blobs.
    store.add(vec![first.clone()]).await.unwrap();
    assert_eq!(
        store.apply_retention(AFTER_ALL, AFTER_ALL, 10).await.unwrap(),
        RetentionSummary::default()
    );
    cancel(&store, first.id).await;
    assert_eq!(
        store.apply_retention(AFTER_ALL, AFTER_ALL, 10).await.unwrap(),
        RetentionSummary {
            tasks: 1,
            blobs: 1,
            more: false
        }
    );
    assert_eq!(read_blob(&*store, own).await, None);
    assert_eq!(read_blob(&*store, shared).await.as_deref(), Some(&b"shared"[..]));
    cancel(&store, second.id).await;
    assert_eq!(
        store.apply_retention(AFTER_ALL, BEFORE_ALL, 10).await.unwrap(),
        RetentionSummary {
            tasks: 1,
            blobs: 0,
            more: false
        }
    );
    assert_eq!(
        store.apply_retention(AFTER_ALL, AFTER_ALL, 10).await.unwrap(),
        RetentionSummary {
            tasks: 0,
            blobs: 1,
            more: false
        }
    );
    assert_eq!(store.has_blobs(vec![shared, own]).await.unwrap(), [None, None]);
}

pub async fn asking_for_a_blob_keeps_it(store: Arc<dyn TaskStore>) {
    let asked = put_blob(&*store, b"1").await.unwrap();
    let put_again = put_blob(&*store, b"2").await.unwrap();
    let idle = put_blob(&*store, b"3").await.unwrap();
    let since = advance_age(&*store, MINUTE).await;
    assert_eq!(store.has_blobs(vec![asked]).await.unwrap(), [Some(1)]);
    put_blob(&*store, b"2").await.unwrap();
    assert_eq!(
        store.apply_retention(BEFORE_ALL, since, 10).await.unwrap(),
        RetentionSummary {
            tasks: 0,
            blobs: 1,
            more: false
        }
    );
    assert_eq!(
        store.has_blobs(vec![asked, put_again, idle]).await.unwrap(),
        [Some(1), Some(1), None]
    );
}

pub async fn a_removed_blob_may_be_put_again(store: Arc<dyn TaskStore>) {
    let hash = put_blob(&*store, b"x").await.unwrap();
    // Concurrently, many times: in either order, the blob exists with its bytes or does not exist.
    for _ in 0..30 {
        let (retired, put) = tokio::join!(
            store.apply_retention(BEFORE_ALL, AFTER_ALL, 10),
            put_blob(&*store, b"x")
        );
        retired.unwrap();
        put.unwrap();
        let size = store.has_blobs(vec![hash]).await.unwrap()[0];
        assert_eq!(
            read_blob(&*store, hash).await.map(|bytes| bytes.len() as u64),
            size
        );
    }
    put_blob(&*store, b"x").await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&b"x"[..]));
}

/// The age changes only when a leader advances it, and only from the value that the leader observed.
pub async fn the_age_advances_only_from_the_observed_value(store: Arc<dyn TaskStore>) {
    let begun = store.age().await.unwrap();
    assert_eq!(store.advance_age(begun, Duration::ZERO).await.unwrap(), begun);
    let later = store.advance_age(begun, MINUTE).await.unwrap();
    assert_eq!(later, begun.plus(MINUTE));
    // Another node that believes it is the leader still has the old value.
    assert_eq!(store.advance_age(begun, MINUTE).await.unwrap(), later);
    assert_eq!(
        store.advance_age(later, MINUTE).await.unwrap(),
        later.plus(MINUTE)
    );
    add_task(&*store).await;
    assert_eq!(store.age().await.unwrap(), later.plus(MINUTE));
}

pub async fn every_terminal_status_is_stamped_with_the_age(store: Arc<dyn TaskStore>) {
    advance_age(&*store, MINUTE).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let mut ids = vec![];
    for _ in 0..3 {
        ids.push(add_task(&*store).await);
    }
    // A result, a cancellation, and a task that is lost too often.
    let finished = executor.claim_one().await;
    executor.finish(finished, success()).await;
    store.cancel(ids[1]).await.unwrap();
    for _ in 0..MAX_ATTEMPTS {
        executor.claim_one().await;
        executor.expire().await;
    }
    assert_eq!(get_task(&*store, ids[2]).await.status, TaskStatus::SystemError);
    let age = store.age().await.unwrap();
    let none = RetentionSummary::default();
    assert_eq!(store.apply_retention(age, BEFORE_ALL, 10).await.unwrap(), none);
    let later = advance_age(&*store, MINUTE).await;
    let all = RetentionSummary {
        tasks: 3,
        blobs: 0,
        more: false,
    };
    assert_eq!(store.apply_retention(later, BEFORE_ALL, 10).await.unwrap(), all);
}
