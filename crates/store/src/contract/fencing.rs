//! Contract cases: which sessions may report, and that stale ones change nothing.

use std::sync::Arc;

use model::{
    AttemptEnd, AttemptId, AttemptNumber, ExecutingAttempt, Health, Report, ReportAnswer, ReportIntent,
    ReportSeq, SessionId, TaskId, TaskStatus,
};

use super::fake_executor::{CAPACITY, FakeExecutor, completed, instructions};
use super::fixtures::{add_task, attempt_result, get_task, success, task_status};
use crate::TaskStore;

pub async fn an_older_report_is_stale(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    let delayed = Report {
        vacant: 1,
        ..executor.next_report()
    };
    let attempt_id = executor.claim_one().await;
    let before = get_task(&*store, id).await;
    let reported = store.report(delayed).await.unwrap();
    assert_eq!(reported.answer, ReportAnswer::Stale);
    // If the store had applied the old report, it would have released the task, which the report does not name.
    assert_eq!(get_task(&*store, id).await, before);
    executor.finish(attempt_id, success()).await;
    assert_eq!(task_status(&*store, id).await, TaskStatus::Success);
}

pub async fn a_report_of_an_unknown_session_is_answered_ended(store: Arc<dyn TaskStore>) {
    add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.next_report();
    let report = Report {
        vacant: 1,
        ..executor.next_report()
    };
    assert_eq!(store.report(report).await.unwrap().answer, ReportAnswer::Ended);
    assert_eq!(store.executors().await.unwrap(), []);
    assert_eq!(store.totals().await.unwrap().held, 0);
}

pub async fn a_second_live_session_with_the_same_name_is_refused(store: Arc<dyn TaskStore>) {
    add_task(&*store).await;
    let mut first = FakeExecutor::new(&store, "e");
    let attempt_id = first.claim_one().await;
    let state = store.executors().await.unwrap().remove(0);
    assert_eq!(state.capacity, Some(CAPACITY));
    let mut second = FakeExecutor::new(&store, "e");
    let refused = store
        .report(Report {
            vacant: 1,
            ..second.next_report()
        })
        .await
        .unwrap();
    assert_eq!(
        refused.answer,
        ReportAnswer::Occupied {
            host: "host-of-e".into(),
            since: state.since
        }
    );
    let unrelated = Report {
        succeeds: Some(SessionId(uuid::Uuid::now_v7())),
        ..second.next_report()
    };
    let unrelated = Report {
        seq: ReportSeq(1),
        ..unrelated
    };
    let refused = store.report(unrelated).await.unwrap();
    assert!(matches!(refused.answer, ReportAnswer::Occupied { .. }));
    // The first session is not affected.
    first.finish(attempt_id, success()).await;
    assert_eq!(task_status(&*store, attempt_id.task).await, TaskStatus::Success);
}

pub async fn a_restarted_executor_delivers_results_and_releases_the_rest(store: Arc<dyn TaskStore>) {
    let (ended, broken, dropped) = (
        add_task(&*store).await,
        add_task(&*store).await,
        add_task(&*store).await,
    );
    let mut former = FakeExecutor::new(&store, "e");
    let handouts: Vec<_> = former
        .claim(3)
        .await
        .iter()
        .map(|assigned| assigned.attempt_id)
        .collect();
    let mut successor = FakeExecutor::new(&store, "e");
    let complete = vec![
        completed(
            handouts[0],
            AttemptEnd::Result(attempt_result(AttemptNumber(1), "spooled")),
        ),
        completed(handouts[1], AttemptEnd::Broken("the spool says so".into())),
    ];
    let report = Report {
        succeeds: Some(former.session),
        complete,
        ..successor.next_report()
    };
    let reported = store.report(report.clone()).await.unwrap();
    assert_eq!(reported.finished.len(), 1);
    assert_eq!(instructions(reported).delete, handouts[..2]);
    assert_eq!(
        get_task(&*store, ended).await.result,
        Some(attempt_result(AttemptNumber(1), "spooled"))
    );
    let lost = get_task(&*store, broken).await;
    assert_eq!((lost.status, &lost.executor), (TaskStatus::Retrying, &None));
    assert!(lost.trouble.is_some(), "it was lost, for a reason");
    let waited = get_task(&*store, dropped).await;
    assert_eq!((waited.status, &waited.executor), (TaskStatus::Retrying, &None));
    assert_eq!(waited.trouble, None, "it had not begun");
    // The executor repeats a report whose answer it did not receive. That causes no further loss.
    let again = store.report(report).await.unwrap();
    assert!(again.finished.is_empty());
    assert_eq!(instructions(again).delete, handouts[..2]);
    assert_eq!(get_task(&*store, broken).await, lost);
    assert_eq!(get_task(&*store, dropped).await, waited);
    // The former session has ended.
    let late = store.report(former.next_report()).await.unwrap();
    assert_eq!(late.answer, ReportAnswer::Ended);
    let sessions = store.live_sessions().await.unwrap();
    assert_eq!(sessions, [successor.observed()]);
}

pub async fn a_session_that_left_is_answered_ended(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    let last_report = Report {
        intent: ReportIntent::Leave,
        ..executor.next_report()
    };
    executor.send(last_report.clone()).await;
    assert_eq!(store.live_sessions().await.unwrap(), []);
    assert_eq!(store.executors().await.unwrap()[0].health, Health::Gone);
    for late in [last_report, executor.next_report()] {
        assert_eq!(store.report(late).await.unwrap().answer, ReportAnswer::Ended);
    }
    // A new session can open at once.
    FakeExecutor::new(&store, "e").claim(0).await;
    assert_eq!(store.executors().await.unwrap()[0].health, Health::Alive);
}

pub async fn leaving_releases_all_held_tasks(store: Arc<dyn TaskStore>) {
    for _ in 0..3 {
        add_task(&*store).await;
    }
    let waiting = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let handouts: Vec<_> = executor
        .claim(3)
        .await
        .iter()
        .map(|assigned| assigned.attempt_id)
        .collect();
    // The first attempt has ended, the second still runs, and the report does not name the third.
    let last_report = Report {
        intent: ReportIntent::Leave,
        vacant: 4,
        complete: vec![completed(handouts[0], AttemptEnd::Result(success()))],
        executing: vec![ExecutingAttempt {
            attempt_id: handouts[1],
            status: None,
        }],
        ..executor.next_report()
    };
    let reported = store.report(last_report).await.unwrap();
    assert!(reported.claimed_add_times.is_empty());
    let answer = instructions(reported);
    assert!(answer.assign.is_empty());
    assert_eq!(answer.delete, handouts[..2]);
    assert_eq!(task_status(&*store, handouts[0].task).await, TaskStatus::Success);
    for attempt_id in &handouts[1..] {
        let task = get_task(&*store, attempt_id.task).await;
        assert_eq!(
            (task.status, task.executor, task.trouble),
            (TaskStatus::Retrying, None, None)
        );
    }
    assert_eq!(task_status(&*store, waiting).await, TaskStatus::Pending);
}

pub async fn an_expired_session_is_answered_ended(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    assert_eq!(store.expire(executor.observed()).await.unwrap(), Some(1));
    assert_eq!(store.executors().await.unwrap()[0].health, Health::Gone);
    let late = Report {
        complete: vec![completed(attempt_id, AttemptEnd::Result(success()))],
        vacant: 1,
        ..executor.next_report()
    };
    assert_eq!(
        store.report(late.clone()).await.unwrap().answer,
        ReportAnswer::Ended
    );
    let before = get_task(&*store, id).await;
    assert_eq!(before.status, TaskStatus::Retrying);
    // The new session delivers the result, but the attempt was already released as lost.
    let mut next = FakeExecutor::new(&store, "e");
    let report = Report {
        succeeds: Some(executor.session),
        complete: late.complete,
        ..next.next_report()
    };
    let reported = next.send(report).await;
    assert!(reported.finished.is_empty());
    assert_eq!(instructions(reported).delete, [attempt_id]);
    assert_eq!(get_task(&*store, id).await, before);
}

pub async fn only_the_current_holder_can_finish_a_task(store: Arc<dyn TaskStore>) {
    let id = add_task(&*store).await;
    let mut lost = FakeExecutor::new(&store, "e");
    let first = lost.claim_one().await;
    lost.expire().await;
    let second = lost.claim_one().await;
    assert_eq!(second.attempt, AttemptNumber(2));
    let mut other = FakeExecutor::new(&store, "other");
    // The right attempt from the wrong executor; then a wrong attempt and a wrong session from the right executor.
    let reported = other
        .finish(second, attempt_result(AttemptNumber(9), "thief"))
        .await;
    assert_eq!(
        (reported.finished.len(), instructions(reported).delete),
        (0, vec![second])
    );
    let mixed = AttemptId {
        attempt: first.attempt,
        ..second
    };
    let former = AttemptId {
        session: first.session,
        ..second
    };
    for wrong in [first, mixed, former] {
        let report = Report {
            complete: vec![completed(wrong, AttemptEnd::Result(success()))],
            executing: vec![ExecutingAttempt {
                attempt_id: second,
                status: None,
            }],
            ..lost.next_report()
        };
        let reported = lost.send(report).await;
        assert_eq!(
            (reported.finished.len(), instructions(reported).delete),
            (0, vec![wrong])
        );
    }
    lost.finish(second, attempt_result(AttemptNumber(2), "right"))
        .await;
    assert_eq!(
        get_task(&*store, id).await.result,
        Some(attempt_result(AttemptNumber(2), "right"))
    );
}

pub async fn executing_attempts_that_are_not_held_are_deleted(store: Arc<dyn TaskStore>) {
    add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let held = executor.claim_one().await;
    let unknown = AttemptId {
        task: TaskId(uuid::Uuid::now_v7()),
        ..held
    };
    let other_session = AttemptId {
        session: SessionId(uuid::Uuid::now_v7()),
        ..held
    };
    let other_attempt = AttemptId {
        attempt: AttemptNumber(2),
        ..held
    };
    let executing = |attempt_id| ExecutingAttempt {
        attempt_id,
        status: Some(TaskStatus::Running),
    };
    let report = Report {
        executing: [unknown, held, other_session, other_attempt]
            .map(executing)
            .to_vec(),
        ..executor.next_report()
    };
    let answer = instructions(executor.send(report).await);
    assert_eq!(answer.delete, [unknown, other_session, other_attempt]);
    assert_eq!(task_status(&*store, held.task).await, TaskStatus::Running);
}

pub async fn an_executor_name_is_free_after_expiry(store: Arc<dyn TaskStore>) {
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(0).await;
    let former = executor.session;
    executor.expire().await;
    executor.claim(0).await;
    let sessions = store.live_sessions().await.unwrap();
    assert_eq!(sessions, [executor.observed()]);
    assert_ne!(sessions[0].session, former);
}

/// A restarted executor may have results that it cannot report yet, because it still uploads their blobs. It lists their
/// attempts as executing, under their earlier session.
pub async fn a_restarted_executor_keeps_the_attempts_that_it_names(store: Arc<dyn TaskStore>) {
    let (named, unnamed) = (add_task(&*store).await, add_task(&*store).await);
    let mut former = FakeExecutor::new(&store, "e");
    let handouts: Vec<_> = former
        .claim(2)
        .await
        .iter()
        .map(|assigned| assigned.attempt_id)
        .collect();
    let mut successor = FakeExecutor::new(&store, "e");
    successor.running = vec![ExecutingAttempt {
        attempt_id: handouts[0],
        status: Some(TaskStatus::Running),
    }];
    let report = Report {
        succeeds: Some(former.session),
        ..successor.next_report()
    };
    // The answer may be lost, so the report comes twice.
    let answer = instructions(store.report(report.clone()).await.unwrap());
    assert_eq!(answer.delete, []);
    assert_eq!(instructions(successor.send(report).await).delete, []);
    let task = get_task(&*store, named).await;
    assert_eq!(
        (task.status, task.session),
        (TaskStatus::Running, Some(former.session))
    );
    let released = get_task(&*store, unnamed).await;
    assert_eq!((released.status, released.session), (TaskStatus::Retrying, None));
    let answer = instructions(successor.finish(handouts[0], success()).await);
    assert_eq!(answer.delete, [handouts[0]]);
    assert_eq!(get_task(&*store, named).await.result, Some(success()));
}

/// What a restarted executor holds of its earlier session is released like everything else that it holds.
pub async fn attempts_of_an_earlier_session_are_released(store: Arc<dyn TaskStore>) {
    for way in ["unnamed", "leave", "expire"] {
        let id = add_task(&*store).await;
        let mut former = FakeExecutor::new(&store, "e");
        let attempt_id = former.claim_one().await;
        let mut successor = FakeExecutor::new(&store, "e");
        successor.running = former.running.clone();
        let report = Report {
            succeeds: Some(former.session),
            ..successor.next_report()
        };
        successor.send(report).await;
        assert!(get_task(&*store, id).await.session.is_some(), "{way}");
        match way {
            // No session can run it any more, so it is not handed out again.
            "unnamed" => {
                successor.running.clear();
                assert_eq!(successor.claim(0).await, []);
            }
            "leave" => {
                let report = Report {
                    intent: ReportIntent::Leave,
                    ..successor.next_report()
                };
                let answer = instructions(successor.send(report).await);
                assert_eq!(answer.delete, [attempt_id]);
            }
            _ => successor.expire().await,
        }
        let task = get_task(&*store, id).await;
        assert_eq!((task.status, task.session), (TaskStatus::Retrying, None), "{way}");
        store.cancel(id).await.unwrap();
        if way == "unnamed" {
            successor.expire().await;
        }
    }
}
