//! Converts between the limits and outcomes of a task's steps and those of the sandbox.

use std::fs::File;
use std::sync::Arc;

use model::{CapturedOutput, Limits, Outcome, OutcomeReason};
use sandbox::CapturedStream;

use crate::attempt_control::AttemptRevoked;
use crate::outgoing::{AddFileError, FileCopier, NoRoom, OutgoingFiles, OutgoingFolder};

/// The outcome of a step as its slot gets it from the warden, with the files of output that is too long for a result.
pub(crate) struct StepOutcome {
    /// Its outputs have no blobs yet.
    pub(crate) outcome: Outcome,
    /// All kept bytes of stdout, if they are more than its head. The same for stderr.
    pub(crate) stdout: Option<Arc<File>>,
    pub(crate) stderr: Option<Arc<File>>,
}

impl StepOutcome {
    /// `None` if the command was killed by the executor and not by itself or its limits.
    pub(crate) fn from_sandbox(outcome: sandbox::CommandOutcome) -> Option<StepOutcome> {
        let [stdout, stderr] = [&outcome.stdout, &outcome.stderr].map(|stream| stream.file.clone());
        Some(StepOutcome {
            outcome: outcome_from_sandbox(outcome)?,
            stdout,
            stderr,
        })
    }

    pub(crate) fn without_long_output(outcome: Outcome) -> StepOutcome {
        StepOutcome {
            outcome,
            stdout: None,
            stderr: None,
        }
    }
}

/// The outcome of a command that its own slot killed. `None` if the warden ended it because the attempt is no longer ours.
pub(crate) fn outcome_of_killed(outcome: sandbox::CommandOutcome) -> Option<Outcome> {
    if outcome.reason != sandbox::CommandEndReason::Cancelled {
        return outcome_from_sandbox(outcome);
    }
    let reason = sandbox::CommandEndReason::Signalled;
    let killed = outcome_from_sandbox(sandbox::CommandOutcome { reason, ..outcome })?;
    Some(Outcome {
        reason: OutcomeReason::Cancelled,
        ..killed
    })
}

/// Moves the file of a long output into the outgoing folder, as the blob of the output. If there is no room for it, only
/// its head is kept, and the output is marked as truncated.
pub(crate) fn keep_long_output(
    outgoing: &OutgoingFolder,
    output: &mut CapturedOutput,
    file: &File,
    files: &mut OutgoingFiles,
    progress: &dyn Fn() -> Result<(), AttemptRevoked>,
) -> Result<(), AttemptRevoked> {
    let added = match outgoing.reserve(output.size, files, progress)? {
        Ok(room) => match FileCopier::new(progress).link(room, file, files) {
            Ok(added) => Some(added),
            Err(AddFileError::Revoked(revoked)) => return Err(revoked),
            Err(AddFileError::Io(error)) => {
                tracing::warn!(%error, "could not keep the long output of a step; only its head is kept");
                None
            }
        },
        Err(NoRoom) => {
            tracing::warn!("no room for the long output of a step; only its head is kept");
            None
        }
    };
    match added {
        Some(added) if added.size > output.head.len() as u64 => {
            output.truncated |= added.size < output.size;
            (output.size, output.blob) = (added.size, Some(added.hash));
        }
        _ => keep_head_only(output),
    }
    Ok(())
}

/// Drops what is not in the head.
pub(crate) fn keep_head_only(output: &mut CapturedOutput) {
    let head = output.head.len() as u64;
    output.truncated |= output.size > head;
    (output.size, output.blob) = (head, None);
}

/// Converts the limits of a step into those of the sandbox.
pub fn limits_for_sandbox(limits: &Limits) -> sandbox::CommandLimits {
    sandbox::CommandLimits {
        wall: limits.wall,
        cpu: limits.cpu,
        memory: limits.memory,
        output: limits.output,
        processes: limits.processes,
        file_size: limits.file_size,
        open_files: limits.open_files.map(u64::from),
        stack: limits.stack,
    }
}

/// Converts the outcome of the sandbox. `None` if the command was killed by the executor and not by itself or its limits. The
/// outputs have their heads and sizes; the rest of a long one is in the file of its stream.
pub fn outcome_from_sandbox(outcome: sandbox::CommandOutcome) -> Option<Outcome> {
    let reason = match outcome.reason {
        sandbox::CommandEndReason::Exited => OutcomeReason::Exited,
        sandbox::CommandEndReason::Signalled => OutcomeReason::Signalled,
        sandbox::CommandEndReason::TimeLimit => OutcomeReason::TimeLimit,
        sandbox::CommandEndReason::WallLimit => OutcomeReason::WallLimit,
        sandbox::CommandEndReason::MemoryLimit => OutcomeReason::MemoryLimit,
        sandbox::CommandEndReason::OutputLimit => OutcomeReason::OutputLimit,
        sandbox::CommandEndReason::ProcessLimit => OutcomeReason::ProcessLimit,
        sandbox::CommandEndReason::DiskLimit => OutcomeReason::DiskLimit,
        sandbox::CommandEndReason::Cancelled | sandbox::CommandEndReason::Abandoned => return None,
    };
    let captured = |stream: CapturedStream| CapturedOutput {
        head: stream.head.into(),
        size: stream.size,
        blob: None,
        truncated: stream.truncated,
    };
    Some(Outcome {
        reason,
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        wall: outcome.wall,
        cpu: outcome.cpu,
        memory: outcome.memory,
        stdout: captured(outcome.stdout),
        stderr: captured(outcome.stderr),
    })
}
