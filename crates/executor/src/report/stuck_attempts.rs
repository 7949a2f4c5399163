//! Handles attempts whose slots make no progress: kills the warden, then all processes, then takes the slot out of service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{AttemptEnd, AttemptId, CompletedAttempt};

use super::ReportLoop;
use crate::attempt_control::{AttemptControl, StuckAction};

const STUCK_METRIC: &str = "conclave_attempts_stuck_total";
const SLOTS_OUT_METRIC: &str = "conclave_slots_out_of_service";

impl ReportLoop {
    /// Escalates against each attempt whose slot has exceeded the deadline of its current operation.
    pub(super) fn check_for_stuck_attempts(&mut self, now: Instant) {
        if let Some(pause) = self.pause_detector.on_check(now) {
            tracing::warn!(
                ?pause,
                "the executor process was paused; extending the deadlines of all slots"
            );
            self.controls
                .values()
                .for_each(|control| control.on_executor_paused(pause));
        }
        let stuck = |(attempt_id, control): (&AttemptId, &Arc<AttemptControl>)| {
            Some((*attempt_id, control.clone(), control.check_progress(now)?))
        };
        let stuck: Vec<_> = self.controls.iter().filter_map(stuck).collect();
        for (attempt_id, control, action) in stuck {
            let task = attempt_id.task;
            match action {
                StuckAction::WardenKilled(why) => {
                    tracing::error!(%task, why, "an attempt makes no progress; killed its warden");
                    metrics::counter!(STUCK_METRIC).increment(1);
                }
                StuckAction::KillProcesses(wardens) => {
                    tracing::error!(%task, "a slot makes no progress without its warden; killing the processes of its attempt");
                    self.slot_pool
                        .kill_processes_in_background(attempt_id, control, wardens);
                }
                StuckAction::GiveUp => self.give_up(&attempt_id, now),
            }
        }
    }

    /// Reports the attempt as lost and takes its slot out of service until the thread of the slot continues.
    pub(super) fn give_up(&mut self, attempt_id: &AttemptId, now: Instant) {
        // The slot may have ended the attempt in the meantime.
        let Some(control) = self.controls.remove(attempt_id) else {
            return;
        };
        control.give_up();
        let platform_failure = control.platform_failure();
        let is_platform_failure = platform_failure.is_some();
        let end = match platform_failure {
            Some(why) => AttemptEnd::PlatformFailure(why),
            None => AttemptEnd::Broken(control.stuck_reason().unwrap_or_default()),
        };
        let complete = CompletedAttempt {
            attempt_id: *attempt_id,
            form: control.form,
            end,
        };
        // No pause: the slot has hung for longer than any pause.
        self.slot_pool.spool_end(complete, None, Duration::ZERO);
        self.given_up.insert(*attempt_id);
        self.attempts.on_ended(attempt_id, now);
        self.attempts.on_slot_out_of_service();
        self.record_slots_out_of_service();
        tracing::error!(task = %attempt_id.task, out = self.attempts.out_of_service(), "a slot hangs; it is out of service until its thread continues");
        self.schedule.on_ended(now);
        if !is_platform_failure {
            self.failure_backoff.on_failure(now);
            self.give_back(|_| true);
        }
    }

    pub(super) fn on_slot_back(&mut self) {
        self.attempts.on_slot_back_in_service();
        self.record_slots_out_of_service();
        self.schedule.request_report();
    }

    pub(super) fn record_slots_out_of_service(&self) {
        metrics::gauge!(SLOTS_OUT_METRIC).set(self.attempts.out_of_service() as f64);
    }
}
