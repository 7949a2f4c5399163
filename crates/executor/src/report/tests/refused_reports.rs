//! The judicator refuses a report, expires the session, or knows another session under the executor's name.

use model::{ReportSeq, UnixTime};

use super::loop_harness::{LoopHarness, SELF_KILL, acknowledge, named};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_report_that_is_refused_as_invalid_ends_the_executor() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    let invalid = model::InvalidField::new("executor", "not a valid name");
    executor.next_report().await.fail(CallError::Invalid(invalid));
    let ended = executor.end().await;
    assert!(matches!(ended, Err(ExecutorError::Refused(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_is_replaced_and_its_attempts_are_revoked() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let expired = executor.next_report().await.answer(ReportAnswer::Ended);
    let first = executor.next_report().await;
    assert!(attempt.control.is_revoked());
    assert_ne!(first.report.session, expired.session);
    assert_eq!(
        (first.report.seq, first.report.succeeds),
        (ReportSeq(1), Some(expired.session))
    );
    assert_eq!(named(&first.report), []);
    assert_eq!(first.report.intent, ReportIntent::Stay);
}

fn occupied() -> ReportAnswer {
    ReportAnswer::Occupied {
        host: "other".into(),
        since: UnixTime::default(),
    }
}

/// The other session may be that of a lost data folder; then it ends with its lease.
#[tokio::test(start_paused = true)]
async fn another_session_under_the_name_is_given_time_to_expire() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    let first = executor.next_report().await;
    let (since, report) = (now(), first.answer(occupied()));
    while now() - since < SELF_KILL * 2 {
        let pending = executor.next_report().await;
        assert_eq!(
            (
                pending.report.session,
                pending.report.seq,
                pending.report.succeeds
            ),
            (report.session, ReportSeq(1), report.succeeds)
        );
        pending.answer(occupied());
    }
    executor.next_report().await.answer(acknowledge(&[]));
    let next = executor.next_report().await.report;
    assert_eq!((next.session, next.seq), (report.session, ReportSeq(2)));
}

#[tokio::test(start_paused = true)]
async fn another_session_that_does_not_expire_ends_the_executor() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    let (since, mut last_answer) = (now(), now());
    while let Some(pending) = executor.next_report_or_end().await {
        last_answer = now();
        assert!(last_answer - since < SELF_KILL * 4, "no end of the retries");
        pending.answer(occupied());
    }
    assert!(last_answer - since >= SELF_KILL * 3, "{:?}", last_answer - since);
    let ended = executor.end().await;
    assert!(
        matches!(&ended, Err(ExecutorError::Occupied { host, .. }) if host == "other"),
        "{ended:?}"
    );
}
