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
        warden: Option<usize>,
    ) {
        let slot_pool = self.clone();
        let kill = move || {
            // If the slot has continued, the control group of its warden may belong to another attempt.
            let warden = warden.filter(|_| control.is_slot_stuck());
            if let Some(number) = warden {
                slot_pool.kill_group(number);
            }
            let in_slot =
                |number: usize| kill_processes_in_folder(slot_pool.work.join(number.to_string()), &control);
            let killed = [
                Some(kill_attempt_processes(&attempt_id, None)),
                warden.map(in_slot),
            ];
            for error in killed.into_iter().flatten().filter_map(Result::err) {
                log_failed_kill(&attempt_id, &error);
            }
            slot_pool.send_event(SlotEvent::ProcessesKilled(attempt_id));
        };
        spawn(kill);
    }

    /// Kills the processes of an attempt that was revoked while this warden ran it, in a new thread as well. Its slot
    /// continues when the warden has answered.
    pub(crate) fn kill_revoked_in_background(
        self: &Arc<Self>,
        attempt_id: AttemptId,
        control: Arc<AttemptControl>,
        warden: usize,
    ) {
        let slot_pool = self.clone();
        spawn(move || {
            // After its end, the control group of the warden may belong to another attempt.
            if !control.has_ended() {
                slot_pool.kill_group(warden);
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
