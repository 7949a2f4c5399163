//! Attempts whose slots do not go on: their wardens are killed, then their processes, then the slot is given up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Complete, End, Handout};

use super::Reporter;
use crate::control::{Control, Overdue};

const STUCK: &str = "conclave_attempts_stuck_total";
const SLOTS_OUT: &str = "conclave_slots_out_of_service";

impl Reporter {
    /// Goes on with giving up what does not go on by itself.
    pub(super) fn look_after_slots(&mut self, now: Instant) {
        if let Some(pause) = self.looks.on_look(now) {
            tracing::warn!(
                ?pause,
                "the executor itself did nothing for long; slots have so much more time"
            );
            self.controls
                .values()
                .for_each(|control| control.on_own_pause(pause));
        }
        let overdue = |(handout, control): (&Handout, &Arc<Control>)| {
            Some((*handout, control.clone(), control.look(now)?))
        };
        let overdue: Vec<_> = self.controls.iter().filter_map(overdue).collect();
        for (handout, control, overdue) in overdue {
            let task = handout.task;
            match overdue {
                Overdue::WardenKilled(why) => {
                    tracing::error!(%task, why, "an attempt does not go on; its warden was killed");
                    metrics::counter!(STUCK).increment(1);
                }
                Overdue::CleanUp(warden) => {
                    tracing::error!(%task, "a slot does not go on without its warden either; ending its processes");
                    self.bench.clean_up(handout, control, warden);
                }
                Overdue::GiveUp => self.give_up(&handout, now),
            }
        }
    }

    /// The attempt is lost, and its slot out of service until its thread comes back.
    pub(super) fn give_up(&mut self, handout: &Handout, now: Instant) {
        // It may have come back meanwhile.
        let Some(control) = self.controls.remove(handout) else {
            return;
        };
        control.give_up();
        let lost = control.lost();
        let is_ours = lost.is_some();
        let end = match lost {
            Some(why) => End::PlatformFailure(why),
            None => End::Broken(control.stuck().unwrap_or_default()),
        };
        let complete = Complete {
            handout: *handout,
            end,
        };
        // Without a pause: its slot has hung for longer than any.
        self.bench.keep(complete, Duration::ZERO);
        self.given_up.insert(*handout);
        self.slots.on_ended(handout, now);
        self.slots.on_out();
        self.count_slots_out();
        tracing::error!(task = %handout.task, out = self.slots.out(), "a slot hangs and is out of service until it goes on");
        self.due.on_ended(now);
        if !is_ours {
            self.rest.on_broken(now);
            self.give_back(|_| true);
        }
    }

    pub(super) fn on_slot_back(&mut self) {
        self.slots.on_back();
        self.count_slots_out();
        self.due.on_hint();
    }

    pub(super) fn count_slots_out(&self) {
        metrics::gauge!(SLOTS_OUT).set(self.slots.out() as f64);
    }
}
