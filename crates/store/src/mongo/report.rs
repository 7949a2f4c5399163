//! Handles the five steps of a report, in their order.
//!
//! The store reads everything that the steps need, decides them in memory (`steps`, `claim`), and writes the outcome in
//! one transaction, on the condition that nothing that it read has changed. The transaction includes the executor's
//! document, so that two reports of one executor are serialized, also if different judicators handle them.

mod assignments;
mod claim;
mod claim_scope;
mod queue;
mod read_keys;
mod read_queue;
mod steps;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::try_join;
use model::{
    AttemptEnd, BlobHash, EncodedEnd, Report, ReportAnswer, ReportInstructions, ReportIntent, SessionCheck,
    TaskId, check_session,
};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};

use self::claim::AssignedTask;
pub(super) use self::queue::ClaimReservations;
pub(super) use self::read_keys::{first_queued, judged};
pub(super) use self::read_queue::{queue_order, required_queue_order};
use self::steps::ReportSteps;
use super::age;
use super::blobs::{self, BlobLookup};
use super::content::PreparedContent;
use super::context::{EXECUTORS, StoreContext, now};
use super::drain::DrainDocument;
use super::failure::MongoFailure;
use super::group_counters::GroupStripe;
use super::retry::{COMMAND_TIMEOUT, RetryCount};
use super::session::{self, SessionFate};
use super::transaction::Transaction;
use super::transition_batch::TransitionBatch;
use crate::document::{EncodedAttempt, EncodedReport, encode_result, encode_tools};
use crate::{FinishedAttempt, HandledReport, StoreError};

/// An executor's report whose results are encoded for MongoDB, with the large ones already uploaded.
pub(super) type PreparedReport = EncodedReport<Arc<PreparedContent>>;

/// The outcome of an executor's report after its MongoDB transaction is committed. The specs of the assigned tasks are
/// not read yet.
pub(super) struct CommittedReport {
    answer: ReportAnswer,
    finished: Vec<FinishedAttempt>,
    assigned: Vec<AssignedTask>,
}

impl PreparedReport {
    /// Encodes the results, and uploads those that are too large for the transaction.
    pub(super) async fn prepare(
        context: &Arc<StoreContext>,
        mut report: Report,
    ) -> Result<PreparedReport, StoreError> {
        let mut completed = Vec::with_capacity(report.complete.len());
        for attempt in &mut report.complete {
            // The unencoded result is not needed from here on, and may be large.
            let end = std::mem::replace(&mut attempt.end, AttemptEnd::Broken(String::new()));
            let mut blobs = vec![];
            let end = match end {
                AttemptEnd::Result(result) => {
                    blobs = result.blobs();
                    EncodedEnd::Result {
                        status: result.status(),
                        reason: result.reason(),
                        result: Arc::new(PreparedContent::prepare(context, encode_result(&result)?).await?),
                    }
                }
                AttemptEnd::Broken(trouble) => EncodedEnd::Broken(trouble),
                AttemptEnd::PlatformFailure(trouble) => EncodedEnd::PlatformFailure(trouble),
            };
            completed.push(EncodedAttempt {
                attempt_id: attempt.attempt_id,
                form: attempt.form,
                blobs,
                end,
            });
        }
        let tools = report.executor_info.tools.as_deref().map(encode_tools);
        Ok(PreparedReport {
            tools: tools.transpose()?,
            report,
            completed,
        })
    }

    pub(super) fn bytes_in_transaction(&self) -> usize {
        let results: usize = self.results().map(PreparedContent::bytes_in_transaction).sum();
        results + self.tools.as_ref().map_or(0, Vec::len)
    }

    /// The blobs that the results name, each once.
    fn blobs(&self) -> Vec<BlobHash> {
        let blobs: BTreeSet<_> = self.completed.iter().flat_map(|attempt| &attempt.blobs).collect();
        blobs.into_iter().copied().collect()
    }

    /// The files that were uploaded before the transaction.
    pub(super) fn uploaded_files(&self) -> Vec<ObjectId> {
        self.results().filter_map(PreparedContent::file).collect()
    }

    fn results(&self) -> impl Iterator<Item = &PreparedContent> {
        self.completed.iter().filter_map(|attempt| match &attempt.end {
            EncodedEnd::Result { result, .. } => Some(&**result),
            EncodedEnd::Broken(_) | EncodedEnd::PlatformFailure(_) => None,
        })
    }
}

pub(super) async fn report(
    context: Arc<StoreContext>,
    prepared: Arc<PreparedReport>,
    retries: RetryCount,
) -> Result<CommittedReport, MongoFailure> {
    let report = &prepared.report;
    let completed: Vec<TaskId> = prepared
        .completed
        .iter()
        .map(|attempt| attempt.attempt_id.task)
        .collect();
    // The session is read before its tasks. The writes are conditional on the session's revision, which a concurrent
    // report of the session changes. In the other order, a report that leaves would miss tasks that a report claims
    // between the two reads.
    let found = session::read(&context, &report.executor).await?.into_readable()?;
    let (executor, stored_session) = found.unzip();
    let drain = executor.as_ref().and_then(|executor| executor.drain.as_ref());
    let drain = drain.map(DrainDocument::to_drain);
    // A drained executor gets no new tasks.
    let wanted = match drain {
        Some(_) => 0,
        None => queue::task_limit(report),
    };
    let tools = session::claiming_tools(&context, executor.as_ref(), report);
    // Only these reports can end a task or a session, and need the store's age as a stamp.
    let needs_age = !prepared.completed.is_empty() || report.intent == ReportIntent::Leave;
    let age = async {
        match needs_age {
            true => age::now(&context).await.map(Some),
            false => Ok(None),
        }
    };
    let blobs = async {
        match prepared.blobs() {
            blobs if blobs.is_empty() => Ok(BlobLookup::default()),
            blobs => blobs::find(&context, &blobs).await,
        }
    };
    let (held, head, age, blobs) = try_join!(
        session::held_tasks(&context, &report.executor, &completed),
        queue::reserve(&context, report, wanted, tools, retries),
        age,
        blobs
    )?;
    let check = check_session(stored_session.as_ref(), report);
    if let SessionCheck::Refused(answer) = check {
        // Frees the reserved tasks for other reports.
        drop(head);
        session::confirm_unchanged(&context, &report.executor, executor.as_ref()).await?;
        return Ok(CommittedReport {
            answer,
            finished: vec![],
            assigned: vec![],
        });
    }
    let mut batch = TransitionBatch::new(now(), context.max_attempts)
        .with_store_age(age)
        .with_group_stripe(GroupStripe::of(&report.executor));
    held.readable.into_iter().for_each(|task| batch.insert(task));
    let mut steps = ReportSteps::new(held.newer);
    steps.apply(&prepared, &blobs, &mut batch);
    let mut fate = SessionFate::Live;
    match report.intent {
        ReportIntent::Stay => claim::claim(report, wanted, &head, &mut steps, &mut batch)?,
        ReportIntent::Leave => {
            if steps.leave(report, &mut batch) {
                fate = SessionFate::Ended(age);
            }
        }
    }
    let deltas = batch.counter_deltas();
    let mut transaction = Transaction::default();
    let executor_update = match (&check, &executor) {
        (SessionCheck::Continues, Some(executor)) => {
            session::renewal_update(executor, &prepared, &deltas, fate)
        }
        _ => {
            if batch.names_blobs() {
                // `blobs::remove_unused` waits for transactions that write an existing document of an executor, but this
                // one may insert it.
                transaction.touch_ledger()?;
            }
            session::opening_update(executor.as_ref(), &prepared, &deltas, fate)
        }
    };
    if check == SessionCheck::Continues && !batch.is_changed() {
        renew_session(&context, executor_update).await?;
    } else {
        transaction.update(EXECUTORS, [executor_update])?;
        // The tasks are written last, to keep the time short in which other transactions conflict with them.
        batch.write(&mut transaction)?;
        transaction.commit(&context).await?;
        batch.record_ends(&context.ends);
    }
    // The reservation lasts until the commit, so that no other report of this process tries to claim the same tasks.
    drop(head);
    Ok(CommittedReport {
        answer: ReportAnswer::Done(ReportInstructions {
            delete: steps.delete,
            upload_again: steps.upload_again,
            assign: vec![],
            drain,
        }),
        finished: steps.finished,
        assigned: steps.assigned,
    })
}

/// Reads the specs of the assigned tasks. If that fails, the executor repeats its report and gets the same tasks.
pub(super) async fn read_assignments(
    context: &Arc<StoreContext>,
    prepared: &PreparedReport,
    committed: CommittedReport,
) -> Result<HandledReport, StoreError> {
    let CommittedReport {
        mut answer,
        finished,
        assigned,
    } = committed;
    let mut claimed_add_times = vec![];
    if let ReportAnswer::Done(instructions) = &mut answer {
        let executor = &prepared.report.executor;
        (instructions.assign, claimed_add_times) = assignments::read(context, executor, assigned).await?;
    }
    Ok(HandledReport {
        answer,
        finished,
        claimed_add_times,
    })
}

/// The only write of a report without changes: a single update without a transaction.
async fn renew_session(context: &StoreContext, mut update: Document) -> Result<(), MongoFailure> {
    let (Ok(condition), Ok(change)) = (
        update.get_document_mut("q").map(std::mem::take),
        update.get_document_mut("u").map(std::mem::take),
    ) else {
        return Err(MongoFailure::Conflict);
    };
    let found = context
        .collection::<Document>(EXECUTORS)
        .find_one_and_update(condition, change)
        .projection(doc! { "_id": 1 })
        .max_time(COMMAND_TIMEOUT)
        .await?;
    found.map(drop).ok_or(MongoFailure::Conflict)
}
