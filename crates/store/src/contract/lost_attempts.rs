//! Contract cases: lost answers, lost attempts, and executors that stop reporting.

use std::sync::Arc;

use model::{
    AttemptEnd, AttemptNumber, MAX_PLATFORM_FAILURES, Report, ReportAnswer, ReportSeq, SessionId, TaskStatus,
};

use super::MAX_ATTEMPTS;
use super::fake_executor::{FakeExecutor, completed, instructions};
use super::fixtures::{add_task, get_task, success, task_status};
use crate::{ObservedSession, TaskStore};

pub async fn tasks_of_a_lost_answer_are_assigned_again(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    let lost = Report {
        vacant: 1,
        ..executor.next_report()
    };
    let lost = instructions(store.report(lost).await.unwrap()).assign;
    let before = get_task(&*store, id).await;
    // The store assigns the same attempt again until a report names it.
    for _ in 0..5 {
        let again = Report {
            vacant: 1,
            ..executor.next_report()
        };
        let reported = store.report(again).await.unwrap();
        assert!(reported.claimed_add_times.is_empty());
        assert_eq!(instructions(reported).assign, lost);
    }
    assert_eq!(get_task(&*store, id).await, before);
    let arrived = executor.claim(1).await;
    assert_eq!(arrived, lost);
    assert!(executor.claim(1).await.is_empty(), "the report names it now");
    let reported = executor.finish(arrived[0].attempt_id, success()).await;
    assert_eq!(reported.finished.len(), 1);
    assert_eq!(get_task(&*store, id).await.attempt, AttemptNumber(1));
}

pub async fn reassigned_tasks_count_against_vacant_slots(store: Arc<dyn TaskStore>) {
    for _ in 0..5 {
        add_task(&*store).await;
    }
    let mut executor = FakeExecutor::new(&store, "e");
    let lost = Report {
        vacant: 2,
        ..executor.next_report()
    };
    let lost = instructions(store.report(lost).await.unwrap()).assign;
    let next = Report {
        vacant: 3,
        ..executor.next_report()
    };
    let reported = executor.send(next).await;
    assert_eq!(reported.claimed_add_times.len(), 1);
    let answer = instructions(reported);
    assert_eq!(answer.assign[..2], lost);
    assert_eq!(answer.assign.len(), 3);
    // Attempts of a lost answer are assigned again even without vacant slots, because the executor had asked for them.
    let lost = Report {
        vacant: 2,
        ..executor.next_report()
    };
    let lost = instructions(store.report(lost).await.unwrap()).assign;
    assert_eq!(executor.claim(0).await, lost);
}

pub async fn tasks_missing_from_a_report_are_released_without_a_loss(store: Arc<dyn TaskStore>) {
    let (kept, forgotten) = (add_task(&*store).await, add_task(&*store).await);
    let mut executor = FakeExecutor::new(&store, "e");
    assert_eq!(executor.claim(2).await.len(), 2);
    executor.running.retain(|running| running.attempt_id.task == kept);
    let report = executor.next_report();
    let answer = instructions(executor.send(report).await);
    assert!(answer.delete.is_empty() && answer.assign.is_empty());
    let task = get_task(&*store, forgotten).await;
    assert_eq!(
        (task.status, task.executor, task.session),
        (TaskStatus::Retrying, None, None)
    );
    assert_eq!(task.trouble, None);
    assert_eq!(get_task(&*store, kept).await.executor, Some(executor.name));
    assert_eq!(store.totals().await.unwrap().held, 1);
}

pub async fn expiry_requires_the_observed_report_number(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim_one().await;
    let observed = executor.observed();
    assert_eq!(store.live_sessions().await.unwrap(), [executor.observed()]);
    let report = executor.next_report();
    executor.send(report).await;
    let other_session = ObservedSession {
        session: SessionId(uuid::Uuid::now_v7()),
        ..executor.observed()
    };
    let ahead = ObservedSession {
        seq: ReportSeq(99),
        ..executor.observed()
    };
    for wrong in [observed, other_session, ahead] {
        assert_eq!(store.expire(wrong).await.unwrap(), None);
    }
    assert!(get_task(&*store, id).await.executor.is_some());
    assert_eq!(store.expire(executor.observed()).await.unwrap(), Some(1));
    assert_eq!(task_status(&*store, id).await, TaskStatus::Retrying);
    assert_eq!(
        store.expire(executor.observed()).await.unwrap(),
        None,
        "it has ended already"
    );
    assert_eq!(store.live_sessions().await.unwrap(), []);
}

pub async fn a_task_ends_after_too_many_lost_attempts(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    // Three losses: an expiry, an attempt that was running when its executor was killed, and another expiry.
    executor.claim_one().await;
    executor.expire().await;
    let attempt_id = executor.claim_one().await;
    let mut successor = FakeExecutor::new(&store, "e");
    let killed = completed(attempt_id, AttemptEnd::Broken("killed".into()));
    let report = Report {
        succeeds: Some(executor.session),
        complete: vec![killed],
        ..successor.next_report()
    };
    successor.send(report).await;
    assert_eq!(task_status(&*store, id).await, TaskStatus::Retrying);
    let attempt_id = successor.claim_one().await;
    assert_eq!(attempt_id.attempt, AttemptNumber(MAX_ATTEMPTS));
    successor.expire().await;
    let task = get_task(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.attempt),
        (TaskStatus::SystemError, None, AttemptNumber(MAX_ATTEMPTS))
    );
    assert!(task.trouble.unwrap().starts_with("lost 3 times: "));
    assert!(task.finish_time.is_some());
    assert!(successor.claim(1).await.is_empty());
}

pub async fn unstarted_attempts_of_a_restarted_executor_do_not_count_as_losses(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    for _ in 0..2 * MAX_ATTEMPTS {
        executor.claim_one().await;
        let mut successor = FakeExecutor::new(&store, "e");
        let report = Report {
            succeeds: Some(executor.session),
            ..successor.next_report()
        };
        successor.send(report).await;
        assert_eq!(task_status(&*store, id).await, TaskStatus::Retrying);
        executor = successor;
    }
}

pub async fn released_attempts_do_not_count_as_losses(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    for attempt in 1..=2 * MAX_ATTEMPTS {
        let attempt_id = executor.claim_one().await;
        assert_eq!(attempt_id.attempt, AttemptNumber(attempt));
        executor.running.clear();
        executor.claim(0).await;
        assert_eq!(task_status(&*store, id).await, TaskStatus::Retrying);
    }
    assert!(matches!(
        store.report(executor.next_report()).await.unwrap().answer,
        ReportAnswer::Done(_)
    ));
}

/// Claims the only task and reports a platform failure, once for each number of earlier failures in the range. Each
/// assignment must name that number.
pub async fn report_platform_failures(executor: &mut FakeExecutor, earlier: std::ops::Range<u32>) {
    for earlier in earlier {
        let assigned = executor.claim(1).await;
        assert_eq!(assigned.len(), 1, "after {earlier} failures");
        assert_eq!(assigned[0].platform_losses, earlier);
        let attempt_id = assigned[0].attempt_id;
        let end = AttemptEnd::PlatformFailure(format!("no warden in {}", earlier + 1));
        let reported = executor.end_attempt(attempt_id, end).await;
        assert!(reported.finished.is_empty());
        assert_eq!(instructions(reported).delete, [attempt_id]);
    }
}

pub async fn platform_failures_do_not_count_as_losses(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    report_platform_failures(&mut executor, 0..MAX_PLATFORM_FAILURES - 1).await;
    let task = get_task(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.attempt),
        (
            TaskStatus::Retrying,
            None,
            AttemptNumber(MAX_PLATFORM_FAILURES - 1)
        )
    );
    assert_eq!(task.trouble.as_deref(), Some("no warden in 9"));
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, success()).await;
    let task = get_task(&*store, id).await;
    assert_eq!((task.status, task.trouble), (TaskStatus::Success, None));
    assert_eq!(task.attempt, AttemptNumber(MAX_PLATFORM_FAILURES));
}

pub async fn losses_and_platform_failures_are_counted_separately(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    report_platform_failures(&mut executor, 0..4).await;
    for _ in 1..MAX_ATTEMPTS {
        let attempt_id = executor.claim_one().await;
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("its slot hung".into()))
            .await;
    }
    report_platform_failures(&mut executor, 4..MAX_PLATFORM_FAILURES - 1).await;
    assert_eq!(task_status(&*store, id).await, TaskStatus::Retrying);
    executor.claim_one().await;
    executor.expire().await;
    let task = get_task(&*store, id).await;
    assert_eq!(task.status, TaskStatus::SystemError);
    assert!(task.trouble.unwrap().starts_with("lost 3 times: "));
}

pub async fn a_task_ends_after_too_many_platform_failures(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    // A loss does not count as a platform failure.
    executor.claim_one().await;
    executor.expire().await;
    report_platform_failures(&mut executor, 0..MAX_PLATFORM_FAILURES).await;
    let task = get_task(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.result),
        (TaskStatus::SystemError, None, None)
    );
    assert!(task.finish_time.is_some());
    assert_eq!(
        task.trouble.as_deref(),
        Some("the platform failed to run it 10 times: no warden in 10")
    );
    assert!(executor.claim(1).await.is_empty());
    assert_eq!(store.totals().await.unwrap().held, 0);
}
