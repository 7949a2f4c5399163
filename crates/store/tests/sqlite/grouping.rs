//! Many who wait at the same time share one commit, and nothing else.

use futures::future::join_all;
use model::Status;
use store::contract::sample::{new, spec};
use store::{NewTask, StoreError, TaskStore};

use super::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adds_at_the_same_time_share_commits() {
    const ADDS: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let before = store.commits();
    let added = join_all((0..ADDS).map(|_| store.add(vec![new(spec())]))).await;
    assert!(added.iter().all(Result::is_ok));
    let commits = store.commits() - before;
    assert!(commits < ADDS / 4, "{commits} commits for {ADDS} adds");
    assert_eq!(store.totals().await.unwrap().counts[&Status::Pending], ADDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_concerns_only_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let task = new(spec());
    store.add(vec![task.clone()]).await.unwrap();
    // Every other one brings a new task together with a contradiction.
    let adds = (0..200).map(|index| {
        let other = NewTask {
            digest: [9; 32],
            ..task.clone()
        };
        let batch = if index % 2 == 0 {
            vec![new(spec())]
        } else {
            vec![new(spec()), other]
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
    assert_eq!(store.totals().await.unwrap().counts[&Status::Pending], 101);
}
