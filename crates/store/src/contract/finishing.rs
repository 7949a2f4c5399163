//! Reporting how tasks go and how they end.

use std::sync::Arc;

use model::{Attempt, Complete, End, Report, Status};

use super::LOSSES;
use super::sample::{add_one, compile_failure, get, run_failure, status, success};
use super::worker::{Worker, done};
use crate::TaskStore;

pub async fn results_are_committed(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    for (result, expected) in [
        (success(), Status::Success),
        (run_failure(), Status::RunFailed),
        (compile_failure(), Status::CompileFailed),
    ] {
        let id = add_one(&*store).await;
        let handout = worker.claim_one().await;
        worker.progress(id, Status::Compiling).await;
        let reported = worker.finish(handout, result.clone()).await;
        assert_eq!(reported.finished.len(), 1);
        let finished = reported.finished[0];
        assert_eq!((finished.task, finished.attempt), (handout.task, handout.attempt));
        assert_eq!(done(reported).delete, [handout]);
        let task = get(&*store, id).await;
        assert_eq!((task.status, task.result), (expected, Some(result)));
        assert_eq!(
            (task.executor, task.session, task.attempt),
            (None, None, Attempt(1))
        );
        assert_eq!(
            (task.start_time, task.finish_time),
            (Some(finished.start_time), Some(finished.finish_time))
        );
        assert!(task.report_time.is_some() && finished.start_time <= finished.finish_time);
    }
}

pub async fn a_short_task_may_end_unseen(store: Arc<dyn TaskStore>) {
    let mut worker = Worker::new(&store, "e");
    for result in [success(), run_failure(), compile_failure()] {
        let id = add_one(&*store).await;
        let handout = worker.claim_one().await;
        worker.finish(handout, result.clone()).await;
        assert_eq!(status(&*store, id).await, result.status());
    }
}

pub async fn steps_are_recorded_forwards_only(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    for (said, expected) in [
        (Status::Compiling, Status::Compiling),
        (Status::Compiling, Status::Compiling),
        (Status::Running, Status::Running),
        (Status::Compiling, Status::Running),
    ] {
        let answer = worker.progress(id, said).await;
        assert!(answer.delete.is_empty());
        let task = get(&*store, id).await;
        assert_eq!(task.status, expected);
        assert!(task.report_time.is_some());
    }
    worker.finish(handout, success()).await;
    assert_eq!(status(&*store, id).await, Status::Success);
}

pub async fn an_end_without_a_result_is_not_recorded(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    worker.claim_one().await;
    for said in [
        Status::Success,
        Status::Cancelled,
        Status::Retrying,
        Status::SystemError,
        Status::Pending,
    ] {
        worker.progress(id, said).await;
        assert_eq!(status(&*store, id).await, Status::Pending);
    }
}

pub async fn a_contradictory_result_is_a_loss(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    for _ in 0..LOSSES {
        assert!(!status(&*store, id).await.done());
        let handout = worker.claim_one().await;
        worker.progress(id, Status::Running).await;
        // What runs has been compiled.
        let reported = worker.finish(handout, compile_failure()).await;
        assert!(reported.finished.is_empty());
        assert_eq!(done(reported).delete, [handout]);
    }
    let task = get(&*store, id).await;
    assert_eq!((task.status, task.result), (Status::SystemError, None));
}

pub async fn a_repeated_report_finishes_once(store: Arc<dyn TaskStore>) {
    add_one(&*store).await;
    let waiting = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    worker.running.clear();
    let report = Report {
        complete: vec![Complete {
            handout,
            end: End::Result(success()),
        }],
        vacant: 1,
        ..worker.next_report()
    };
    let first = store.report(report.clone()).await.unwrap();
    let before = get(&*store, handout.task).await;
    let second = store.report(report).await.unwrap();
    assert_eq!((first.finished.len(), second.finished.len()), (1, 0));
    assert_eq!((first.claimed.len(), second.claimed.len()), (1, 0));
    assert_eq!(get(&*store, handout.task).await, before);
    let (first, second) = (done(first), done(second));
    assert_eq!(first, second);
    assert_eq!(first.delete, [handout]);
    assert_eq!(first.assign[0].handout.task, waiting);
}

pub async fn a_broken_attempt_is_tried_again(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let (mut bad, mut good) = (Worker::new(&store, "bad"), Worker::new(&store, "good"));
    let handout = bad.claim_one().await;
    let reported = bad
        .end(handout, End::Broken("no space for the workspace".into()))
        .await;
    assert!(reported.finished.is_empty());
    assert_eq!(done(reported).delete, [handout]);
    let task = get(&*store, id).await;
    assert_eq!((task.status, task.executor), (Status::Retrying, None));
    assert!(task.trouble.unwrap().contains("no space for the workspace"));
    let handout = good.claim_one().await;
    assert_eq!(handout.attempt, Attempt(2));
    good.finish(handout, success()).await;
    let task = get(&*store, id).await;
    assert_eq!((task.status, task.trouble), (Status::Success, None));
}

pub async fn a_task_broken_everywhere_ends(store: Arc<dyn TaskStore>) {
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    for attempt in 1..=LOSSES {
        assert!(!status(&*store, id).await.done());
        let handout = worker.claim_one().await;
        assert_eq!(handout.attempt, Attempt(attempt));
        worker.end(handout, End::Broken("no cell".into())).await;
    }
    let task = get(&*store, id).await;
    assert_eq!(
        (task.status, task.executor, task.result),
        (Status::SystemError, None, None)
    );
    assert!(task.finish_time.is_some());
    assert_eq!(task.trouble.as_deref(), Some("lost 3 times: no cell"));
    assert!(worker.claim(1).await.is_empty());
}
