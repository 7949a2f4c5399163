//! Kills the processes of an attempt without its warden, which may hang.

use std::sync::Arc;

use error_causes::with_causes;
use model::AttemptId;
use sandbox::KillOrphansError;

use super::{SlotEvent, SlotPool};
use crate::attempt_control::AttemptControl;
use crate::run::{kill_attempt_processes, kill_processes_in_folder};

impl SlotPool {
    /// Kills all processes of a stuck attempt, in a new thread because that can hang as well.
    pub(crate) fn kill_processes_in_background(
        self: &Arc<Self>,
        attempt_id: AttemptId,
        control: Arc<AttemptControl>,
        mut wardens: Vec<usize>,
    ) {
        let slot_pool = self.clone();
        let kill = move || {
            // If the slot has continued, the control groups of its wardens may belong to another attempt.
            wardens.retain(|_| control.is_slot_stuck());
            for number in &wardens {
                slot_pool.kill_group(*number);
            }
            let in_slot =
                |number: &usize| kill_processes_in_folder(slot_pool.work.join(number.to_string()), &control);
            let in_attempt = std::iter::once(kill_attempt_processes(&attempt_id, None));
            let killed = in_attempt.chain(wardens.iter().map(in_slot));
            for error in killed.filter_map(Result::err) {
                log_failed_kill(&attempt_id, &error);
            }
            slot_pool.send_event(SlotEvent::ProcessesKilled(attempt_id));
        };
        spawn(kill);
    }

    /// Kills the processes of an attempt that was revoked while these wardens ran it, in a new thread as well. Its slot
    /// continues when the wardens have answered.
    pub(crate) fn kill_revoked_in_background(
        self: &Arc<Self>,
        attempt_id: AttemptId,
        control: Arc<AttemptControl>,
        wardens: Vec<usize>,
    ) {
        let slot_pool = self.clone();
        spawn(move || {
            for number in wardens {
                // After its end, the control groups of the wardens may belong to another attempt.
                if !control.has_ended() {
                    slot_pool.kill_group(number);
                }
            }
            if let Err(error) = kill_attempt_processes(&attempt_id, None) {
                log_failed_kill(&attempt_id, &error);
            }
        });
    }

    /// Kills the processes in the control group of a warden's commands.
    fn kill_group(&self, warden: usize) {
        self.launcher.isolation.for_warden(warden as u32).kill_processes();
    }
}

fn spawn(kill: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("clean-up".into());
    if let Err(error) = thread.spawn(kill) {
        tracing::error!(%error, "could not start a thread to kill the processes of a task");
    }
}

fn log_failed_kill(attempt_id: &AttemptId, error: &KillOrphansError) {
    let why = with_causes(error);
    tracing::error!(task = %attempt_id.task, why, "could not kill the processes of a task");
}
