//! Contract cases: claiming tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use std::time::{Duration, Instant};

use model::{AttemptId, AttemptNumber, Capacity, DrainReason, ExecutorDrain, TaskId, TaskStatus, UnixTime};

use super::fake_executor::{CAPACITY, FakeExecutor};
use super::fixtures::{add_task, add_task_with, get_task, new_task, task_spec};
use crate::{MAX_SKIPPED_TASKS, TaskStore};

pub async fn claims_take_the_highest_priority_then_the_oldest_task(store: Arc<dyn TaskStore>) {
    let mut expected = vec![];
    for priority in [0, 5, -3, 5, i32::MAX, 0, i32::MIN] {
        expected.push((
            priority,
            add_task_with(&*store, |spec| spec.priority = priority).await,
        ));
    }
    expected.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    let mut executor = FakeExecutor::new(&store, "e");
    let mut claimed = vec![];
    for vacant in [3, 1, 10] {
        claimed.extend(
            executor
                .claim(vacant)
                .await
                .iter()
                .map(|assigned| assigned.attempt_id.task),
        );
    }
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(claimed, expected);
}

pub async fn a_claim_takes_no_more_tasks_than_vacant_slots(store: Arc<dyn TaskStore>) {
    for _ in 0..5 {
        add_task(&*store).await;
    }
    let mut executor = FakeExecutor::new(&store, "e");
    assert_eq!(executor.claim(0).await.len(), 0);
    assert_eq!(executor.claim(3).await.len(), 3);
    assert_eq!(executor.claim(3).await.len(), 2);
    assert_eq!(executor.claim(3).await.len(), 0);
}

pub async fn concurrent_claims_assign_each_task_once(store: Arc<dyn TaskStore>) {
    let mut expected = BTreeSet::new();
    for _ in 0..60 {
        expected.insert(add_task(&*store).await);
    }
    let claims = (0..8).map(|index| {
        let mut executor = FakeExecutor::new(&store, &format!("e{index}"));
        #[expect(clippy::disallowed_methods, reason = "part of a test")]
        tokio::spawn(async move { [executor.claim(5).await, executor.claim(5).await].concat() })
    });
    let mut claimed = vec![];
    for claim in claims.collect::<Vec<_>>() {
        claimed.extend(
            claim
                .await
                .unwrap()
                .into_iter()
                .map(|assigned| assigned.attempt_id.task),
        );
    }
    assert_eq!(claimed.len(), 60);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), expected);
}

pub async fn a_claim_is_visible_in_the_task(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let before = get_task(&*store, id).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let mut report = executor.next_report();
    report.vacant = 1;
    let reported = executor.send(report).await;
    assert_eq!(reported.claimed_add_times, [before.add_time]);
    let found = get_task(&*store, id).await;
    let attempt_id = AttemptId {
        task: id,
        session: executor.session,
        attempt: AttemptNumber(1),
    };
    assert_eq!(
        super::fake_executor::instructions(reported).assign[0].attempt_id,
        attempt_id
    );
    assert_eq!(found.executor, Some(executor.name.clone()));
    assert_eq!(
        (found.session, found.attempt),
        (Some(executor.session), AttemptNumber(1))
    );
    assert_eq!(found.status, TaskStatus::Pending);
    assert!(found.start_time.is_some());
    assert_eq!(store.totals().await.unwrap().held, 1);
}

pub async fn a_released_task_keeps_its_place_in_the_queue(store: Arc<dyn TaskStore>) {
    let first = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    let second = add_task(&*store).await;
    executor.expire().await;
    let claimed: Vec<_> = executor
        .claim(2)
        .await
        .iter()
        .map(|assigned| assigned.attempt_id)
        .collect();
    assert_eq!(
        claimed
            .iter()
            .map(|attempt_id| attempt_id.task)
            .collect::<Vec<_>>(),
        [first, second]
    );
    assert_eq!(claimed[0].attempt, AttemptNumber(2));
}

const GIB: u64 = 1 << 30;

fn executor_with_memory(store: &Arc<dyn TaskStore>, name: &str, gibibytes: u64) -> FakeExecutor {
    let mut executor = FakeExecutor::new(store, name);
    executor.capacity = Some(Capacity {
        memory: gibibytes * GIB,
        ..CAPACITY
    });
    executor
}

async fn add_task_needing(store: &dyn TaskStore, gibibytes: u64, processes: u32) -> TaskId {
    let task = add_task_with(store, |spec| {
        spec.execute.limits.memory = Some((gibibytes - 1) * GIB);
        spec.execute.limits.space = Some(GIB);
        spec.execute.limits.processes = Some(processes);
    });
    task.await
}

async fn claim(executor: &mut FakeExecutor, vacant: u32) -> Vec<TaskId> {
    let assigned = executor.claim(vacant).await;
    assigned.iter().map(|assigned| assigned.attempt_id.task).collect()
}

pub async fn a_task_beyond_the_capacity_is_left_to_a_larger_executor(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (
        executor_with_memory(&store, "small", 4),
        executor_with_memory(&store, "large", 16),
    );
    large.claim(0).await;
    let needs_memory = add_task_needing(&*store, 5, 1).await;
    let needs_processes = add_task_needing(&*store, 4, CAPACITY.processes + 1).await;
    let fits = add_task_needing(&*store, 4, CAPACITY.processes).await;
    assert_eq!(claim(&mut small, 5).await, [fits]);
    // After it is released, the executor claims it again and still no other task.
    small.running.clear();
    assert_eq!(claim(&mut small, 5).await, [fits]);
    assert_eq!(claim(&mut large, 5).await, [needs_memory, needs_processes]);
}

/// Even a task that needs more than any executor has, because it would wait for ever.
pub async fn the_largest_executor_claims_any_task(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (
        executor_with_memory(&store, "small", 4),
        executor_with_memory(&store, "large", 16),
    );
    large.claim(0).await;
    let huge = add_task_needing(&*store, 99, 1).await;
    assert_eq!(claim(&mut small, 1).await, []);
    assert_eq!(claim(&mut large, 1).await, [huge]);
    // Without the large executor the small one is the largest. A store may notice that with a delay.
    large.expire().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while claim(&mut small, 1).await != [huge] {
        assert!(Instant::now() < deadline, "no executor claims the task");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // An executor of an older version does not report its capacity.
    let mut older = FakeExecutor::new(&store, "older");
    older.capacity = None;
    let huge = add_task_needing(&*store, 99, 1).await;
    assert_eq!(claim(&mut older, 1).await, [huge]);
}

/// The drained executor would not take it.
pub async fn no_task_is_left_to_a_drained_executor(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (
        executor_with_memory(&store, "small", 4),
        executor_with_memory(&store, "large", 16),
    );
    large.claim(0).await;
    let huge = add_task_needing(&*store, 8, 1).await;
    assert_eq!(claim(&mut small, 1).await, []);
    let drain = ExecutorDrain {
        reason: DrainReason::new("new disk").unwrap(),
        by: None,
        since: UnixTime(1),
    };
    store.set_drain(large.name.clone(), Some(drain)).await.unwrap();
    // A store may notice that with a delay.
    let deadline = Instant::now() + Duration::from_secs(30);
    while claim(&mut small, 1).await != [huge] {
        assert!(Instant::now() < deadline, "no executor claims the task");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub async fn a_claim_skips_a_bounded_number_of_tasks(store: Arc<dyn TaskStore>) {
    let (mut small, mut large) = (
        executor_with_memory(&store, "small", 4),
        executor_with_memory(&store, "large", 16),
    );
    large.claim(0).await;
    let mut needing = task_spec();
    needing.execute.limits.memory = Some(8 * GIB);
    let backlog = (0..MAX_SKIPPED_TASKS + 10).map(|_| new_task(needing.clone()));
    store.add(backlog.collect()).await.unwrap();
    let fits = add_task_needing(&*store, 4, 1).await;
    assert_eq!(claim(&mut small, 1).await, []);
    assert_eq!(claim(&mut large, 20).await.len(), 20);
    assert_eq!(claim(&mut small, 1).await, [fits]);
}
