//! Contract cases: where the attempts of a task ran, how they ended, and how many there may be.

use std::sync::Arc;

use model::{AttemptEnd, AttemptNumber, AttemptRecord, RecordedEnd, TaskId, TaskStatus};

use super::MAX_ATTEMPTS;
use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task, add_task_with, get_task, success};
use crate::TaskStore;

/// The executor, number and end of each recorded attempt.
async fn ends(store: &Arc<dyn TaskStore>, id: TaskId) -> Vec<(String, u32, Option<RecordedEnd>)> {
    let task = get_task(&**store, id).await;
    for record in &task.ran_on {
        let end = record.end.map(|(time, _)| time);
        assert!(record.start_time >= task.add_time && end.is_none_or(|end| end >= record.start_time));
    }
    let record = |record: &AttemptRecord| {
        let end = record.end.map(|(_, end)| end);
        (record.executor.to_string(), record.attempt.0, end)
    };
    task.ran_on.iter().map(record).collect()
}

pub async fn a_finished_attempt_is_recorded(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    assert_eq!(ends(&store, id).await, [], "it has not begun");
    executor.report_status(id, TaskStatus::Running).await;
    assert_eq!(ends(&store, id).await, [("e".to_string(), 1, None)]);
    executor.finish(attempt_id, success()).await;
    let task = get_task(&*store, id).await;
    let expected = AttemptRecord {
        executor: executor.name.clone(),
        attempt: AttemptNumber(1),
        start_time: task.start_time.unwrap(),
        end: task.finish_time.map(|time| (time, RecordedEnd::Finished)),
    };
    assert_eq!(task.ran_on, [expected]);
}

pub async fn every_end_of_an_attempt_is_recorded(store: Arc<dyn TaskStore>) {
    use RecordedEnd::*;
    let id = add_task_with(&*store, |spec| spec.attempts = Some(10)).await;
    let mut executor = FakeExecutor::new(&store, "e");
    // Given back before it began: that is no attempt that ran.
    executor.claim_one().await;
    executor.running.clear();
    executor.claim(0).await;
    assert_eq!(ends(&store, id).await, []);
    // Given back while it ran.
    executor.claim_one().await;
    executor.report_status(id, TaskStatus::Running).await;
    executor.running.clear();
    executor.claim(0).await;
    // Lost with its executor.
    executor.claim_one().await;
    executor.expire().await;
    for end in [
        AttemptEnd::Broken("hung".into()),
        AttemptEnd::PlatformFailure("no warden".into()),
    ] {
        let attempt_id = executor.claim_one().await;
        executor.end_attempt(attempt_id, end).await;
    }
    let mut other = FakeExecutor::new(&store, "other");
    other.claim_one().await;
    other.report_status(id, TaskStatus::Compiling).await;
    let record = |(name, attempt, end): (&str, u32, Option<RecordedEnd>)| (name.to_string(), attempt, end);
    let mut expected = [
        ("e", 2, Some(GivenBack)),
        ("e", 3, Some(Lost)),
        ("e", 4, Some(Lost)),
        ("e", 5, Some(Broken)),
        ("other", 6, None),
    ]
    .map(record);
    assert_eq!(ends(&store, id).await, expected);
    store.cancel(id).await.unwrap();
    expected[4].2 = Some(Cancelled);
    assert_eq!(ends(&store, id).await, expected);
    let task = get_task(&*store, id).await;
    assert_eq!(
        task.ran_on[4].end.map(|(time, _)| time),
        task.finish_time,
        "the attempt ended with the task"
    );
}

pub async fn an_attempt_that_had_not_begun_is_not_recorded_as_cancelled(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    store.cancel_many(vec![id]).await.unwrap();
    assert_eq!(ends(&store, id).await, []);
}

pub async fn the_attempts_of_a_task_that_was_given_up_are_recorded(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    for _ in 0..MAX_ATTEMPTS {
        executor.claim_one().await;
        executor.expire().await;
    }
    let lost = |attempt| ("e".to_string(), attempt, Some(RecordedEnd::Lost));
    assert_eq!(get_task(&*store, id).await.status, TaskStatus::SystemError);
    assert_eq!(ends(&store, id).await, [1, 2, 3].map(lost));
}

pub async fn only_the_newest_attempts_are_kept(store: Arc<dyn TaskStore>) {
    let bound = AttemptRecord::MAX_COUNT as u32;
    let id = add_task_with(&*store, |spec| spec.attempts = Some(100)).await;
    let mut executor = FakeExecutor::new(&store, "e");
    for _ in 0..bound + 2 {
        let attempt_id = executor.claim_one().await;
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("no".into()))
            .await;
    }
    let lost = |attempt| ("e".to_string(), attempt, Some(RecordedEnd::Lost));
    let newest: Vec<_> = (3..=bound + 2).map(lost).collect();
    assert_eq!(ends(&store, id).await, newest);
    let attempt_id = executor.claim_one().await;
    executor.report_status(id, TaskStatus::Running).await;
    let running = ("e".to_string(), bound + 3, None);
    let newest = [&newest[1..], &[running]].concat();
    assert_eq!(ends(&store, id).await, newest);
    executor.finish(attempt_id, success()).await;
    assert_eq!(ends(&store, id).await.len(), bound as usize);
}

pub async fn a_task_may_have_its_own_bound_on_attempts(store: Arc<dyn TaskStore>) {
    for bound in [1, MAX_ATTEMPTS + 2] {
        let id = add_task_with(&*store, |spec| spec.attempts = Some(bound)).await;
        let mut executor = FakeExecutor::new(&store, "e");
        for attempt in 1..=bound {
            executor.claim_one().await;
            executor.expire().await;
            let task = get_task(&*store, id).await;
            assert_eq!(task.status.is_done(), attempt == bound, "{task:?}");
        }
        assert_eq!(get_task(&*store, id).await.status, TaskStatus::SystemError);
    }
}
