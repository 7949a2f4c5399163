//! A stop is requested while a report is in flight.

use super::loop_harness::{ANSWER_TIMEOUT, LoopHarness, STOP_GRACE, acknowledge, assign, completed, named};
use super::*;

#[tokio::test(start_paused = true)]
async fn an_attempt_that_arrives_after_the_stop_is_given_back() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    executor.next_report().await.answer(acknowledge(&[]));
    let pending = executor.next_report().await;
    executor.stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(pending.is_awaited() && !executor.has_unseen_report().await);
    let attempt_id = attempt_id(pending.report.session);
    pending.answer(assign(&[attempt_id]));

    let last = executor.next_report().await;
    assert_eq!((last.report.intent, last.report.vacant), (ReportIntent::Leave, 0));
    assert_eq!(named(&last.report), []);
    assert!(executor.start_attempt().await.is_none());
    last.answer(acknowledge(&[]));
    executor.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_running_attempt_is_reported_until_it_ends_and_its_result_is_in_the_last_report() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let pending = executor.next_report().await;
    executor.stop.cancel();
    pending.answer(acknowledge(&[]));
    let staying = executor.next_report().await;
    assert_eq!(
        (staying.report.intent, staying.report.vacant),
        (ReportIntent::Stay, 0)
    );
    assert_eq!(named(&staying.report), [attempt.attempt_id]);
    assert!(!attempt.control.is_revoked());
    // The judicator repeats an assignment whose answer it considers lost.
    let repeated = attempt_id(staying.report.session);
    staying.answer(assign(&[repeated]));
    assert!(executor.start_attempt().await.is_none());

    executor.finish(&attempt);
    let last = executor.next_report().await;
    assert_eq!(last.report.intent, ReportIntent::Leave);
    assert_eq!(completed(&last.report), [attempt.attempt_id]);
    last.answer(acknowledge(&[attempt.attempt_id]));
    executor.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_running_attempt_is_killed_after_the_grace_period_and_reported_until_it_is_gone() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let pending = executor.next_report().await;
    executor.stop.cancel();
    let stopped_at = now();
    pending.answer(acknowledge(&[]));
    while !attempt.control.is_revoked() {
        assert!(now() - stopped_at < STOP_GRACE * 2, "no end of the grace period");
        let pending = executor.next_report().await;
        assert_eq!(named(&pending.report), [attempt.attempt_id]);
        pending.answer(acknowledge(&[]));
    }
    assert!(now() - stopped_at >= STOP_GRACE);
    let pending = executor.next_report().await;
    assert_eq!(named(&pending.report), [attempt.attempt_id], "it may still run");
    pending.answer(acknowledge(&[]));
    executor.slot_pool.finish_attempt(&attempt, None);
    let last = executor.next_report().await;
    assert_eq!(
        (last.report.intent, named(&last.report)),
        (ReportIntent::Leave, vec![])
    );
    last.answer(acknowledge(&[]));
    executor.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_report_that_hangs_in_the_same_process_is_dropped_after_the_stop() {
    let mut executor = LoopHarness::start(JudicatorLocation::SameProcess);
    executor.next_report().await.answer(acknowledge(&[]));
    let hanging = executor.next_report().await;
    tokio::time::sleep(ANSWER_TIMEOUT * 10).await;
    assert!(hanging.is_awaited());
    executor.stop.cancel();
    let stopped_at = now();
    hanging.time_out().await;
    assert_eq!(now() - stopped_at, ANSWER_TIMEOUT);
    let last = executor.next_report().await;
    assert_eq!(last.report.intent, ReportIntent::Leave);
    last.answer(acknowledge(&[]));
    executor.end().await.unwrap();
}
