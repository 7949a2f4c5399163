//! The wardens with which a slot runs one attempt.
//!
//! The steps of a task run in one cell. Each case of a judged task has a cell of its own, and so has each run of the program
//! that judges it, in its own root: while one warden of a root runs a command, the other one prepares its next cell.

use std::path::PathBuf;
use std::sync::Arc;

use error_causes::with_causes;
use model::{RootName, TaskSpec};
use sandbox::{Warden, WardenLaunchError};

use super::warden_sets::{SlotWardens, WardenSet};
use super::wardens::{AssignedWarden, on_not_ready};
use super::{SlotPool, WardenSlot};
use crate::attempt_control::AttemptControl;
use crate::cell_roots::CellRootError;
use crate::run::RunFailure;
use crate::workspace::Workspace;

/// The wardens of a slot in the roots of one attempt: that of the task, and that of the program that judges it.
pub(crate) struct AttemptWardens<'a> {
    slot_pool: &'a SlotPool,
    control: Arc<AttemptControl>,
    slot_wardens: &'a mut SlotWardens,
    /// Where the wardens of the task are, and those of the program that judges it: the same place for the same root.
    task: usize,
    judge: usize,
}

/// In which root a command of an attempt runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandRoot {
    OfTask,
    /// That of the program that judges the task.
    OfJudge,
}

/// A warden with an empty workspace, for commands that share a cell.
pub(crate) struct ReadyWarden<'a> {
    pub(crate) warden: &'a mut Warden,
    pub(crate) workspace: &'a mut Workspace,
    pub(crate) shell: &'static str,
}

/// Why a slot has no wardens for an attempt in one of its roots.
pub(super) struct RootUnusable {
    pub(super) root: Option<RootName>,
    pub(super) error: CellRootError,
}

impl SlotWardens {
    /// The wardens for an attempt at this task.
    pub(super) fn for_attempt<'a>(
        &'a mut self,
        slot_pool: &'a SlotPool,
        spec: &TaskSpec,
        control: &Arc<AttemptControl>,
    ) -> Result<AttemptWardens<'a>, RootUnusable> {
        let place_of = |wardens: &mut SlotWardens, root: Option<&RootName>| {
            let place = wardens.place_in_root(slot_pool, root);
            place.map_err(|error| RootUnusable {
                root: root.cloned(),
                error,
            })
        };
        let task = place_of(self, spec.root.as_ref())?;
        let program = spec.judging.as_ref().and_then(|judging| judging.check.program());
        // The place of the task was used just now, so it is not the one that was not used for the longest time.
        let judge = program
            .map(|program| place_of(self, program.root.as_ref()))
            .transpose()?;
        Ok(AttemptWardens {
            slot_pool,
            control: control.clone(),
            slot_wardens: self,
            task,
            judge: judge.unwrap_or(task),
        })
    }
}

impl AttemptWardens<'_> {
    /// The wardens in the root of the task.
    pub(super) fn of_task(&mut self) -> &mut WardenSet {
        self.slot_wardens.set_at(self.task)
    }

    /// The folder of the root of the program that judges; `None` is the default root.
    pub(crate) fn judge_root(&mut self) -> Option<PathBuf> {
        self.slot_wardens.set_at(self.judge).root_folder()
    }

    /// Makes the first warden ready, so that the slot can decide what to do if none starts. Returns its number.
    pub(super) fn prepare(&mut self) -> Result<Option<usize>, WardenLaunchError> {
        let set = self.slot_wardens.set_at(self.task);
        self.slot_pool
            .rotate_to_ready_warden(&mut set.wardens, &self.control)?;
        Ok(set.wardens.front().map(|warden_slot| warden_slot.number))
    }

    /// A warden with a new cell. Its workspace must be cleared at the end.
    pub(crate) fn next(&mut self, root: CommandRoot) -> Result<ReadyWarden<'_>, RunFailure> {
        let set = self.slot_wardens.set_at(match root {
            CommandRoot::OfTask => self.task,
            CommandRoot::OfJudge => self.judge,
        });
        set.rotate_if_used();
        let ready = self
            .slot_pool
            .rotate_to_ready_warden(&mut set.wardens, &self.control);
        ready.map_err(|error| RunFailure::ExecutorFailure(with_causes(&error)))?;
        let shell = set.shell;
        let front = set.wardens.front_mut();
        front
            .and_then(|warden_slot| warden_slot.hand_out(shell))
            .ok_or_else(no_warden)
    }

    /// The last warden of [`AttemptWardens::next`] in the root of the task was not used, so the next call returns it again.
    pub(crate) fn take_back_unused(&mut self) {
        if let Some(front) = self.of_task().wardens.front_mut() {
            front.is_used = false;
        }
    }

    /// Two wardens with new cells at the same time: for the task and for the program that talks with it.
    pub(crate) fn next_pair(&mut self) -> Result<[ReadyWarden<'_>; 2], RunFailure> {
        let (slot_pool, control) = (self.slot_pool, &*self.control);
        let (first, second) = if self.task == self.judge {
            let set = self.slot_wardens.set_at(self.task);
            let mut wardens = set.wardens.iter_mut();
            ((wardens.next(), set.shell), (wardens.next(), set.shell))
        } else {
            let (task, judge) = self
                .slot_wardens
                .sets_at(self.task, self.judge)
                .ok_or_else(no_warden)?;
            task.rotate_if_used();
            judge.rotate_if_used();
            let shells = (task.shell, judge.shell);
            (
                (task.wardens.front_mut(), shells.0),
                (judge.wardens.front_mut(), shells.1),
            )
        };
        let ((Some(first), first_shell), (Some(second), second_shell)) = (first, second) else {
            return Err(no_warden());
        };
        for (warden_slot, assigned) in [
            (&mut *first, AssignedWarden::Only),
            (&mut *second, AssignedWarden::Further),
        ] {
            let ready = slot_pool.make_ready(warden_slot, control, assigned);
            ready.map_err(|error| RunFailure::ExecutorFailure(with_causes(&error)))?;
        }
        match (first.hand_out(first_shell), second.hand_out(second_shell)) {
            (Some(first), Some(second)) => Ok([first, second]),
            _ => Err(no_warden()),
        }
    }

    /// Ends all wardens that the attempt has used last, because one of them has failed or was killed.
    pub(super) fn end_used(&mut self) {
        for place in [self.task, self.judge] {
            for warden_slot in &mut self.slot_wardens.set_at(place).wardens {
                if warden_slot.is_used {
                    // The processes of the cell end with their warden a moment later; the control group is killed because
                    // processes of another user cannot be found by their environment.
                    warden_slot.isolation.kill_processes();
                    warden_slot.warden = None;
                }
            }
        }
    }

    /// Lets the used wardens prepare their next cells. The next attempt begins with another one.
    pub(super) fn renew(&mut self) {
        for place in [self.task, self.judge] {
            let set = self.slot_wardens.set_at(place);
            set.rotate_if_used();
            for warden_slot in &mut set.wardens {
                if !std::mem::take(&mut warden_slot.is_used) {
                    continue;
                }
                let renewed = warden_slot
                    .warden
                    .as_mut()
                    .map_or(Ok(()), Warden::reset_for_next_task);
                if let Err(error) = renewed {
                    on_not_ready(&error);
                    warden_slot.warden = None;
                }
            }
        }
    }
}

impl WardenSet {
    /// Moves a used warden to the end, where it has the most time to prepare its next cell.
    fn rotate_if_used(&mut self) {
        if self.wardens.front().is_some_and(|front| front.is_used) {
            self.wardens.rotate_left(1);
        }
    }
}

impl WardenSlot {
    /// `None` never occurs: the warden was made ready.
    fn hand_out(&mut self, shell: &'static str) -> Option<ReadyWarden<'_>> {
        self.is_used = true;
        Some(ReadyWarden {
            warden: self.warden.as_mut()?,
            workspace: &mut self.workspace,
            shell,
        })
    }
}

fn no_warden() -> RunFailure {
    RunFailure::ExecutorFailure("the slot has too few wardens for the task".into())
}
