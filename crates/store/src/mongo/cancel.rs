//! Cancels tasks, whether executors run them or not.

use std::sync::Arc;

use futures::TryStreamExt;
use model::{TaskId, TaskStatus, UnixTime};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::age;
use super::bson_values::ToBson;
use super::context::{StoreContext, now};
use super::failure::MongoFailure;
use super::retry::{COMMAND_TIMEOUT, RetryCount};
use super::task_document::{StoredTask, parse_readable, parse_required, without_content};
use super::transaction::Transaction;
use super::transition_batch::TransitionBatch;

/// Whether the MongoDB store has found the task that it was asked to cancel.
pub(super) enum CancelOutcome {
    NotFound,
    Found,
}

pub(super) async fn cancel(context: Arc<StoreContext>, id: TaskId) -> Result<CancelOutcome, MongoFailure> {
    let found = context
        .tasks()
        .find_one(doc! { "_id": id.to_bson() })
        .projection(without_content())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let Some(document) = found else {
        return confirm_unchanged(&context, id, None)
            .await
            .map(|()| CancelOutcome::NotFound);
    };
    let task = StoredTask::try_from(&parse_required(&context, &document)?)?;
    if !task.state.status.may_become(TaskStatus::Cancelled) {
        confirm_unchanged(&context, id, Some(task.state.status)).await?;
    } else {
        let age = age::now(&context).await?;
        let mut batch = TransitionBatch::new(now(), context.max_attempts).with_store_age(Some(age));
        batch.insert(task);
        batch.cancel(id);
        let mut transaction = Transaction::default();
        transaction.add_to_counters(&batch.counter_deltas())?;
        batch.write(&mut transaction)?;
        transaction.commit(&context).await?;
        batch.record_ends(&context.ends);
    }
    Ok(CancelOutcome::Found)
}

/// Each conflict divides the number of tasks that one transaction cancels by this: executors may claim some of the tasks
/// at the same time.
const BATCH_REDUCTION: usize = 4;
const MIN_BATCH: usize = 10;

/// The result of one transaction that cancels many tasks in the MongoDB store.
pub(super) struct CancelledBatch {
    /// How many of the ids it has handled, from the first on.
    pub(super) handled: usize,
    pub(super) cancelled: u64,
}

/// Cancels those of the first tasks that are not done: all, or fewer after conflicts. `call_time` is the same in all tries,
/// so that a task that an earlier try has cancelled counts, too, if the reply to that try was lost.
pub(super) async fn cancel_batch(
    context: Arc<StoreContext>,
    ids: Arc<Vec<TaskId>>,
    call_time: UnixTime,
    retries: RetryCount,
) -> Result<CancelledBatch, MongoFailure> {
    let reduced = ids.len() / BATCH_REDUCTION.saturating_pow(retries.0);
    let handled = reduced.max(MIN_BATCH).min(ids.len());
    let names: Vec<_> = ids[..handled].iter().map(ToBson::to_bson).collect();
    let found = context
        .tasks()
        .find(doc! { "_id": { "$in": names } })
        .projection(without_content())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let age = age::now(&context).await?;
    let mut batch = TransitionBatch::new(call_time, context.max_attempts).with_store_age(Some(age));
    let mut cancelled = 0;
    for document in parse_readable(&context, found) {
        let task = StoredTask::try_from(&document)?;
        let (id, status) = (task.state.id, task.state.status);
        if status == TaskStatus::Cancelled && task.finish_time == Some(call_time) {
            cancelled += 1;
        } else if status.may_become(TaskStatus::Cancelled) && task.state.form.is_known() {
            batch.insert(task);
            batch.cancel(id);
            cancelled += 1;
        }
    }
    if batch.is_changed() {
        let mut transaction = Transaction::default();
        transaction.add_to_counters(&batch.counter_deltas())?;
        batch.write(&mut transaction)?;
        transaction.commit(&context).await?;
        batch.record_ends(&context.ends);
    }
    Ok(CancelledBatch { handled, cancelled })
}

/// Without a write, nothing shows that the data that was read is durable: it may be rolled back, or come from a primary
/// that has been deposed. A linearizable read rules that out.
async fn confirm_unchanged(
    context: &StoreContext,
    id: TaskId,
    status: Option<TaskStatus>,
) -> Result<(), MongoFailure> {
    let found = context
        .tasks()
        .find_one(doc! { "_id": id.to_bson() })
        .projection(without_content())
        .read_concern(ReadConcern::linearizable())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let found = match found {
        Some(document) => Some(
            StoredTask::try_from(&parse_required(context, &document)?)?
                .state
                .status,
        ),
        None => None,
    };
    match found == status {
        true => Ok(()),
        false => Err(MongoFailure::Conflict),
    }
}
