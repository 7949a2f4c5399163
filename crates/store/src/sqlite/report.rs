//! Handles a report: its five steps, in their order, in one transaction.

mod claim;
mod complete;
mod executing;
mod queue;

use std::collections::HashMap;

use model::{
    AttemptEnd, EncodedEnd, Report, ReportAnswer, ReportInstructions, ReportIntent, SessionCheck, UnixTime,
    check_session, reconcile_held_tasks,
};

pub(super) use self::queue::{NEXT_KEY, common_keys};
use super::drain;
use super::failure::SqliteFailure;
use super::group_transaction::GroupTransaction;
use super::rows;
use super::session;
use super::transition::{Release, release};
use crate::document::{EncodedAttempt, EncodedReport, encode_result, encode_tools};
use crate::{FinishedAttempt, HandledReport, StoreError};

/// An executor's report whose results are encoded as the SQLite store writes them.
pub(super) type EncodedSqliteReport = EncodedReport<Vec<u8>>;

/// About how much a reference to a blob writes.
pub(super) const BLOB_REF_BYTES: usize = 128;

/// What the SQLite store has collected so far, step by step, for the answer to an executor's report.
#[derive(Default)]
struct ReportProgress {
    instructions: ReportInstructions,
    finished: Vec<FinishedAttempt>,
    claimed_add_times: Vec<UnixTime>,
}

impl EncodedSqliteReport {
    /// Called on the caller's thread, so that the writer thread has less to do.
    pub(super) fn encode(report: Report) -> Result<EncodedSqliteReport, StoreError> {
        let mut completed = Vec::with_capacity(report.complete.len());
        for attempt in &report.complete {
            let end = match &attempt.end {
                AttemptEnd::Result(result) => EncodedEnd::Result {
                    status: result.status(),
                    reason: result.reason(),
                    result: encode_result(result)?,
                },
                AttemptEnd::Broken(trouble) => EncodedEnd::Broken(trouble.clone()),
                AttemptEnd::PlatformFailure(trouble) => EncodedEnd::PlatformFailure(trouble.clone()),
            };
            completed.push(EncodedAttempt {
                attempt_id: attempt.attempt_id,
                form: attempt.form,
                blobs: match &attempt.end {
                    AttemptEnd::Result(result) => result.blobs(),
                    AttemptEnd::Broken(_) | AttemptEnd::PlatformFailure(_) => vec![],
                },
                end,
            });
        }
        let tools = report.executor_info.tools.as_deref().map(encode_tools);
        Ok(EncodedReport {
            tools: tools.transpose()?,
            report,
            completed,
        })
    }

    /// About how much the report writes.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |attempt: &EncodedAttempt<Vec<u8>>| match &attempt.end {
            EncodedEnd::Result { result, .. } => result.len() + attempt.blobs.len() * BLOB_REF_BYTES,
            EncodedEnd::Broken(trouble) | EncodedEnd::PlatformFailure(trouble) => trouble.len(),
        };
        self.completed.iter().map(bytes).sum::<usize>() + self.tools.as_ref().map_or(0, Vec::len)
    }
}

pub(super) fn report(
    transaction: &mut GroupTransaction<'_>,
    encoded: &EncodedSqliteReport,
) -> Result<HandledReport, SqliteFailure> {
    let report = &encoded.report;
    let stored = session::find(transaction, &report.executor)?;
    match check_session(stored.as_ref(), report) {
        SessionCheck::Refused(answer) => {
            return Ok(HandledReport {
                answer,
                finished: vec![],
                claimed_add_times: vec![],
            });
        }
        SessionCheck::Continues => session::renew(transaction, report)?,
        SessionCheck::Opens => session::open(transaction, report)?,
    }
    if let Some(tools) = &encoded.tools {
        session::write_tools(transaction, &report.executor, tools)?;
    }
    let mut progress = ReportProgress::default();
    progress.instructions.drain = drain::find(transaction, &report.executor)?;
    complete::apply(transaction, encoded, &mut progress)?;
    let held = executing::record(transaction, report, &mut progress.instructions)?;
    // A session that replaces another one goes on to deliver the results of attempts that its reports name. The other
    // attempts of the earlier session were only queued in the executor, so their release is not a loss.
    let held_tasks: Vec<_> = held
        .iter()
        .filter_map(|task| Some(task.held_task(task.session?)))
        .collect();
    let reconciled = reconcile_held_tasks(&held_tasks, report);
    let by_id: HashMap<_, _> = held.iter().map(|task| (task.id, task)).collect();
    for attempt_id in &reconciled.release {
        release(transaction, by_id[&attempt_id.task], Release::GIVEN_BACK)?;
    }
    match report.intent {
        ReportIntent::Stay => {
            let reassigned = reconciled
                .reassign
                .iter()
                .map(|attempt_id| by_id[&attempt_id.task]);
            // A drained executor gets no new tasks.
            let vacant = match progress.instructions.drain {
                Some(_) => 0,
                None => report.vacant,
            };
            claim::claim(transaction, report, vacant, reassigned, &mut progress)?;
        }
        ReportIntent::Leave => leave(transaction, report, &mut progress.instructions)?,
    }
    Ok(HandledReport {
        answer: ReportAnswer::Done(progress.instructions),
        finished: progress.finished,
        claimed_add_times: progress.claimed_add_times,
    })
}

/// Releases the tasks that the executor still holds and ends its session. The executor must kill the attempts that it listed
/// as executing. It keeps those that it names of tasks of unknown forms: they may have finished, and a newer judicator commits
/// their results. Until then its session stays live.
fn leave(
    transaction: &mut GroupTransaction<'_>,
    report: &Report,
    instructions: &mut ReportInstructions,
) -> Result<(), SqliteFailure> {
    let held = rows::held(
        transaction.connection(),
        &report.executor,
        transaction.unreadable_rows(),
    )?;
    let (kept, released): (Vec<_>, Vec<_>) = held.iter().partition(|task| report.keeps_on_leaving(task));
    for task in released {
        release(transaction, task, Release::GIVEN_BACK)?;
        instructions
            .delete
            .extend(task.session.map(|session| task.attempt_id(session)));
    }
    match kept.is_empty() {
        true => session::end(transaction, &report.executor),
        false => Ok(()),
    }
}
