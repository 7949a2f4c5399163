//! Kills the processes of an attempt whose slot is stuck.

use std::sync::Arc;

use error_causes::with_causes;
use model::AttemptId;

use super::{SlotEvent, SlotPool};
use crate::attempt_control::AttemptControl;
use crate::run::{kill_attempt_processes, kill_processes_in_folder};

impl SlotPool {
    /// Kills all processes of a stuck attempt, in a new thread because that can hang as well.
    pub(crate) fn kill_processes_in_background(
        self: &Arc<Self>,
        attempt_id: AttemptId,
        control: Arc<AttemptControl>,
        warden: Option<usize>,
    ) {
        let slot_pool = self.clone();
        let kill = move || {
            // If the slot has continued, the control group of its warden may belong to another attempt.
            let warden = warden.filter(|_| control.is_slot_stuck());
            if let Some(number) = warden {
                slot_pool
                    .launcher
                    .isolation
                    .for_warden(number as u32)
                    .kill_processes();
            }
            let in_slot =
                |number: usize| kill_processes_in_folder(slot_pool.work.join(number.to_string()), &control);
            let killed = [
                Some(kill_attempt_processes(&attempt_id, None)),
                warden.map(in_slot),
            ];
            for error in killed.into_iter().flatten().filter_map(Result::err) {
                let why = with_causes(&error);
                tracing::error!(task = %attempt_id.task, why, "could not kill the processes of a task");
            }
            slot_pool.send_event(SlotEvent::ProcessesKilled(attempt_id));
        };
        let thread = std::thread::Builder::new().name("clean-up".into());
        if let Err(error) = thread.spawn(kill) {
            tracing::error!(%error, "could not start a thread to kill the processes of a task");
        }
    }
}
