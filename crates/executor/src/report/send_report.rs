//! Sends a report, waits for its answer, and extends the deadline at which the wardens and this loop kill the tasks.

use std::time::{Duration, Instant};

use model::{Report, ReportAnswer};
use rpc::CallError;
use tokio_util::sync::CancellationToken;

use super::revoke::revoke_and_log;
use super::stop_phase::GOODBYE_TIMEOUT;
use super::{JudicatorLocation, ReportLoop};
use crate::now;

/// The error of the report loop when a judicator has not answered a report in time. The call was dropped; the judicator
/// may or may not have handled the report.
pub(super) struct AnswerTimeout {
    pub(super) within: Duration,
}

impl ReportLoop {
    pub(super) async fn send_report(
        &mut self,
        report: Report,
        stop: &CancellationToken,
    ) -> Result<Result<ReportAnswer, CallError>, AnswerTimeout> {
        let calls = self.calls.clone();
        let mut call = calls.report(report);
        if self.options.judicator_location == JudicatorLocation::SameProcess && self.stopping.is_none() {
            let sent = now();
            let pause = self.options.self_kill / 3;
            loop {
                tokio::select! {
                    // When the answer is there, the report has ended and must no longer extend the deadline.
                    biased;
                    answer = &mut call => return Ok(answer),
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(pause) => self.on_slow_store(sent),
                }
            }
        }
        let within = self.answer_timeout(now());
        let mut timeout = std::pin::pin!(tokio::time::sleep(within));
        loop {
            let must_watch_deadline = !self.handled_deadline && !self.attempts.is_empty();
            tokio::select! {
                biased;
                answer = &mut call => return Ok(answer),
                () = &mut timeout => return Err(AnswerTimeout { within }),
                () = tokio::time::sleep_until(self.warden_deadline.into()), if must_watch_deadline => {
                    self.kill_if_deadline_passed(now());
                }
            }
        }
    }

    /// Extends the wardens' deadline while a judicator in this process handles the report: until it answers, the session
    /// cannot expire (see [`JudicatorLocation::SameProcess`]). If this loop hangs, the deadline passes and tasks stop.
    fn on_slow_store(&mut self, sent: Instant) {
        let now = now();
        self.check_for_stuck_attempts(now);
        self.extend_warden_deadline(now);
        let silent = now - sent;
        if silent >= self.options.self_kill && !self.attempts.is_empty() {
            tracing::warn!(
                ?silent,
                tasks = self.attempts.attempt_ids().len(),
                "the store is not answering; tasks keep running"
            );
        }
    }

    /// How long to wait for an answer: long enough for a busy judicator, short enough for a retry before `self_kill`.
    fn answer_timeout(&self, now: Instant) -> Duration {
        let default = self.options.self_kill / 2;
        let Some(stopping) = &self.stopping else {
            return default;
        };
        // The next phase of the stop must not be delayed by this report.
        let left = stopping.ends_at().map(|at| at.saturating_duration_since(now));
        default.min(left.unwrap_or(GOODBYE_TIMEOUT))
    }

    /// Moves the wardens' deadline to `self_kill` after `heard_at`, a time that is not later than when the judicator received
    /// a report. The lease of the session ends later than that.
    pub(super) fn extend_warden_deadline(&mut self, heard_at: Instant) {
        self.handled_deadline = false;
        let until = heard_at + self.options.self_kill;
        // A message to every warden after every report would be too expensive.
        if until.saturating_duration_since(self.warden_deadline) >= self.options.self_kill / 10 {
            self.slot_pool.extend_warden_deadline(until);
            self.warden_deadline = until;
        }
    }

    /// Kills the tasks when the deadline has passed. The wardens do so as well, at the same time; but one of them may hang,
    /// and the next attempt of its task may start when the lease has ended.
    pub(super) fn kill_if_deadline_passed(&mut self, now: Instant) {
        if now < self.warden_deadline || self.attempts.is_empty() || self.handled_deadline {
            return;
        }
        self.handled_deadline = true;
        tracing::warn!(
            tasks = self.attempts.attempt_ids().len(),
            self_kill = ?self.options.self_kill,
            "no judicator has answered within executor.self_kill; running tasks are killed"
        );
        for (attempt_id, control) in &self.controls {
            let wardens = control.running_wardens();
            if !wardens.is_empty() {
                revoke_and_log(attempt_id, control);
                self.slot_pool
                    .kill_revoked_in_background(*attempt_id, control.clone(), wardens);
            }
        }
    }
}
