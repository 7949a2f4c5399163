//! What a store tells of its changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{End, Status, TaskId};
use tokio::sync::broadcast::Receiver;

use super::LOSSES;
use super::sample::{add_one, new, spec, success};
use super::worker::Worker;
use crate::{Change, NewTask, TaskStore};

/// All that was told up to the addition of one more task, which is the mark: how each task moved, who has to
/// look, and how many more wait.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    moved: BTreeMap<TaskId, Vec<Status>>,
    withdrawn: Vec<String>,
    waiting: usize,
}

async fn told(store: &Arc<dyn TaskStore>, changes: &mut Receiver<Change>) -> Told {
    let mark = add_one(&**store).await;
    let mut told = Told::default();
    let mut marked = false;
    loop {
        match changes.recv().await.unwrap() {
            Change::Moved { id, .. } if id == mark => marked = true,
            Change::Moved { id, status, .. } => told.moved.entry(id).or_default().push(status),
            Change::Withdrawn(name) => told.withdrawn.push(name.to_string()),
            // The mark itself waits too.
            Change::Waiting(count) if marked => {
                told.waiting += count - 1;
                break;
            }
            Change::Waiting(count) => told.waiting += count,
            Change::Lost => panic!("nothing happened that could have made it miss something"),
        }
    }
    store.cancel(mark).await.unwrap();
    while !matches!(changes.recv().await.unwrap(), Change::Moved { id, .. } if id == mark) {}
    told
}

pub async fn additions_are_told(store: Arc<dyn TaskStore>) {
    let mut changes = store.changes();
    let tasks = [new(spec()), new(spec())];
    store
        .add(vec![tasks[0].clone(), tasks[1].clone(), tasks[0].clone()])
        .await
        .unwrap();
    let moved = tasks
        .iter()
        .map(|task| (task.id, vec![Status::Pending]))
        .collect();
    let expected = Told {
        moved,
        withdrawn: vec![],
        waiting: 2,
    };
    assert_eq!(told(&store, &mut changes).await, expected);
    store.add(tasks.to_vec()).await.unwrap();
    assert_eq!(told(&store, &mut changes).await, Told::default(), "they existed");
}

pub async fn progress_is_told(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut changes = store.changes();
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    worker.progress(id, Status::Running).await;
    worker.progress(id, Status::Running).await;
    assert!(matches!(
        changes.recv().await.unwrap(),
        Change::Moved { id: moved, status: Status::Running, executor: Some(by), .. } if moved == id && by == worker.name
    ));
    worker.finish(handout, success()).await;
    let moved = [(id, vec![Status::Success])].into();
    assert_eq!(
        told(&store, &mut changes).await,
        Told {
            moved,
            ..Told::default()
        }
    );
}

pub async fn withdrawals_are_told(store: Arc<dyn TaskStore>) {
    let (waiting, held) = (add_one(&*store).await, add_one(&*store).await);
    let mut worker = Worker::new(&store, "e");
    store.cancel(waiting).await.unwrap();
    worker.claim_one().await;
    let mut changes = store.changes();
    store.cancel(held).await.unwrap();
    store.cancel(held).await.unwrap();
    let moved = [(held, vec![Status::Cancelled])].into();
    let expected = Told {
        moved,
        withdrawn: vec!["e".into()],
        waiting: 0,
    };
    assert_eq!(told(&store, &mut changes).await, expected);
}

pub async fn releases_are_told(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim_one().await;
    let mut changes = store.changes();
    // Given back, then lost until it is given up; the last one does not wait any more.
    worker.running.clear();
    worker.claim(0).await;
    for _ in 0..LOSSES {
        let handout = worker.claim_one().await;
        worker.end(handout, End::Broken("no".into())).await;
    }
    let mut statuses = vec![Status::Retrying; LOSSES as usize];
    statuses.push(Status::SystemError);
    let expected = Told {
        moved: [(id, statuses)].into(),
        withdrawn: vec![],
        waiting: LOSSES as usize,
    };
    assert_eq!(told(&store, &mut changes).await, expected);
}

pub async fn refusals_are_not(store: Arc<dyn TaskStore>) {
    let task = new(spec());
    store.add(vec![task.clone()]).await.unwrap();
    let mut changes = store.changes();
    let other = NewTask {
        digest: [1; 32],
        ..task
    };
    store.add(vec![new(spec()), other]).await.unwrap_err();
    assert_eq!(told(&store, &mut changes).await, Told::default());
}
