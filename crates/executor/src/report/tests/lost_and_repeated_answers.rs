//! The judicator has handled a report, and its answer is lost, arrives twice, or says that the report was stale.

use model::ReportSeq;

use super::loop_harness::{LoopHarness, acknowledge, assign, completed, named};
use super::*;

/// Only report 1 opens a session, so it keeps its number until it is answered.
#[tokio::test(start_paused = true)]
async fn an_assignment_in_a_lost_answer_is_taken_from_the_repeated_answer() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    let first = executor.next_report().await;
    let attempt_id = attempt_id(first.report.session);
    let first = first.time_out().await;
    assert!(executor.start_attempt().await.is_none());

    let second = executor.next_report().await;
    assert_eq!(
        (second.report.session, second.report.seq),
        (first.session, ReportSeq(1))
    );
    assert_eq!(
        (second.report.acked, named(&second.report)),
        (ReportSeq(0), vec![])
    );
    second.answer(assign(&[attempt_id]));
    let attempt = executor.start_attempt().await.expect("the assigned attempt");
    assert_eq!(attempt.attempt_id, attempt_id);
    let third = executor.next_report().await;
    assert_eq!(
        (third.report.seq, third.report.acked),
        (ReportSeq(2), ReportSeq(1))
    );
    assert_eq!(named(&third.report), [attempt_id]);
}

#[tokio::test(start_paused = true)]
async fn a_result_is_reported_until_an_answer_acknowledges_it() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish(&attempt);
    let lost = executor.next_report_with_results().await.time_out().await;
    assert_eq!(completed(&lost), [attempt.attempt_id]);

    let repeated = executor.next_report().await;
    assert_eq!(repeated.report.complete, lost.complete);
    assert_eq!(repeated.report.seq, lost.seq.next());
    repeated.answer(acknowledge(&[attempt.attempt_id]));
    let after = executor.next_report().await.report;
    assert_eq!((completed(&after), named(&after)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_last_report_whose_answer_is_lost_ends_the_executor_when_the_session_is_gone() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    executor.next_report().await.answer(acknowledge(&[]));
    executor.stop.cancel();
    let last = executor.next_report().await;
    assert_eq!(last.report.intent, ReportIntent::Leave);
    let last = last.fail(CallError::Unavailable("connection reset".into()));

    let repeated = executor.next_report().await;
    assert_eq!(
        (repeated.report.intent, repeated.report.session),
        (ReportIntent::Leave, last.session)
    );
    repeated.answer(ReportAnswer::Ended);
    executor.end().await.unwrap();
}

/// Twice in one answer, again while the attempt runs, and again after it has ended.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_assigned_repeatedly_runs_once() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    let first = executor.next_report().await;
    let attempt_id = attempt_id(first.report.session);
    first.answer(assign(&[attempt_id, attempt_id]));
    let attempt = executor.start_attempt().await.expect("the assigned attempt");
    assert!(
        executor.start_attempt().await.is_none(),
        "assigned twice in one answer"
    );

    executor.next_report().await.answer(assign(&[attempt_id]));
    assert!(
        executor.start_attempt().await.is_none(),
        "assigned again while it runs"
    );
    executor.finish(&attempt);
    let pending = executor.next_report_with_results().await;
    pending.answer(assign(&[attempt_id]));
    assert!(
        executor.start_attempt().await.is_none(),
        "assigned again after it ended"
    );
    let pending = executor.next_report().await;
    assert_eq!(completed(&pending.report), [attempt_id]);
    pending.answer(acknowledge(&[attempt_id, attempt_id]));
    let after = executor.next_report().await.report;
    assert_eq!((completed(&after), named(&after)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_stale_answer_changes_nothing_and_the_next_report_has_a_higher_number() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    executor.finish(&attempt);
    let deadline = executor.slot_pool.warden_deadline();
    let mut stale = executor.next_report_with_results().await;
    for delay in [50, 100, 200].map(Duration::from_millis) {
        let answered_at = now();
        let report = stale.answer(ReportAnswer::Stale);
        stale = executor.next_report().await;
        assert_eq!(stale.received_at - answered_at, delay);
        assert_eq!(stale.report.seq, report.seq.next());
        assert_eq!(
            (stale.report.acked, &stale.report.complete),
            (report.acked, &report.complete)
        );
        assert_eq!(executor.slot_pool.warden_deadline(), deadline);
    }
}
