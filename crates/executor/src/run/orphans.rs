//! Kills the processes of an attempt whose warden cannot do so.

use std::ffi::OsString;
use std::path::PathBuf;

use model::AttemptId;
use sandbox::{KillOrphansError, ProcessSelector, kill_orphans, kill_orphans_while};

use crate::attempt_control::AttemptControl;

/// The environment variable of all commands of an attempt, by which its processes are found.
pub(super) const ATTEMPT_VARIABLE: &str = "CONCLAVE_ATTEMPT";

/// Kills the processes of an attempt whose warden cannot do so. They are found by an environment variable with the attempt
/// number, because another warden may already run the next attempt of the same task.
pub(crate) fn kill_attempt_processes(
    attempt_id: &AttemptId,
    directory: Option<PathBuf>,
) -> Result<usize, KillOrphansError> {
    kill_orphans(&ProcessSelector {
        environment_variable: Some((ATTEMPT_VARIABLE.into(), attempt_marker(attempt_id))),
        working_directory: directory,
    })
}

/// Kills the processes whose working directory is in a workspace, as long as no other attempt can use the workspace.
pub(crate) fn kill_processes_in_folder(
    directory: PathBuf,
    control: &AttemptControl,
) -> Result<usize, KillOrphansError> {
    let selector = ProcessSelector {
        environment_variable: None,
        working_directory: Some(directory),
    };
    kill_orphans_while(&selector, || control.is_slot_stuck())
}

/// The value of the variable in all commands of an attempt.
pub(super) fn attempt_marker(attempt_id: &AttemptId) -> OsString {
    format!("{}/{}", attempt_id.task, attempt_id.attempt).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_types, reason = "stands for a process of a task")]
    fn processes_in_the_folder_of_a_slot_that_continued_are_not_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut sleep = std::process::Command::new("sleep");
        let mut next_attempt = sleep.arg("60").current_dir(folder.path()).spawn().unwrap();
        // The attempt that was stuck has ended.
        let control = AttemptControl::new(model::TaskForm::CURRENT, Duration::from_secs(30));
        assert!(!control.is_slot_stuck());
        let ended = kill_processes_in_folder(folder.path().to_path_buf(), &control);
        let ended_by_us = next_attempt.try_wait().unwrap();
        next_attempt.kill().unwrap();
        next_attempt.wait().unwrap();
        assert_eq!((ended.unwrap(), ended_by_us), (0, None));
    }
}
