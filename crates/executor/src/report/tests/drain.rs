//! The judicator answers that an operator has drained the executor.

use model::{DrainReason, ExecutorDrain, UnixTime};

use super::loop_harness::{HEARTBEAT, LoopHarness, acknowledge, assign, completed, named};
use super::*;

/// The answer with the drain of the executor.
fn drained(answer: ReportAnswer) -> ReportAnswer {
    let ReportAnswer::Done(instructions) = answer else {
        panic!("no instructions: {answer:?}");
    };
    ReportAnswer::Done(ReportInstructions {
        drain: Some(ExecutorDrain {
            reason: DrainReason::new("new disk").unwrap(),
            by: None,
            since: UnixTime(1),
        }),
        ..instructions
    })
}

#[tokio::test(start_paused = true)]
async fn a_drained_executor_ends_what_runs_and_gives_back_what_waits() {
    let (mut executor, running) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let pending = executor.next_report().await;
    let session = pending.report.session;
    let waiting = attempt_id(session);
    pending.answer(assign(&[waiting]));
    // No slot takes the attempt.
    let pending = executor.next_report().await;
    assert_eq!(named(&pending.report).len(), 2);
    pending.answer(drained(acknowledge(&[])));
    let answered_at = now();

    let given_back = executor.next_report().await;
    assert_eq!(named(&given_back.report), [running.attempt_id]);
    assert!(now() - answered_at < HEARTBEAT, "it is given back at once");
    // The judicator repeats an assignment whose answer it considers lost.
    given_back.answer(drained(assign(&[attempt_id(session)])));
    assert!(executor.start_attempt().await.is_none());
    assert!(!running.control.is_revoked());

    executor.finish(&running);
    let with_result = executor.next_report().await;
    assert_eq!(completed(&with_result.report), [running.attempt_id]);
    with_result.answer(drained(acknowledge(&[running.attempt_id])));

    // Reports go on at the heartbeat, and not more often.
    let before = now();
    executor.next_report().await.answer(drained(acknowledge(&[])));
    executor.next_report().await.answer(drained(acknowledge(&[])));
    assert!(now() - before >= HEARTBEAT, "{:?}", now() - before);

    let resumed = executor.next_report().await;
    assert_eq!(
        resumed.report.vacant, 2,
        "the judicator knows what to assign when it is resumed"
    );
    resumed.answer(assign(&[attempt_id(session)]));
    assert!(executor.start_attempt().await.is_some());
    executor.stop.cancel();
}
