//! Step 2: committing what has ended, if it is the attempt that is out.

use model::{Complete, End, Handout, Release, Report, Status, TaskResult};

use super::Handled;
use crate::sqlite::failure::Failure;
use crate::sqlite::group::Group;
use crate::sqlite::rows::{self, Position};
use crate::sqlite::transition;
use crate::{Finished, StoreError};

#[derive(Debug)]
pub(super) struct Ended {
    handout: Handout,
    how: How,
}

#[derive(Debug)]
enum How {
    Result { status: Status, document: Vec<u8> },
    Broken(String),
    PlatformFailure(String),
}

impl Ended {
    pub(super) fn of(
        complete: &Complete,
        encode: impl FnOnce(&TaskResult) -> Result<Vec<u8>, StoreError>,
    ) -> Result<Ended, StoreError> {
        let how = match &complete.end {
            End::Result(result) => How::Result {
                status: result.status(),
                document: encode(result)?,
            },
            End::Broken(trouble) => How::Broken(trouble.clone()),
            End::PlatformFailure(trouble) => How::PlatformFailure(trouble.clone()),
        };
        Ok(Ended {
            handout: complete.handout,
            how,
        })
    }

    pub(super) fn weight(&self) -> usize {
        match &self.how {
            How::Result { document, .. } => document.len(),
            How::Broken(trouble) | How::PlatformFailure(trouble) => trouble.len(),
        }
    }
}

/// Committed or stale, either way it is settled: the executor may forget it.
pub(super) fn finish(
    group: &mut Group<'_>,
    report: &Report,
    ended: &[Ended],
    handled: &mut Handled,
) -> Result<(), Failure> {
    for Ended { handout, how } in ended {
        let found = match rows::position(group.connection(), handout.task) {
            // It cannot take the result. The report goes on without it.
            Err(Failure::Refused(error)) => {
                group
                    .set_aside()
                    .note(format_args!("task {}", handout.task), error);
                None
            }
            found => found?,
        };
        if let Some(task) = found.filter(|task| task.is_out_as(*handout, &report.executor)) {
            settle(group, report, (&task, how), handled)?;
        }
        handled.answer.delete.push(*handout);
    }
    Ok(())
}

fn settle(
    group: &mut Group<'_>,
    report: &Report,
    (task, how): (&Position, &How),
    handled: &mut Handled,
) -> Result<(), Failure> {
    match how {
        How::Result { status, document } if task.status.may_become(*status) => {
            transition::finish(group, task, *status, document, &report.executor)?;
            let finish_time = group.time_of(task);
            handled.finished.push(Finished {
                task: task.id,
                attempt: task.attempt,
                status: *status,
                start_time: task.start_time.unwrap_or(finish_time),
                finish_time,
            });
            Ok(())
        }
        // An executor that contradicts itself cannot be believed; the task is run again, but not for ever.
        How::Result { status, .. } => {
            let trouble = format!(
                "executor {} reported {status} after {}",
                report.executor, task.status
            );
            transition::release(group, task, Release::Lost(&trouble))
        }
        How::Broken(trouble) => transition::release(group, task, Release::Lost(trouble)),
        How::PlatformFailure(trouble) => transition::release(group, task, Release::PlatformFailure(trouble)),
    }
}
