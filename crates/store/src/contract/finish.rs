//! Contract cases: statuses and results that executors report.

use std::sync::Arc;

use model::{AttemptEnd, AttemptNumber, Report, TaskStatus};

use super::MAX_ATTEMPTS;
use super::fake_executor::{FakeExecutor, completed, instructions};
use super::fixtures::{add_task, compile_failure, get_task, run_failure, success, task_status};
use crate::TaskStore;

pub async fn results_are_committed(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    for (result, expected) in [
        (success(), TaskStatus::Success),
        (run_failure(), TaskStatus::RunFailed),
        (compile_failure(), TaskStatus::CompileFailed),
    ] {
        let id = add_task(&*store).await;
        let attempt_id = executor.claim_one().await;
        executor.report_status(id, TaskStatus::Compiling).await;
        let reported = executor.finish(attempt_id, result.clone()).await;
        assert_eq!(reported.finished.len(), 1);
        let finished = reported.finished[0];
        assert_eq!(
            (finished.task, finished.attempt),
            (attempt_id.task, attempt_id.attempt)
        );
        assert_eq!(instructions(reported).delete, [attempt_id]);
        let task = get_task(&*store, id).await;
        assert_eq!((task.status, task.result), (expected, Some(result)));
        assert_eq!(
            (task.executor, task.session, task.attempt),
            (None, None, AttemptNumber(1))
        );
        assert_eq!(
            (task.start_time, task.finish_time),
            (Some(finished.start_time), Some(finished.finish_time))
        );
        assert!(task.report_time.is_some() && finished.start_time <= finished.finish_time);
    }
}

pub async fn a_task_may_finish_without_a_status_report(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    for result in [success(), run_failure(), compile_failure()] {
        let id = add_task(&*store).await;
        let attempt_id = executor.claim_one().await;
        executor.finish(attempt_id, result.clone()).await;
        assert_eq!(task_status(&*store, id).await, result.status());
    }
}

pub async fn a_status_never_goes_back_to_an_earlier_step(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    for (reported_status, expected) in [
        (TaskStatus::Compiling, TaskStatus::Compiling),
        (TaskStatus::Compiling, TaskStatus::Compiling),
        (TaskStatus::Running, TaskStatus::Running),
        (TaskStatus::Compiling, TaskStatus::Running),
    ] {
        let answer = executor.report_status(id, reported_status).await;
        assert!(answer.delete.is_empty());
        let task = get_task(&*store, id).await;
        assert_eq!(task.status, expected);
        assert!(task.report_time.is_some());
    }
    executor.finish(attempt_id, success()).await;
    assert_eq!(task_status(&*store, id).await, TaskStatus::Success);
}

pub async fn a_terminal_status_without_a_result_is_ignored(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    for reported_status in [
        TaskStatus::Success,
        TaskStatus::Cancelled,
        TaskStatus::Retrying,
        TaskStatus::SystemError,
        TaskStatus::Pending,
    ] {
        executor.report_status(id, reported_status).await;
        assert_eq!(task_status(&*store, id).await, TaskStatus::Pending);
    }
}

pub async fn a_result_that_contradicts_the_status_counts_as_a_loss(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    for _ in 0..MAX_ATTEMPTS {
        assert!(!task_status(&*store, id).await.is_done());
        let attempt_id = executor.claim_one().await;
        executor.report_status(id, TaskStatus::Running).await;
        // A running task has been compiled, so its compile step cannot fail.
        let reported = executor.finish(attempt_id, compile_failure()).await;
        assert!(reported.finished.is_empty());
        assert_eq!(instructions(reported).delete, [attempt_id]);
    }
    let task = get_task(&*store, id).await;
    assert_eq!((task.status, task.result), (TaskStatus::SystemError, None));
}

pub async fn a_repeated_report_commits_its_results_once(store: Arc<dyn TaskStore>) {
    add_task(&*store).await;
    let waiting = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.running.clear();
    let report = Report {
        complete: vec![completed(attempt_id, AttemptEnd::Result(success()))],
        vacant: 1,
        ..executor.next_report()
    };
    let first = store.report(report.clone()).await.unwrap();
    let before = get_task(&*store, attempt_id.task).await;
    let second = store.report(report).await.unwrap();
    assert_eq!((first.finished.len(), second.finished.len()), (1, 0));
    assert_eq!(
        (first.claimed_add_times.len(), second.claimed_add_times.len()),
        (1, 0)
    );
    assert_eq!(get_task(&*store, attempt_id.task).await, before);
    let (first, second) = (instructions(first), instructions(second));
    assert_eq!(first, second);
    assert_eq!(first.delete, [attempt_id]);
    assert_eq!(first.assign[0].attempt_id.task, waiting);
}

pub async fn a_broken_attempt_is_retried(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let (mut bad, mut good) = (
        FakeExecutor::new(&store, "bad"),
        FakeExecutor::new(&store, "good"),
    );
    let attempt_id = bad.claim_one().await;
    let reported = bad
        .end_attempt(
            attempt_id,
            AttemptEnd::Broken("no space for the workspace".into()),
        )
        .await;
    assert!(reported.finished.is_empty());
    assert_eq!(instructions(reported).delete, [attempt_id]);
    let task = get_task(&*store, id).await;
    assert_eq!((task.status, task.executor), (TaskStatus::Retrying, None));
    assert!(task.trouble.unwrap().contains("no space for the workspace"));
    let attempt_id = good.claim_one().await;
    assert_eq!(attempt_id.attempt, AttemptNumber(2));
    good.finish(attempt_id, success()).await;
    let task = get_task(&*store, id).await;
    assert_eq!((task.status, task.trouble), (TaskStatus::Success, None));
}

pub async fn a_task_ends_after_too_many_broken_attempts(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    for attempt in 1..=MAX_ATTEMPTS {
        assert!(!task_status(&*store, id).await.is_done());
        let attempt_id = executor.claim_one().await;
        assert_eq!(attempt_id.attempt, AttemptNumber(attempt));
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("no cell".into()))
            .await;
    }
    let task = get_task(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.result),
        (TaskStatus::SystemError, None, None)
    );
    assert!(task.finish_time.is_some());
    assert_eq!(task.trouble.as_deref(), Some("lost 3 times: no cell"));
    assert!(executor.claim(1).await.is_empty());
}
