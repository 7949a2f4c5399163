//! Concurrent operations share a commit, and are otherwise independent.

use futures::future::join_all;
use model::TaskStatus;
use store::contract::fixtures::{new_task, task_spec};
use store::{NewTaskRecord, StoreError, TaskStore};

use super::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_adds_share_commits() {
    const ADDS: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let before = store.commits();
    let added = join_all((0..ADDS).map(|_| store.add(vec![new_task(task_spec())]))).await;
    assert!(added.iter().all(Result::is_ok));
    let commits = store.commits() - before;
    assert!(commits < ADDS / 4, "{commits} commits for {ADDS} adds");
    assert_eq!(store.totals().await.unwrap().counts[&TaskStatus::Pending], ADDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_add_does_not_affect_other_callers() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let task = new_task(task_spec());
    store.add(vec![task.clone()]).await.unwrap();
    // Every other batch contains a task with a conflicting id.
    let adds = (0..200).map(|index| {
        let other = NewTaskRecord {
            digest: [9; 32],
            ..task.clone()
        };
        let batch = if index % 2 == 0 {
            vec![new_task(task_spec())]
        } else {
            vec![new_task(task_spec()), other]
        };
        store.add(batch)
    });
    for (index, added) in join_all(adds).await.into_iter().enumerate() {
        match added {
            Ok(added) => assert!(index % 2 == 0 && !added[0].existed),
            Err(error) => {
                assert!(index % 2 == 1 && matches!(error, StoreError::Conflict(id) if id == task.id))
            }
        }
    }
    assert_eq!(store.totals().await.unwrap().counts[&TaskStatus::Pending], 101);
}
