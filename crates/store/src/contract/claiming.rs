//! Claiming.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Attempt, Handout, Status};

use super::sample::{add_one, add_with, get};
use super::worker::Worker;
use crate::TaskStore;

pub async fn higher_priority_first_then_oldest(store: Arc<dyn TaskStore>) {
    let mut expected = vec![];
    for priority in [0, 5, -3, 5, i32::MAX, 0, i32::MIN] {
        expected.push((priority, add_with(&*store, |spec| spec.priority = priority).await));
    }
    expected.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let mut worker = Worker::new(&store, "e");
    let mut claimed = vec![];
    for vacant in [3, 1, 10] {
        claimed.extend(
            worker
                .claim(vacant)
                .await
                .iter()
                .map(|assigned| assigned.handout.task),
        );
    }
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(claimed, expected);
}

pub async fn no_more_than_vacant(store: Arc<dyn TaskStore>) {
    for _ in 0..5 {
        add_one(&*store).await;
    }
    let mut worker = Worker::new(&store, "e");
    assert_eq!(worker.claim(0).await.len(), 0);
    assert_eq!(worker.claim(3).await.len(), 3);
    assert_eq!(worker.claim(3).await.len(), 2);
    assert_eq!(worker.claim(3).await.len(), 0);
}

pub async fn a_task_goes_to_one_executor_only(store: Arc<dyn TaskStore>) {
    let mut expected = BTreeSet::new();
    for _ in 0..60 {
        expected.insert(add_one(&*store).await);
    }
    let claims = (0..8).map(|index| {
        let mut worker = Worker::new(&store, &format!("e{index}"));
        tokio::spawn(async move { [worker.claim(5).await, worker.claim(5).await].concat() })
    });
    let mut claimed = vec![];
    for claim in claims.collect::<Vec<_>>() {
        claimed.extend(
            claim
                .await
                .unwrap()
                .into_iter()
                .map(|assigned| assigned.handout.task),
        );
    }
    assert_eq!(claimed.len(), 60);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), expected);
}

pub async fn a_claim_is_visible(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let before = get(&*store, id).await;
    let mut worker = Worker::new(&store, "e");
    let mut report = worker.next_report();
    report.vacant = 1;
    let reported = worker.deliver(report).await;
    assert_eq!(reported.claimed, [before.add_time]);
    let found = get(&*store, id).await;
    let handout = Handout {
        task: id,
        session: worker.session,
        attempt: Attempt(1),
    };
    assert_eq!(super::worker::done(reported).assign[0].handout, handout);
    assert_eq!(found.executor, Some(worker.name.clone()));
    assert_eq!((found.session, found.attempt), (Some(worker.session), Attempt(1)));
    assert_eq!(found.status, Status::Pending);
    assert!(found.start_time.is_some());
    assert_eq!(store.totals().await.unwrap().held, 1);
}

pub async fn a_released_task_keeps_its_place_in_the_queue(store: Arc<dyn TaskStore>) {
    let first = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim_one().await;
    let second = add_one(&*store).await;
    worker.die().await;
    let claimed: Vec<_> = worker
        .claim(2)
        .await
        .iter()
        .map(|assigned| assigned.handout)
        .collect();
    assert_eq!(
        claimed.iter().map(|handout| handout.task).collect::<Vec<_>>(),
        [first, second]
    );
    assert_eq!(claimed[0].attempt, Attempt(2));
}
