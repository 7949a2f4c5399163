//! Reading one task, as a majority has it.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Moment, Task, TaskId};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::attempts::{COMMAND, Patience};
use super::base::Base;
use super::content;
use super::failure::Failure;
use super::field::Field;
use super::row::{Position, Row, required};
use crate::StoreError;
use crate::document::{decode_result, decode_spec};

pub(super) async fn get(base: &Arc<Base>, id: TaskId) -> Result<Option<Task>, StoreError> {
    let majority = ReadConcern::majority();
    // A primary that was elected a moment ago may not know yet what a majority has: it says no only when it does.
    let row = match find(base, id, majority.clone()).await? {
        Some(row) => Some(row),
        None => find(base, id, ReadConcern::linearizable()).await?,
    };
    let Some(row) = row else {
        return Ok(None);
    };
    match task(base, row).await {
        // What it refers to may have been retired between two reads, and the task with it.
        Err(StoreError::Decode { .. }) if find(base, id, majority).await?.is_none() => Ok(None),
        task => task.map(Some).map_err(|error| {
            let error = error.of_task(id);
            if let StoreError::Unreadable { .. } = error {
                base.set_aside.note(format_args!("task {id}"), &error);
            }
            error
        }),
    }
}

async fn find(base: &Arc<Base>, id: TaskId, concern: ReadConcern) -> Result<Option<Row>, StoreError> {
    let read = |base: Arc<Base>, concern: ReadConcern| async move {
        let tasks = base.tasks();
        let found = tasks
            .find_one(doc! { "_id": id.field() })
            .read_concern(concern)
            .max_time(COMMAND);
        found.await?.map(|row| required(&base, &row)).transpose()
    };
    Patience::with("read a task")
        .persist(|_| read(base.clone(), concern.clone()))
        .await
}

async fn task(base: &Arc<Base>, row: Row) -> Result<Task, StoreError> {
    let position = Position::try_from(&row).map_err(|failure| failure.into_error("read a task"))?;
    let id = position.id;
    let spec = content::read(base, [(id, row.spec)]).await?;
    let result = match row.result {
        Some(result) => Some(content::read(base, [(id, result)]).await?),
        None => None,
    };
    let bytes = |found: &HashMap<TaskId, Vec<u8>>| found.get(&id).cloned().unwrap_or_default();
    Ok(Task {
        id,
        spec: decode_spec(&bytes(&spec))?,
        status: position.status,
        executor: position.executor,
        session: position.session,
        attempt: position.attempt,
        add_time: position.add_time,
        start_time: position.start_time,
        report_time: position.report_time,
        finish_time: position.finish_time,
        result: result.map(|result| decode_result(&bytes(&result))).transpose()?,
        trouble: position.trouble,
    })
}

/// The time of the newest task, after which the next ones are added.
pub(super) async fn last_add(base: Arc<Base>) -> Result<Moment, Failure> {
    let newest = base
        .tasks()
        .find_one(doc! { "add_time": { "$type": "long" } })
        .projection(doc! { "add_time": 1 })
        .sort(doc! { "add_time": -1 })
        .max_time(COMMAND)
        .await?;
    let add_time = newest.and_then(|newest| newest.get_i64("add_time").ok());
    Ok(Moment(add_time.unwrap_or(0)))
}
