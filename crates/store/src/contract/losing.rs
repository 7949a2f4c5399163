//! Answers, attempts and executors that get lost.

use std::sync::Arc;

use model::{Attempt, Complete, End, MAX_PLATFORM_LOSSES, Report, ReportAnswer, Seq, SessionId, Status};

use super::LOSSES;
use super::sample::{add_one, get, status, success};
use super::worker::{Worker, done};
use crate::{SessionSeen, TaskStore};

pub async fn a_lost_answer_is_handed_out_again(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim(0).await;
    let lost = Report {
        vacant: 1,
        ..worker.next_report()
    };
    let lost = done(store.report(lost).await.unwrap()).assign;
    let before = get(&*store, id).await;
    // However often it is lost: the same attempt, until a report names it.
    for _ in 0..5 {
        let again = Report {
            vacant: 1,
            ..worker.next_report()
        };
        let reported = store.report(again).await.unwrap();
        assert!(reported.claimed.is_empty());
        assert_eq!(done(reported).assign, lost);
    }
    assert_eq!(get(&*store, id).await, before);
    let arrived = worker.claim(1).await;
    assert_eq!(arrived, lost);
    assert!(worker.claim(1).await.is_empty(), "it is named now");
    let reported = worker.finish(arrived[0].handout, success()).await;
    assert_eq!(reported.finished.len(), 1);
    assert_eq!(get(&*store, id).await.attempt, Attempt(1));
}

pub async fn handing_out_again_uses_up_vacancy(store: Arc<dyn TaskStore>) {
    for _ in 0..5 {
        add_one(&*store).await;
    }
    let mut worker = Worker::new(&store, "e");
    let lost = Report {
        vacant: 2,
        ..worker.next_report()
    };
    let lost = done(store.report(lost).await.unwrap()).assign;
    let next = Report {
        vacant: 3,
        ..worker.next_report()
    };
    let reported = worker.deliver(next).await;
    assert_eq!(reported.claimed.len(), 1);
    let answer = done(reported);
    assert_eq!(answer.assign[..2], lost);
    assert_eq!(answer.assign.len(), 3);
    // Lost ones come even if there seems to be no room: the executor was given them.
    let lost = Report {
        vacant: 2,
        ..worker.next_report()
    };
    let lost = done(store.report(lost).await.unwrap()).assign;
    assert_eq!(worker.claim(0).await, lost);
}

pub async fn unnamed_tasks_are_given_back_without_a_loss(store: Arc<dyn TaskStore>) {
    let (kept, forgotten) = (add_one(&*store).await, add_one(&*store).await);
    let mut worker = Worker::new(&store, "e");
    assert_eq!(worker.claim(2).await.len(), 2);
    worker.running.retain(|running| running.handout.task == kept);
    let report = worker.next_report();
    let answer = done(worker.deliver(report).await);
    assert!(answer.delete.is_empty() && answer.assign.is_empty());
    let task = get(&*store, forgotten).await;
    assert_eq!(
        (task.status, task.executor, task.session),
        (Status::Retrying, None, None)
    );
    assert_eq!(task.trouble, None);
    assert_eq!(get(&*store, kept).await.executor, Some(worker.name));
    assert_eq!(store.totals().await.unwrap().held, 1);
}

pub async fn expiry_needs_the_seq_that_was_seen(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim_one().await;
    let seen = worker.seen();
    assert_eq!(store.live_sessions().await.unwrap(), [worker.seen()]);
    let report = worker.next_report();
    worker.deliver(report).await;
    let other_session = SessionSeen {
        session: SessionId::generate(),
        ..worker.seen()
    };
    let ahead = SessionSeen {
        seq: Seq(99),
        ..worker.seen()
    };
    for wrong in [seen, other_session, ahead] {
        assert_eq!(store.expire(wrong).await.unwrap(), None);
    }
    assert!(get(&*store, id).await.executor.is_some());
    assert_eq!(store.expire(worker.seen()).await.unwrap(), Some(1));
    assert_eq!(status(&*store, id).await, Status::Retrying);
    assert_eq!(
        store.expire(worker.seen()).await.unwrap(),
        None,
        "it has ended already"
    );
    assert_eq!(store.live_sessions().await.unwrap(), []);
}

pub async fn attempts_run_out(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    // One by expiry, one that was running when its executor was killed, one by expiry: all are losses.
    worker.claim_one().await;
    worker.die().await;
    let handout = worker.claim_one().await;
    let mut successor = Worker::new(&store, "e");
    let killed = Complete {
        handout,
        end: End::Broken("killed".into()),
    };
    let report = Report {
        succeeds: Some(worker.session),
        complete: vec![killed],
        ..successor.next_report()
    };
    successor.deliver(report).await;
    assert_eq!(status(&*store, id).await, Status::Retrying);
    let handout = successor.claim_one().await;
    assert_eq!(handout.attempt, Attempt(LOSSES));
    successor.die().await;
    let task = get(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.attempt),
        (Status::SystemError, None, Attempt(LOSSES))
    );
    assert!(task.trouble.unwrap().starts_with("lost 3 times: "));
    assert!(task.finish_time.is_some());
    assert!(successor.claim(1).await.is_empty());
}

pub async fn attempts_that_a_restart_finds_unbegun_do_not_run_out(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    for _ in 0..2 * LOSSES {
        worker.claim_one().await;
        let mut successor = Worker::new(&store, "e");
        let report = Report {
            succeeds: Some(worker.session),
            ..successor.next_report()
        };
        successor.deliver(report).await;
        assert_eq!(status(&*store, id).await, Status::Retrying);
        worker = successor;
    }
}

pub async fn given_back_attempts_do_not_run_out(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    for attempt in 1..=2 * LOSSES {
        let handout = worker.claim_one().await;
        assert_eq!(handout.attempt, Attempt(attempt));
        worker.running.clear();
        worker.claim(0).await;
        assert_eq!(status(&*store, id).await, Status::Retrying);
    }
    assert!(matches!(
        store.report(worker.next_report()).await.unwrap().answer,
        ReportAnswer::Done(_)
    ));
}

/// Claims the one task and reports that it could not be run, once for each number of earlier failures, which the
/// assignment must name.
pub async fn report_platform_failures(worker: &mut Worker, earlier: std::ops::Range<u32>) {
    for earlier in earlier {
        let assigned = worker.claim(1).await;
        assert_eq!(assigned.len(), 1, "after {earlier} failures");
        assert_eq!(assigned[0].platform_losses, earlier);
        let handout = assigned[0].handout;
        let end = End::PlatformFailure(format!("no warden in {}", earlier + 1));
        let reported = worker.end(handout, end).await;
        assert!(reported.finished.is_empty());
        assert_eq!(done(reported).delete, [handout]);
    }
}

pub async fn platform_failures_use_up_no_attempts(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    report_platform_failures(&mut worker, 0..MAX_PLATFORM_LOSSES - 1).await;
    let task = get(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.attempt),
        (Status::Retrying, None, Attempt(MAX_PLATFORM_LOSSES - 1))
    );
    assert_eq!(task.trouble.as_deref(), Some("no warden in 9"));
    let handout = worker.claim_one().await;
    worker.finish(handout, success()).await;
    let task = get(&*store, id).await;
    assert_eq!((task.status, task.trouble), (Status::Success, None));
    assert_eq!(task.attempt, Attempt(MAX_PLATFORM_LOSSES));
}

pub async fn each_kind_of_loss_is_counted_for_itself(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    report_platform_failures(&mut worker, 0..4).await;
    for _ in 1..LOSSES {
        let handout = worker.claim_one().await;
        worker.end(handout, End::Broken("its slot hung".into())).await;
    }
    report_platform_failures(&mut worker, 4..MAX_PLATFORM_LOSSES - 1).await;
    assert_eq!(status(&*store, id).await, Status::Retrying);
    worker.claim_one().await;
    worker.die().await;
    let task = get(&*store, id).await;
    assert_eq!(task.status, Status::SystemError);
    assert!(task.trouble.unwrap().starts_with("lost 3 times: "));
}

pub async fn a_task_that_the_platform_never_runs_ends(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    // One that was lost otherwise brings that end no nearer.
    worker.claim_one().await;
    worker.die().await;
    report_platform_failures(&mut worker, 0..MAX_PLATFORM_LOSSES).await;
    let task = get(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.result),
        (Status::SystemError, None, None)
    );
    assert!(task.finish_time.is_some());
    assert_eq!(
        task.trouble.as_deref(),
        Some("the platform failed to run it 10 times: no warden in 10")
    );
    assert!(worker.claim(1).await.is_empty());
    assert_eq!(store.totals().await.unwrap().held, 0);
}
