//! Takes attempts away from the slots: attempts that have not started are given back, running ones are killed.

use model::AttemptId;

use super::ReportLoop;
use crate::attempt_control::AttemptControl;
use crate::now;
use crate::slot_pool::PreparedAttempt;

impl ReportLoop {
    /// Removes matching attempts from the queue. The next report does not name them, so the judicator hands them out again.
    pub(super) fn give_back(&mut self, which: impl Fn(&PreparedAttempt) -> bool) {
        let taken = self.slot_pool.remove_matching(which);
        self.on_given_back(taken);
    }

    pub(super) fn on_given_back(&mut self, attempt_ids: Vec<AttemptId>) {
        let now = now();
        for attempt_id in attempt_ids {
            // The slot had put the attempt back into the queue after it was given up.
            if self.given_up.remove(&attempt_id) {
                self.on_slot_back();
            }
            self.attempts.on_ended(&attempt_id, now);
            self.controls.remove(&attempt_id);
            self.schedule.request_report();
        }
    }

    /// Stops an attempt that the judicator has taken away.
    pub(super) fn revoke(&mut self, attempt_id: &AttemptId) {
        if !self.attempts.on_revoked(attempt_id) {
            return;
        }
        if let Some(control) = self.controls.get(attempt_id) {
            revoke_and_log(attempt_id, control);
        }
        self.give_back(|prepared| prepared.attempt_id == *attempt_id);
    }

    pub(super) fn revoke_all(&mut self) {
        for attempt_id in self.attempts.attempt_ids() {
            self.revoke(&attempt_id);
        }
    }
}

/// Revokes an attempt. Returns whether its command had started.
pub(super) fn revoke_and_log(attempt_id: &AttemptId, control: &AttemptControl) -> bool {
    control.revoke().unwrap_or_else(|error| {
        tracing::warn!(task = %attempt_id.task, %error, "could not send the kill request to the warden of a task");
        true
    })
}
