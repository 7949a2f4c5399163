//! Reads the specs of the tasks that a report assigns. Specs never change, so they are read after the commit.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{Assignment, AttemptId, ExecutorName, TaskForm, TaskId, UnixTime};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::claim::AssignedTask;
use crate::StoreError;
use crate::document::decode_spec;
use crate::mongo::age;
use crate::mongo::bson_values::{ToBson, task_id};
use crate::mongo::content::{self, StoredContent};
use crate::mongo::context::{StoreContext, now};
use crate::mongo::failure::MongoFailure;
use crate::mongo::retry::{COMMAND_TIMEOUT, RetryPolicy};
use crate::mongo::task_document::{StoredTask, TaskDocument, parse_readable, without_result};
use crate::mongo::transaction::Transaction;
use crate::mongo::transition_batch::TransitionBatch;

/// Returns the assignments, and the add times of the tasks that the report claimed.
pub(super) async fn read(
    context: &Arc<StoreContext>,
    executor: &ExecutorName,
    assigned: Vec<AssignedTask>,
) -> Result<(Vec<Assignment>, Vec<UnixTime>), StoreError> {
    let mut contents = HashMap::new();
    let mut without_spec = vec![];
    for AssignedTask { attempt_id, spec, .. } in &assigned {
        match spec {
            Some(spec) => drop(contents.insert(attempt_id.task, spec.clone())),
            None => without_spec.push(attempt_id.task),
        }
    }
    if !without_spec.is_empty() {
        let without_spec = Arc::new(without_spec);
        let read = RetryPolicy::new("read tasks that are assigned again")
            .run(|_| find_specs(context.clone(), without_spec.clone()))
            .await?;
        contents.extend(read);
    }
    let specs = content::read(context, contents).await?;
    let (mut assignments, mut add_times, mut unreadable) = (vec![], vec![], vec![]);
    for task in assigned {
        let attempt_id = task.attempt_id;
        match decode_spec(specs.get(&attempt_id.task).map_or(&[], Vec::as_slice)) {
            Ok(spec) => {
                assignments.push(Assignment {
                    attempt_id,
                    spec,
                    platform_losses: task.platform_losses,
                });
                add_times.extend(task.claimed_add_time);
            }
            Err(StoreError::NewerForm(form)) => {
                context.newer_forms.record_if_unknown(form);
                unreadable.push((attempt_id, UnreadableSpec::NewerForm(form)));
            }
            Err(error) => {
                context
                    .unreadable_rows
                    .record(format_args!("spec of task {}", attempt_id.task), &error);
                unreadable.push((attempt_id, UnreadableSpec::Damaged(error.to_string())));
            }
        }
    }
    if !unreadable.is_empty() {
        let unreadable = Arc::new(unreadable);
        RetryPolicy::new("give up tasks that cannot be read")
            .run(|_| give_up_unreadable(context.clone(), executor.clone(), unreadable.clone()))
            .await?;
    }
    Ok((assignments, add_times))
}

/// Why the MongoDB store could not read the spec of a task that it was about to assign.
enum UnreadableSpec {
    /// The reason.
    Damaged(String),
    /// The document of the task names an older form, or none.
    NewerForm(TaskForm),
}

async fn find_specs(
    context: Arc<StoreContext>,
    ids: Arc<Vec<TaskId>>,
) -> Result<HashMap<TaskId, StoredContent>, MongoFailure> {
    let documents = find_documents(&context, &ids).await?;
    Ok(documents
        .into_iter()
        .map(|document| (task_id(document.id), document.spec))
        .collect())
}

/// Ends tasks whose spec is unreadable. In the queue they would be claimed again and again. Those of a newer form return to
/// the queue with that form, which claims skip.
async fn give_up_unreadable(
    context: Arc<StoreContext>,
    executor: ExecutorName,
    unreadable: Arc<Vec<(AttemptId, UnreadableSpec)>>,
) -> Result<(), MongoFailure> {
    let ids: Vec<_> = unreadable.iter().map(|(attempt_id, _)| attempt_id.task).collect();
    let mut batch =
        TransitionBatch::new(now(), context.max_attempts).with_store_age(Some(age::now(&context).await?));
    for document in find_documents(&context, &ids).await? {
        batch.insert(StoredTask::try_from(&document)?);
    }
    for (attempt_id, problem) in unreadable.iter() {
        let id = attempt_id.task;
        let is_held = |task: &StoredTask| task.state.is_held_as(*attempt_id, &executor);
        match problem {
            _ if !batch.get(id).is_some_and(is_held) => {}
            UnreadableSpec::Damaged(trouble) => batch.give_up(id, trouble),
            UnreadableSpec::NewerForm(form) => batch.give_back_newer_form(id, *form),
        }
    }
    let mut transaction = Transaction::default();
    transaction.add_to_counters(&batch.counter_deltas())?;
    batch.write(&mut transaction)?;
    transaction.commit(&context).await?;
    batch.record_ends(&context.ends);
    Ok(())
}

async fn find_documents(context: &StoreContext, ids: &[TaskId]) -> Result<Vec<TaskDocument>, MongoFailure> {
    let ids: Vec<_> = ids.iter().map(ToBson::to_bson).collect();
    let found = context
        .tasks()
        .find(doc! { "_id": { "$in": ids } })
        .projection(without_result())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(parse_readable(context, found))
}
