//! Starts and selects the wardens of a slot, and extends the deadline at which wardens kill their tasks.

use std::collections::VecDeque;
use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use error_causes::with_causes;
use sandbox::{CommandIsolation, CpuNumber, Warden, WardenError, WardenLaunchError, WardenLauncher};

use super::{READY, SlotEvent, SlotPool, WardenHandles, WardenSlot};
use crate::attempt_control::AttemptControl;
use crate::now;

/// The pauses between attempts to start a warden in a slot that has none.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Whether an attempt gets a warden in place of its earlier ones or beside another one.
#[derive(Clone, Copy)]
pub(super) enum AssignedWarden {
    Only,
    Further,
}

impl SlotPool {
    /// Moves the first warden that is ready to run a command to the front.
    pub(super) fn rotate_to_ready_warden(
        &self,
        warden_slots: &mut VecDeque<WardenSlot>,
        control: &AttemptControl,
    ) -> Result<(), WardenLaunchError> {
        let mut last = None;
        for _ in 0..warden_slots.len() {
            let Some(warden_slot) = warden_slots.front_mut() else {
                break;
            };
            match self.make_ready(warden_slot, control, AssignedWarden::Only) {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
            warden_slots.rotate_left(1);
        }
        // Unreachable: a slot has at least one warden.
        Err(last.unwrap_or(WardenLaunchError::Sockets(io::ErrorKind::NotFound.into())))
    }

    /// Makes the current warden ready if it can be, and starts a new one otherwise.
    pub(super) fn make_ready(
        &self,
        warden_slot: &mut WardenSlot,
        control: &AttemptControl,
        assigned: AssignedWarden,
    ) -> Result<(), WardenLaunchError> {
        let assign = |warden: &Warden| match assigned {
            AssignedWarden::Only => control.on_warden_assigned(warden_slot.number, warden.control()),
            AssignedWarden::Further => {
                control.on_further_warden_assigned(warden_slot.number, warden.control());
            }
        };
        if let Some(warden) = &mut warden_slot.warden {
            assign(warden);
            let reset = match warden_slot.is_used {
                true => warden.reset_for_next_task(),
                false => Ok(()),
            };
            match reset.and_then(|()| warden.wait_until_ready()) {
                Ok(()) => {
                    warden_slot.is_used = false;
                    return Ok(());
                }
                Err(error) => on_not_ready(&error),
            }
        }
        // It ends before the new one takes its number.
        warden_slot.warden = None;
        let warden = self.start_warden(warden_slot.number, &warden_slot.isolation)?;
        assign(&warden);
        control.on_operation(READY);
        (warden_slot.warden, warden_slot.is_used) = (Some(warden), false);
        Ok(())
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
        let warden = match self.cpu_of(number) {
            Some(cpu) => launcher.start_pinned(cpu)?,
            None => launcher.start()?,
        };
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

    /// The CPU to which a warden is pinned: that of its slot.
    fn cpu_of(&self, warden: usize) -> Option<CpuNumber> {
        let slot = warden / self.wardens_per_slot as usize % self.slots.max(1) as usize;
        self.cpus.get(slot % self.cpus.len().max(1)).copied()
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
