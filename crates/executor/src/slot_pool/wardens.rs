//! Starts and selects the wardens of a slot, and extends the deadline at which wardens kill their tasks.

use std::collections::VecDeque;
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use error_causes::with_causes;
use sandbox::{CommandIsolation, Warden, WardenError, WardenLaunchError, WardenLauncher};

use super::{PreparedAttempt, READY, SlotEvent, SlotPool, WardenHandles, WardenSlot};
use crate::attempt_control::AttemptControl;
use crate::now;

/// The pauses between attempts to start a warden in a slot that has none.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

impl SlotPool {
    /// Takes the first warden of the slot that is ready to run a task.
    pub(super) fn take_ready_warden(
        &self,
        warden_slots: &mut VecDeque<WardenSlot>,
        prepared: &PreparedAttempt,
    ) -> Result<(WardenSlot, Warden), WardenLaunchError> {
        let mut last = None;
        for _ in 0..warden_slots.len() {
            let Some(mut warden_slot) = warden_slots.pop_front() else {
                break;
            };
            match self.ready_or_new_warden(&mut warden_slot, &prepared.control) {
                Ok(warden) => return Ok((warden_slot, warden)),
                Err(error) => last = Some(error),
            }
            warden_slots.push_back(warden_slot);
        }
        // Unreachable: a slot has at least one warden.
        Err(last.unwrap_or(WardenLaunchError::Sockets(io::ErrorKind::NotFound.into())))
    }

    /// The current warden if it is ready, otherwise a new one.
    fn ready_or_new_warden(
        &self,
        warden_slot: &mut WardenSlot,
        control: &AttemptControl,
    ) -> Result<Warden, WardenLaunchError> {
        if let Some(mut warden) = warden_slot.warden.take() {
            control.on_warden_assigned(warden_slot.number, warden.control());
            match warden.wait_until_ready() {
                Ok(()) => return Ok(warden),
                Err(error) => on_not_ready(&error),
            }
        }
        let warden = self.start_warden(warden_slot.number, &warden_slot.isolation)?;
        control.on_warden_assigned(warden_slot.number, warden.control());
        control.on_operation(READY);
        Ok(warden)
    }

    /// Takes the slot out of service until one of its wardens starts. `None` if the pool is closed first.
    pub(super) fn wait_for_warden_start(
        &self,
        warden_slots: &mut VecDeque<WardenSlot>,
        error: &WardenLaunchError,
    ) -> Option<()> {
        self.send_event(SlotEvent::SlotOutOfService(with_causes(error)));
        let mut pause = FIRST_PAUSE;
        loop {
            if self.wait_for_close(pause) {
                return None;
            }
            pause = (pause * 2).min(MAX_PAUSE);
            for warden_slot in warden_slots.iter_mut() {
                match self.start_warden(warden_slot.number, &warden_slot.isolation) {
                    Ok(warden) => {
                        warden_slot.warden = Some(warden);
                        self.lock_queue().queue.on_slot_free();
                        self.send_event(SlotEvent::SlotBackInService);
                        return Some(());
                    }
                    Err(error) => {
                        tracing::debug!(
                            why = with_causes(&error),
                            slot = warden_slot.number,
                            "could not start a warden; retrying"
                        );
                    }
                }
            }
        }
    }

    /// Sends the deadline to all wardens: they kill their tasks when it passes without a later one.
    pub(crate) fn extend_warden_deadline(&self, deadline: Instant) {
        let mut wardens = self.wardens();
        wardens.deadline = Some(deadline);
        for control in wardens.controls.iter().flatten() {
            if let Err(error) = control.keep_alive_for(deadline.saturating_duration_since(now())) {
                tracing::debug!(%error, "could not send the deadline to a warden");
            }
        }
    }

    pub(super) fn start_warden(
        &self,
        number: usize,
        isolation: &CommandIsolation,
    ) -> Result<Warden, WardenLaunchError> {
        let launcher = WardenLauncher {
            isolation: isolation.clone(),
            ..self.launcher.clone()
        };
        let warden = launcher.start()?;
        let control = warden.control();
        let mut wardens = self.wardens();
        if let Some(deadline) = wardens.deadline {
            let left = deadline
                .saturating_duration_since(now())
                .max(Duration::from_millis(1));
            if let Err(error) = control.keep_alive_for(left) {
                tracing::debug!(%error, "could not send the deadline to a warden");
            }
        }
        wardens.controls[number] = Some(control);
        Ok(warden)
    }

    pub(super) fn wardens(&self) -> MutexGuard<'_, WardenHandles> {
        self.wardens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn on_not_ready(error: &WardenError) {
    tracing::warn!(
        why = with_causes(error),
        "a warden could not prepare for another task"
    );
}
