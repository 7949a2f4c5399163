//! Cancels a task, whether an executor runs it or not.

use std::sync::Arc;

use model::{TaskId, TaskStatus};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::age;
use super::bson_values::ToBson;
use super::context::{StoreContext, now};
use super::failure::MongoFailure;
use super::retry::COMMAND_TIMEOUT;
use super::task_document::{StoredTask, parse_required, without_content};
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
    }
    Ok(CancelOutcome::Found)
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
