//! Reads one task, with majority or linearizable read concern.

use std::collections::HashMap;
use std::sync::Arc;

use model::{AttemptRecord, Task, TaskId, UnixTime};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::bson_values::ToBson;
use super::content;
use super::context::StoreContext;
use super::failure::MongoFailure;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use super::task_document::{StoredTask, TaskDocument, parse_required};
use crate::StoreError;
use crate::document::{decode_result, decode_spec};

pub(super) async fn get(context: &Arc<StoreContext>, id: TaskId) -> Result<Option<Task>, StoreError> {
    // A primary that was just elected may not know the newest majority-committed data yet. So "not found" is confirmed
    // by a linearizable read.
    let document = match find(context, id, ReadConcern::majority()).await? {
        Some(document) => Some(document),
        None => find(context, id, ReadConcern::linearizable()).await?,
    };
    read_content(context, id, document).await
}

/// The change stream sends only majority-committed changes, and a primary that was just elected has them in its oplog.
/// But its majority-committed view may lag behind them until its first own write is committed. A linearizable read
/// waits for such a write, so it shows everything that the stream has sent.
pub(super) async fn get_after_event(
    context: &Arc<StoreContext>,
    id: TaskId,
) -> Result<Option<Task>, StoreError> {
    let document = find(context, id, ReadConcern::linearizable()).await?;
    read_content(context, id, document).await
}

async fn read_content(
    context: &Arc<StoreContext>,
    id: TaskId,
    document: Option<TaskDocument>,
) -> Result<Option<Task>, StoreError> {
    let Some(document) = document else {
        return Ok(None);
    };
    match task(context, document).await {
        // Retention may have removed the task and its content between the two reads.
        Err(StoreError::Decode { .. }) if find(context, id, ReadConcern::majority()).await?.is_none() => {
            Ok(None)
        }
        task => task.map(Some).map_err(|error| {
            let error = error.for_task(id);
            if let StoreError::Unreadable { .. } = error {
                context.unreadable_rows.record(format_args!("task {id}"), &error);
            }
            error
        }),
    }
}

async fn find(
    context: &Arc<StoreContext>,
    id: TaskId,
    concern: ReadConcern,
) -> Result<Option<TaskDocument>, StoreError> {
    let read = |context: Arc<StoreContext>, concern: ReadConcern| async move {
        let tasks = context.tasks();
        let found = tasks
            .find_one(doc! { "_id": id.to_bson() })
            .read_concern(concern)
            .max_time(COMMAND_TIMEOUT);
        found
            .await?
            .map(|document| parse_required(&context, &document))
            .transpose()
    };
    RetryPolicy::new("read a task")
        .run(|_| read(context.clone(), concern.clone()))
        .await
}

async fn task(context: &Arc<StoreContext>, document: TaskDocument) -> Result<Task, StoreError> {
    let stored = StoredTask::try_from(&document).map_err(|failure| failure.into_error("read a task"))?;
    let id = stored.state.id;
    let mut ran_on = document
        .ended_attempts()
        .map_err(|failure| failure.into_error("read a task"))?;
    ran_on.extend(stored.state.running_attempt());
    ran_on.drain(..ran_on.len().saturating_sub(AttemptRecord::MAX_COUNT));
    let spec = content::read(context, [(id, document.spec)]).await?;
    let result = match document.result {
        Some(result) => Some(content::read(context, [(id, result)]).await?),
        None => None,
    };
    let bytes = |found: &HashMap<TaskId, Vec<u8>>| found.get(&id).cloned().unwrap_or_default();
    Ok(Task {
        id,
        spec: decode_spec(&bytes(&spec))?,
        status: stored.state.status,
        executor: stored.state.executor,
        session: stored.state.session,
        attempt: stored.state.attempt,
        add_time: stored.state.add_time,
        start_time: stored.state.start_time,
        report_time: stored.state.report_time,
        finish_time: stored.finish_time,
        ran_on,
        result: result.map(|result| decode_result(&bytes(&result))).transpose()?,
        trouble: stored.trouble,
    })
}

/// The add time of the newest task, or 0 if there is none.
pub(super) async fn newest_add_time(context: Arc<StoreContext>) -> Result<UnixTime, MongoFailure> {
    let newest = context
        .tasks()
        .find_one(doc! { "add_time": { "$type": "long" } })
        .projection(doc! { "add_time": 1 })
        .sort(doc! { "add_time": -1 })
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let add_time = newest.and_then(|newest| newest.get_i64("add_time").ok());
    Ok(UnixTime(add_time.unwrap_or(0)))
}
