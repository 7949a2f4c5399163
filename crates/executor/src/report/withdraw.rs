//! Taking attempts away from their slots: given back where they have not begun, killed where they have.

use std::time::Instant;

use model::Handout;

use super::Reporter;
use crate::control::Control;
use crate::work::Job;

impl Reporter {
    /// What has not begun is not named any more: the judicator gives it to another.
    pub(super) fn give_back(&mut self, which: impl Fn(&Job) -> bool) {
        let taken = self.bench.take_back(which);
        self.on_given_back(taken);
    }

    pub(super) fn on_given_back(&mut self, handouts: Vec<Handout>) {
        let now = Instant::now();
        for handout in handouts {
            // Its slot had put it back after it was given up.
            if self.given_up.remove(&handout) {
                self.on_slot_back();
            }
            self.slots.on_ended(&handout, now);
            self.controls.remove(&handout);
            self.due.on_hint();
        }
    }

    pub(super) fn doom(&mut self, handout: &Handout) {
        if !self.slots.on_doomed(handout) {
            return;
        }
        if let Some(control) = self.controls.get(handout) {
            withdraw(handout, control);
        }
        self.give_back(|job| job.handout == *handout);
    }

    pub(super) fn doom_all(&mut self) {
        for handout in self.slots.all() {
            self.doom(&handout);
        }
    }
}

/// Whether it had begun.
pub(super) fn withdraw(handout: &Handout, control: &Control) -> bool {
    control.withdraw().unwrap_or_else(|error| {
        tracing::warn!(task = %handout.task, %error, "could not reach the warden to stop a task");
        true
    })
}
