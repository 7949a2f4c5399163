//! Claiming.

use std::collections::BTreeSet;
use std::sync::Arc;

use std::time::{Duration, Instant};

use model::{Attempt, Capacity, Handout, Status, TaskId};

use super::sample::{add_one, add_with, get, new, spec};
use super::worker::{CAPACITY, Worker};
use crate::{MOST_PASSED_OVER, TaskStore};

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

const GIB: u64 = 1 << 30;

fn worker(store: &Arc<dyn TaskStore>, name: &str, gibibytes: u64) -> Worker {
    let mut worker = Worker::new(store, name);
    worker.capacity = Some(Capacity {
        memory: gibibytes * GIB,
        ..CAPACITY
    });
    worker
}

async fn add_needing(store: &dyn TaskStore, gibibytes: u64, processes: u32) -> TaskId {
    let task = add_with(store, |spec| {
        spec.execute.limits.memory = Some((gibibytes - 1) * GIB);
        spec.execute.limits.space = Some(GIB);
        spec.execute.limits.processes = Some(processes);
    });
    task.await
}

async fn claim(worker: &mut Worker, vacant: u32) -> Vec<TaskId> {
    let assigned = worker.claim(vacant).await;
    assigned.iter().map(|assigned| assigned.handout.task).collect()
}

pub async fn a_task_is_left_to_an_executor_that_has_what_it_needs(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (worker(&store, "small", 4), worker(&store, "large", 16));
    large.claim(0).await;
    let needs_memory = add_needing(&*store, 5, 1).await;
    let needs_processes = add_needing(&*store, 4, CAPACITY.processes + 1).await;
    let fits = add_needing(&*store, 4, CAPACITY.processes).await;
    assert_eq!(claim(&mut small, 5).await, [fits]);
    // Given back, it is claimed again, and still nothing else.
    small.running.clear();
    assert_eq!(claim(&mut small, 5).await, [fits]);
    assert_eq!(claim(&mut large, 5).await, [needs_memory, needs_processes]);
}

/// Also one that no executor can give what it needs: it would wait for ever.
pub async fn the_largest_executor_is_handed_any_task(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (worker(&store, "small", 4), worker(&store, "large", 16));
    large.claim(0).await;
    let huge = add_needing(&*store, 99, 1).await;
    assert_eq!(claim(&mut small, 1).await, []);
    assert_eq!(claim(&mut large, 1).await, [huge]);
    // When there is no larger one any more, it is the largest. A store may learn that a little later.
    large.die().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while claim(&mut small, 1).await != [huge] {
        assert!(Instant::now() < deadline, "no executor is handed the task");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // One of an older version does not say what it has.
    let mut older = Worker::new(&store, "older");
    older.capacity = None;
    let huge = add_needing(&*store, 99, 1).await;
    assert_eq!(claim(&mut older, 1).await, [huge]);
}

pub async fn a_claim_passes_over_a_bounded_number_of_tasks(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (worker(&store, "small", 4), worker(&store, "large", 16));
    large.claim(0).await;
    let mut needing = spec();
    needing.execute.limits.memory = Some(8 * GIB);
    let backlog = (0..MOST_PASSED_OVER + 10).map(|_| new(needing.clone()));
    store.add(backlog.collect()).await.unwrap();
    let fits = add_needing(&*store, 4, 1).await;
    assert_eq!(claim(&mut small, 1).await, []);
    assert_eq!(claim(&mut large, 20).await.len(), 20);
    assert_eq!(claim(&mut small, 1).await, [fits]);
}
