//! The control handle of one attempt: revokes it, and detects when its slot makes no progress.
//!
//! The thread of a slot waits for its warden and for the disk, and both can hang for ever (state D in the kernel, a disk
//! that does not answer). So the thread sets a deadline before each operation: the operation's own limit, if it has
//! one, and a margin. The report loop checks the deadlines and escalates, with the margin between two stages:
//!
//! 1. It kills the warden. The command dies with it; the thread continues, cleans up and reports the end.
//! 2. If the thread still hangs, the command may no longer start, and another thread kills all processes of the attempt.
//! 3. The attempt is reported as lost, and its slot is out of service until its thread continues.
//!
//! So no process of the attempt can execute code when another executor starts the next attempt: each has been sent SIGKILL,
//! and a process that hangs in a system call dies before it returns to its program.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::TaskForm;
use sandbox::{RunHandle, WardenControl};
use thiserror::Error;

use crate::now;

/// The executor's control handle on one attempt (one run of a task), with which the report loop revokes it. The report
/// loop shares it with the slot that runs the attempt, and detects with it that the slot is stuck.
pub(crate) struct AttemptControl {
    /// The form of the attempt's task, which the report of its end names.
    pub(crate) form: TaskForm,
    /// How long an operation of the slot may take beyond its own limit.
    stall: Duration,
    state: Mutex<AttemptControlState>,
}

/// The error that stops a slot's work on an attempt: the judicator has taken it away, or the executor has killed it.
#[derive(Debug, Error)]
#[error("the attempt was revoked")]
pub(crate) struct AttemptRevoked;

/// The state behind the lock of an [`AttemptControl`]: what the attempt's slot does, and whether it is stuck.
#[derive(Default)]
struct AttemptControlState {
    phase: AttemptPhase,
    /// The numbers and the control handles of the wardens that run the attempt, once a slot has taken it: two while a program
    /// talks with the one that judges it.
    wardens: Vec<(usize, WardenControl)>,
    progress: Option<ProgressDeadline>,
    stage: StuckStage,
    stuck_reason: Option<String>,
    /// Why the executor has killed the attempt, if it has.
    platform_failure: Option<String>,
}

/// In an [`AttemptControl`]: whether commands of the attempt may start, run, or must not run any more.
#[derive(Default)]
enum AttemptPhase {
    #[default]
    NotRunning,
    Running(Vec<RunHandle>),
    Revoked,
}

/// The current operation of an executor's slot, like laying out the files, and when the slot counts as stuck in it.
struct ProgressDeadline {
    operation: &'static str,
    started_at: Instant,
    deadline: Instant,
}

/// How far the executor's escalation against a stuck slot has come: first its warden is killed, then all processes.
#[derive(Clone, Copy, Default)]
enum StuckStage {
    #[default]
    Progressing,
    WardenKilled,
    KillingProcesses,
    GivenUp,
}

/// What the report loop has to do about an attempt whose slot is stuck.
#[derive(Debug, PartialEq)]
pub(crate) enum StuckAction {
    /// Nothing yet: its warden was killed, for this reason.
    WardenKilled(String),
    /// Kill all processes of the attempt; the numbers are those of its wardens.
    KillProcesses(Vec<usize>),
    GiveUp,
}

/// Tells the report loop that the executor process itself was paused (SIGSTOP, or no processor time). After such a
/// pause all deadlines have passed, although no slot has hung.
pub(crate) struct PauseDetector {
    /// The longest gap between two checks of a process that was not paused.
    max_gap: Duration,
    last_check: Instant,
}

impl PauseDetector {
    pub(crate) fn new(max_gap: Duration, now: Instant) -> PauseDetector {
        PauseDetector {
            max_gap,
            last_check: now,
        }
    }

    /// How long the process was paused before this check, if it was.
    pub(crate) fn on_check(&mut self, now: Instant) -> Option<Duration> {
        let gap = now.saturating_duration_since(self.last_check);
        self.last_check = now;
        (gap > self.max_gap).then_some(gap)
    }
}

impl AttemptControl {
    pub(crate) fn new(form: TaskForm, stall: Duration) -> AttemptControl {
        AttemptControl {
            form,
            stall,
            state: Mutex::default(),
        }
    }

    /// Records the commands that are about to run. An error means that the attempt was revoked: then they must not run.
    pub(crate) fn start_commands(&self, run_handles: &[RunHandle]) -> Result<(), AttemptRevoked> {
        let mut state = self.lock();
        if matches!(state.phase, AttemptPhase::Revoked) {
            return Err(AttemptRevoked);
        }
        state.phase = AttemptPhase::Running(run_handles.to_vec());
        Ok(())
    }

    /// Kills the running commands, or prevents them from starting. Returns whether one had started: then there may be
    /// processes of the attempt until its slot reports the end.
    pub(crate) fn revoke(&self) -> io::Result<bool> {
        let mut state = self.lock();
        let phase = std::mem::replace(&mut state.phase, AttemptPhase::Revoked);
        let AttemptPhase::Running(run_handles) = phase else {
            return Ok(false);
        };
        // The slot has only the margin left, which is enough to kill the command.
        let deadline = now() + self.stall;
        state.progress = state.progress.take().map(|progress| ProgressDeadline {
            deadline: progress.deadline.min(deadline),
            ..progress
        });
        let killed: Vec<_> = run_handles.iter().map(RunHandle::kill).collect();
        killed.into_iter().collect::<io::Result<Vec<()>>>().map(|_| true)
    }

    /// The numbers of the wardens that run commands of the attempt, if any run and the attempt was not revoked.
    pub(crate) fn running_wardens(&self) -> Vec<usize> {
        let state = self.lock();
        let is_running = matches!(state.phase, AttemptPhase::Running(_)) && state.progress.is_some();
        match is_running {
            true => state.warden_numbers(),
            false => Vec::new(),
        }
    }

    /// Kills the attempt for a reason that is not the task's; its end is reported as a platform failure.
    pub(crate) fn fail_as_platform(&self, why: String) -> io::Result<bool> {
        self.lock().platform_failure = Some(why);
        self.revoke()
    }

    pub(crate) fn platform_failure(&self) -> Option<String> {
        self.lock().platform_failure.clone()
    }

    pub(crate) fn is_revoked(&self) -> bool {
        matches!(self.lock().phase, AttemptPhase::Revoked)
    }

    /// Starts an operation like [`AttemptControl::on_operation`], unless the attempt was revoked: then the slot has to
    /// stop.
    pub(crate) fn start_operation(&self, operation: &'static str) -> Result<(), AttemptRevoked> {
        match self.is_revoked() {
            true => Err(AttemptRevoked),
            false => {
                self.on_operation(operation);
                Ok(())
            }
        }
    }

    /// A slot runs the attempt with this warden, and no longer with others.
    pub(crate) fn on_warden_assigned(&self, number: usize, warden: WardenControl) {
        let mut state = self.lock();
        state.wardens.clear();
        state.wardens.push((number, warden));
        if !matches!(state.stage, StuckStage::GivenUp) {
            state.stage = StuckStage::Progressing;
            state.stuck_reason = None;
        }
    }

    /// A slot runs the attempt with this warden as well.
    pub(crate) fn on_further_warden_assigned(&self, number: usize, warden: WardenControl) {
        self.lock().wardens.push((number, warden));
    }

    /// The slot starts an operation that may take no longer than the margin.
    pub(crate) fn on_operation(&self, operation: &'static str) {
        self.on_limited_operation(operation, Some(Duration::ZERO));
    }

    /// The slot starts an operation that may take its limit and the margin; without a limit it has no deadline.
    pub(crate) fn on_limited_operation(&self, operation: &'static str, limit: Option<Duration>) {
        self.on_limited_operation_at(now(), operation, limit);
    }

    fn on_limited_operation_at(&self, started_at: Instant, operation: &'static str, limit: Option<Duration>) {
        let far = Duration::from_secs(365 * 24 * 3600);
        let deadline = started_at + limit.map_or(far, |limit| limit.min(far) + self.stall);
        self.lock().progress = Some(ProgressDeadline {
            operation,
            started_at,
            deadline,
        });
    }

    /// The attempt is back in the queue, and no slot works on it.
    pub(crate) fn on_put_back(&self) {
        let mut state = self.lock();
        state.progress = None;
        state.wardens.clear();
    }

    /// Why the slot of the attempt is considered stuck, if it is.
    pub(crate) fn stuck_reason(&self) -> Option<String> {
        self.lock().stuck_reason.clone()
    }

    /// The attempt was reported as lost; a result that its slot reports later is ignored.
    pub(crate) fn give_up(&self) {
        let mut state = self.lock();
        state.phase = AttemptPhase::Revoked;
        state.stage = StuckStage::GivenUp;
    }

    /// The slot has finished with the attempt.
    pub(crate) fn on_ended(&self) {
        self.lock().progress = None;
    }

    /// Whether the slot has finished with the attempt, so that its warden may run another one.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().progress.is_none()
    }

    /// Whether the slot still hangs in this attempt, so that the processes of its warden belong to this attempt.
    pub(crate) fn is_slot_stuck(&self) -> bool {
        let state = self.lock();
        matches!(state.stage, StuckStage::KillingProcesses) && state.progress.is_some()
    }

    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.lock().stage, StuckStage::GivenUp)
    }

    /// Extends the deadline: the executor process was paused for this long, and its slots with it.
    pub(crate) fn on_executor_paused(&self, pause: Duration) {
        if let Some(progress) = &mut self.lock().progress {
            progress.deadline += pause;
        }
    }

    /// Enters the next stage if the deadline of the current operation has passed.
    pub(crate) fn check_progress(&self, now: Instant) -> Option<StuckAction> {
        let mut state = self.lock();
        let state = &mut *state;
        let progress = state
            .progress
            .as_mut()
            .filter(|progress| progress.deadline <= now)?;
        progress.deadline = now + self.stall;
        match state.stage {
            StuckStage::Progressing => {
                let waited = now.saturating_duration_since(progress.started_at);
                let why = format!(
                    "its slot did not {} within {}s",
                    progress.operation,
                    waited.as_secs()
                );
                state.stuck_reason = Some(why.clone());
                state.stage = StuckStage::WardenKilled;
                // An error means that the warden has already exited.
                for (_, warden) in &state.wardens {
                    let _ = warden.kill_warden();
                }
                Some(StuckAction::WardenKilled(why))
            }
            StuckStage::WardenKilled => {
                state.stage = StuckStage::KillingProcesses;
                state.phase = AttemptPhase::Revoked;
                Some(StuckAction::KillProcesses(state.warden_numbers()))
            }
            StuckStage::KillingProcesses => Some(StuckAction::GiveUp),
            StuckStage::GivenUp => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, AttemptControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AttemptControlState {
    fn warden_numbers(&self) -> Vec<usize> {
        self.wardens.iter().map(|(number, _)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    #[test]
    fn a_stuck_attempt_is_escalated_stage_by_stage() {
        let control = AttemptControl::new(TaskForm::CURRENT, STALL);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // No deadline applies before a slot has taken the attempt.
        assert_eq!(control.check_progress(at(10_000)), None);
        control.on_limited_operation_at(start, "run the command", Some(Duration::from_secs(60)));
        assert_eq!(control.check_progress(at(89)), None);
        let why = "its slot did not run the command within 92s".to_string();
        assert_eq!(
            control.check_progress(at(92)),
            Some(StuckAction::WardenKilled(why.clone()))
        );
        assert_eq!(control.check_progress(at(121)), None);
        assert!(!control.is_revoked());
        assert_eq!(
            control.check_progress(at(122)),
            Some(StuckAction::KillProcesses(vec![]))
        );
        assert!(control.is_revoked(), "its command must not start any more");
        assert_eq!(control.check_progress(at(152)), Some(StuckAction::GiveUp));
        control.give_up();
        assert_eq!(control.check_progress(at(10_000)), None);
        assert_eq!(control.stuck_reason(), Some(why));
    }

    #[test]
    fn an_attempt_that_failed_as_platform_starts_no_operation() {
        let control = AttemptControl::new(TaskForm::CURRENT, STALL);
        assert!(control.start_operation("lay out the files").is_ok());
        control
            .fail_as_platform("the machine was short of memory".into())
            .unwrap();
        assert!(control.start_operation("lay out the files").is_err());
    }

    #[test]
    fn a_pause_of_the_executor_process_extends_the_deadlines() {
        let control = AttemptControl::new(TaskForm::CURRENT, STALL);
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut pause_detector = PauseDetector::new(Duration::from_secs(5), start);
        let mut check = |seconds: u64| {
            if let Some(pause) = pause_detector.on_check(at(seconds)) {
                control.on_executor_paused(pause);
            }
            control.check_progress(at(seconds))
        };
        control.on_limited_operation_at(start, "lay out the files", Some(Duration::ZERO));
        for seconds in [5, 10, 15, 20, 25] {
            assert_eq!(check(seconds), None);
        }
        // The process is paused for a minute; the slot then still has the rest of its margin.
        assert_eq!(check(85), None);
        assert_eq!(check(89), None);
        let why = "its slot did not lay out the files within 90s".to_string();
        assert_eq!(check(90), Some(StuckAction::WardenKilled(why)));
        assert_eq!(check(190), None, "a pause between two stages counts as well");
    }

    #[test]
    fn a_new_operation_and_one_without_a_limit_extend_the_deadline() {
        let control = AttemptControl::new(TaskForm::CURRENT, STALL);
        let start = Instant::now();
        control.on_limited_operation_at(start, "lay out the files", Some(Duration::ZERO));
        let later = start + Duration::from_secs(29);
        assert_eq!(control.check_progress(later), None);
        control.on_limited_operation_at(start, "run the command", None);
        assert_eq!(
            control.check_progress(later + Duration::from_secs(7 * 24 * 3600)),
            None
        );
        control.on_limited_operation_at(start, "clear the workspace", Some(Duration::ZERO));
        assert!(control.check_progress(start + STALL).is_some());
    }
}
