//! Answers that arrive late or not at all, and the deadline at which the wardens kill the tasks.

use super::loop_harness::{ANSWER_TIMEOUT, HEARTBEAT, LoopHarness, SELF_KILL, acknowledge, assign, named};
use super::*;

/// How long a judicator waits for a report before it expires the session. Longer than `SELF_KILL`, as the product requires.
const LEASE: Duration = Duration::from_secs(18);

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_applied_and_no_other_report_is_sent_meanwhile() {
    let mut executor = LoopHarness::start(JudicatorLocation::Remote);
    executor.next_report().await.answer(acknowledge(&[]));
    let slow = executor.next_report().await;
    let (sent_at, attempt_id) = (slow.received_at, attempt_id(slow.report.session));
    tokio::time::sleep(HEARTBEAT * 5 / 2).await;
    assert!(slow.is_awaited() && !executor.has_unseen_report().await);
    slow.answer(assign(&[attempt_id]));
    executor.start_attempt().await.expect("the assigned attempt");
    executor.assert_deadline_counts_from(sent_at);
    assert_eq!(named(&executor.next_report().await.report), [attempt_id]);
}

#[tokio::test(start_paused = true)]
async fn a_report_without_an_answer_is_repeated_before_self_kill_and_a_late_answer_is_ignored() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let first = executor.next_report().await;
    let sent_at = first.received_at;
    let late = attempt_id(first.report.session);
    let second = executor.next_report().await;
    assert!(!first.is_awaited());
    assert!(second.received_at - sent_at >= ANSWER_TIMEOUT);
    assert!(second.received_at - sent_at < SELF_KILL);
    assert_eq!(named(&second.report), [attempt.attempt_id]);

    // The second report gets no answer either, and that of the first arrives after `SELF_KILL`.
    second.time_out().await;
    assert!(now() - sent_at >= SELF_KILL);
    first.answer(assign(&[late]));
    assert!(executor.start_attempt().await.is_none());
    let third = executor.next_report().await;
    assert_eq!(named(&third.report), [attempt.attempt_id]);
    let sent_at = third.received_at;
    third.answer(acknowledge(&[]));
    executor.next_report().await;
    executor.assert_deadline_counts_from(sent_at);
}

/// While the judicator in the same process handles the report, it does not expire the session.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_from_the_same_process_keeps_tasks_running_beyond_self_kill() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::SameProcess).await;
    let slow = executor.next_report().await;
    let sent_at = slow.received_at;
    while now() - sent_at < SELF_KILL * 3 {
        tokio::time::sleep(SELF_KILL / 3).await;
        assert!(slow.is_awaited() && !executor.has_unseen_report().await);
        assert!(executor.slot_pool.warden_deadline() > Some(now()));
    }
    slow.answer(acknowledge(&[]));
    assert_eq!(named(&executor.next_report().await.report), [attempt.attempt_id]);
    assert!(!attempt.control.is_revoked());
}

/// The lease counts from when the judicator has received the last report, and the deadline from when it was sent.
#[tokio::test(start_paused = true)]
async fn tasks_are_killed_before_the_lease_ends_when_answers_stop() {
    let (mut executor, attempt) = LoopHarness::with_running_attempt(JudicatorLocation::Remote).await;
    let last = executor.next_report().await;
    let received_at = last.received_at;
    // Nearly too late for the loop to accept the answer.
    tokio::time::sleep(ANSWER_TIMEOUT - Duration::from_millis(1)).await;
    last.answer(acknowledge(&[]));
    let slot_pool = executor.slot_pool.clone();
    let warden = tokio::spawn(async move {
        while let Some(deadline) = slot_pool.warden_deadline().filter(|deadline| *deadline > now()) {
            tokio::time::sleep_until(deadline.into()).await;
        }
        slot_pool.finish_attempt(&attempt, None);
        (now(), attempt.attempt_id)
    });

    // No kind of failure extends the deadline.
    let mut failures = 0;
    let mut report = loop {
        let pending = executor.next_report().await;
        executor.assert_deadline_counts_from(received_at);
        if warden.is_finished() {
            break pending;
        }
        failures += 1;
        match failures {
            1 => drop(pending.answer(ReportAnswer::Stale)),
            2 => drop(pending.fail(CallError::Unavailable("connection refused".into()))),
            _ => drop(pending.time_out().await),
        }
    };
    assert!(failures >= 3, "each kind of failure");
    let (killed_at, attempt_id) = warden.await.unwrap();
    assert!(
        killed_at - received_at <= SELF_KILL,
        "{:?}",
        killed_at - received_at
    );
    assert!(killed_at < received_at + LEASE);
    while named(&report.report) == [attempt_id] {
        report.time_out().await;
        report = executor.next_report().await;
    }
    assert_eq!(named(&report.report), []);
}
