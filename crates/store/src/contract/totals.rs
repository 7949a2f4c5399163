//! Contract cases: totals and the list of executors.

use std::sync::Arc;
use std::time::Duration;

use model::{
    AttemptEnd, ExecutorState, Health, Report, ReportIntent, StatusCounts, StoreAge, TaskQuery, TaskStatus,
};

use super::fake_executor::{CAPACITY, FakeExecutor};
use super::fixtures::{add_task, advance_age, compile_failure, new_task, run_failure, success, task_spec};
use crate::{TaskStore, TaskTotals};

/// Compares the totals with the tasks that a search finds.
async fn check_totals(store: &Arc<dyn TaskStore>) {
    let page = store
        .search(TaskQuery {
            limit: 1000,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(page.next, None);
    let mut counts: StatusCounts = TaskStatus::ALL.into_iter().map(|status| (status, 0)).collect();
    let mut held = 0;
    for summary in page.tasks {
        *counts.get_mut(&summary.status).unwrap() += 1;
        held += u64::from(summary.executor.is_some());
    }
    assert_eq!(store.totals().await.unwrap(), TaskTotals { counts, held });
}

pub async fn totals_match_the_tasks(store: Arc<dyn TaskStore>) {
    let repeated = new_task(task_spec());
    store
        .add(vec![repeated.clone(), new_task(task_spec()), repeated.clone()])
        .await
        .unwrap();
    store.add(vec![repeated]).await.unwrap();
    check_totals(&store).await;
    for _ in 0..10 {
        add_task(&*store).await;
    }
    let mut executor = FakeExecutor::new(&store, "e");
    let handouts: Vec<_> = executor
        .claim(8)
        .await
        .iter()
        .map(|assigned| assigned.attempt_id)
        .collect();
    check_totals(&store).await;
    executor
        .report_status(handouts[0].task, TaskStatus::Compiling)
        .await;
    executor
        .report_status(handouts[1].task, TaskStatus::Running)
        .await;
    check_totals(&store).await;
    executor.finish(handouts[0], compile_failure()).await;
    executor.finish(handouts[1], run_failure()).await;
    executor.finish(handouts[2], success()).await;
    executor
        .end_attempt(handouts[3], AttemptEnd::Broken("no".into()))
        .await;
    check_totals(&store).await;
    store.cancel(handouts[4].task).await.unwrap();
    let waiting = add_task(&*store).await;
    store.cancel(waiting).await.unwrap();
    store.cancel(waiting).await.unwrap();
    check_totals(&store).await;
    for _ in 0..3 {
        executor.expire().await;
        check_totals(&store).await;
        executor.claim(4).await;
        check_totals(&store).await;
    }
    store
        .apply_retention(StoreAge(i64::MAX), StoreAge(0), 3)
        .await
        .unwrap();
    check_totals(&store).await;
    let last_report = Report {
        intent: ReportIntent::Leave,
        ..executor.next_report()
    };
    executor.send(last_report).await;
    check_totals(&store).await;
}

pub async fn an_empty_store_has_zero_totals(store: Arc<dyn TaskStore>) {
    check_totals(&store).await;
    assert_eq!(store.executors().await.unwrap(), []);
    assert_eq!(store.live_sessions().await.unwrap(), []);
}

pub async fn executors_are_listed_with_their_task_counts(store: Arc<dyn TaskStore>) {
    for _ in 0..3 {
        add_task(&*store).await;
    }
    let (mut idle, mut busy) = (
        FakeExecutor::new(&store, "idle"),
        FakeExecutor::new(&store, "busy"),
    );
    let mut report = idle.next_report();
    report.executor_info.slots = 7;
    idle.send(report).await;
    busy.claim(3).await;
    let states = store.executors().await.unwrap();
    let expected = |executor: &FakeExecutor, slots, tasks, state: &ExecutorState| ExecutorState {
        name: executor.name.clone(),
        session: executor.session,
        health: Health::Alive,
        slots,
        tasks,
        host: format!("host-of-{}", executor.name),
        version: "1".into(),
        capacity: Some(CAPACITY),
        tools: Default::default(),
        drain: None,
        load: None,
        since: state.since,
        report_time: state.report_time,
    };
    assert_eq!(
        states,
        [
            expected(&busy, 4, 3, &states[0]),
            expected(&idle, 7, 0, &states[1])
        ]
    );
    let mut report = idle.next_report();
    report.executor_info.version = "2".into();
    idle.send(report).await;
    let later = store.executors().await.unwrap().remove(1);
    assert_eq!((later.version.as_str(), later.since), ("2", states[1].since));
    assert!(later.report_time > states[1].report_time);
}

pub async fn executors_that_ended_long_ago_are_removed(store: Arc<dyn TaskStore>) {
    let (mut gone, mut alive) = (
        FakeExecutor::new(&store, "gone"),
        FakeExecutor::new(&store, "alive"),
    );
    gone.claim(0).await;
    alive.claim(0).await;
    let alive_since = store.age().await.unwrap();
    let gone_since = advance_age(&*store, Duration::from_secs(60)).await;
    store.expire(gone.observed()).await.unwrap();
    // Only the time since the end of the session counts.
    for not_yet in [alive_since, gone_since] {
        assert_eq!(store.remove_ended_executors(not_yet).await.unwrap(), 0);
    }
    assert_eq!(store.remove_ended_executors(StoreAge(i64::MAX)).await.unwrap(), 1);
    let names: Vec<_> = store
        .executors()
        .await
        .unwrap()
        .into_iter()
        .map(|state| state.name)
        .collect();
    assert_eq!(names, [alive.name]);
}
