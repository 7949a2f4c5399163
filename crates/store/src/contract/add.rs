//! Contract cases: adding tasks.

use std::sync::Arc;

use model::{AttemptNumber, TaskId, TaskStatus};

use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task, get_task, hash_of, new_task, put_blob, success, task_spec, task_with_blobs};
use crate::{NewTaskRecord, StoreError, TaskStore};

pub async fn get_returns_the_task_as_it_was_added(store: Arc<dyn TaskStore>) {
    let task = new_task(task_spec());
    let added = store.add(vec![task.clone()]).await.unwrap();
    assert_eq!(added.len(), 1);
    assert!(!added[0].existed);
    let found = get_task(&*store, task.id).await;
    assert_eq!(found.spec, task.spec);
    assert_eq!((found.id, found.add_time), (task.id, added[0].add_time));
    assert_eq!(
        (found.status, found.attempt),
        (TaskStatus::Pending, AttemptNumber(0))
    );
    assert_eq!((found.executor, found.session), (None, None));
    assert_eq!(
        (found.start_time, found.report_time, found.finish_time),
        (None, None, None)
    );
    assert_eq!((found.result, found.trouble), (None, None));
    assert_eq!(store.get(TaskId(uuid::Uuid::now_v7())).await.unwrap(), None);
}

pub async fn adding_the_same_task_twice_adds_it_once(store: Arc<dyn TaskStore>) {
    let task = new_task(task_spec());
    let first = store.add(vec![task.clone()]).await.unwrap()[0];
    let second = store.add(vec![task.clone()]).await.unwrap()[0];
    assert!(!first.existed && second.existed);
    assert_eq!(first.add_time, second.add_time);
    let mut executor = FakeExecutor::new(&store, "e");
    assert_eq!(executor.claim(10).await.len(), 1);
}

pub async fn adding_a_done_task_again_leaves_it_done(store: Arc<dyn TaskStore>) {
    let task = new_task(task_spec());
    store.add(vec![task.clone()]).await.unwrap();
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, success()).await;
    let before = get_task(&*store, task.id).await;
    assert!(store.add(vec![task.clone()]).await.unwrap()[0].existed);
    assert_eq!(get_task(&*store, task.id).await, before);
    assert!(executor.claim(1).await.is_empty());
}

pub async fn other_content_under_the_same_id_is_refused(store: Arc<dyn TaskStore>) {
    let task = new_task(task_spec());
    store.add(vec![task.clone()]).await.unwrap();
    let other = NewTaskRecord {
        digest: [8; 32],
        ..task.clone()
    };
    let bystander = new_task(task_spec());
    let refused = store.add(vec![bystander.clone(), other]).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(id)) if id == task.id),
        "{refused:?}"
    );
    assert_eq!(store.get(bystander.id).await.unwrap(), None);
    assert_eq!(store.totals().await.unwrap().counts[&TaskStatus::Pending], 1);
}

pub async fn a_batch_may_repeat_a_task_but_not_with_other_content(store: Arc<dyn TaskStore>) {
    let (task, other) = (new_task(task_spec()), new_task(task_spec()));
    let added = store
        .add(vec![task.clone(), other.clone(), task.clone()])
        .await
        .unwrap();
    let existed: Vec<_> = added.iter().map(|added| (added.id, added.existed)).collect();
    assert_eq!(existed, [(task.id, false), (other.id, false), (task.id, true)]);
    assert_eq!(added[0].add_time, added[2].add_time);

    let fresh = new_task(task_spec());
    let changed = NewTaskRecord {
        digest: [8; 32],
        ..fresh.clone()
    };
    let refused = store.add(vec![fresh.clone(), changed]).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(id)) if id == fresh.id),
        "{refused:?}"
    );
    assert_eq!(store.get(fresh.id).await.unwrap(), None);
    assert_eq!(store.totals().await.unwrap().counts[&TaskStatus::Pending], 2);
}

pub async fn a_missing_blob_refuses_the_whole_batch(store: Arc<dyn TaskStore>) {
    let (there, missing) = (put_blob(&*store, b"bytes").await.unwrap(), hash_of(b"more"));
    let (good, bad) = (task_with_blobs(&[there]), task_with_blobs(&[there, missing]));
    let refused = store.add(vec![good.clone(), bad.clone()]).await;
    assert!(
        matches!(refused, Err(StoreError::BlobNotFound(hash)) if hash == missing),
        "{refused:?}"
    );
    assert_eq!(store.get(good.id).await.unwrap(), None);
    put_blob(&*store, b"more").await.unwrap();
    assert_eq!(store.add(vec![good, bad.clone()]).await.unwrap().len(), 2);
    assert_eq!(get_task(&*store, bad.id).await.spec, bad.spec);
}

pub async fn add_times_strictly_increase(store: Arc<dyn TaskStore>) {
    let mut times = vec![];
    for _ in 0..5 {
        let batch = (0..20).map(|_| new_task(task_spec())).collect();
        times.extend(
            store
                .add(batch)
                .await
                .unwrap()
                .into_iter()
                .map(|added| added.add_time),
        );
        let id = add_task(&*store).await;
        times.push(get_task(&*store, id).await.add_time);
    }
    assert!(times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");
}

pub async fn an_empty_batch_is_accepted(store: Arc<dyn TaskStore>) {
    assert_eq!(store.add(vec![]).await.unwrap(), []);
}
