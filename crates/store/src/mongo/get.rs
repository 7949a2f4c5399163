//! Reading one task, as a majority has it.

use std::sync::Arc;

use model::{Attempt, Moment, Task, TaskId};
use mongodb::bson::doc;

use super::attempts::COMMAND;
use super::base::Base;
use super::failure::Failure;
use super::field::Field;
use super::parts::{self, Kind};
use super::row::{Position, Row};
use crate::document::{decode_result, decode_spec};

pub(super) async fn get(base: Arc<Base>, id: TaskId) -> Result<Option<Task>, Failure> {
    let found = base
        .tasks()
        .find_one(doc! { "_id": id.field() })
        .max_time(COMMAND)
        .await?;
    match found {
        Some(row) => task(&base, row).await.map(Some),
        None => Ok(None),
    }
}

async fn task(base: &Base, row: Row) -> Result<Task, Failure> {
    let position = Position::try_from(&row)?;
    let rows = [row];
    let spec = parts::read(base, &rows, Kind::Spec).await?;
    let result = parts::read(base, &rows, Kind::Result).await?;
    let Position {
        id,
        status,
        executor,
        session,
        attempt: Attempt(attempt),
        add_time,
        start_time,
        report_time,
        finish_time,
        trouble,
        ..
    } = position;
    Ok(Task {
        id,
        spec: decode_spec(spec.get(&id).map_or(&[], Vec::as_slice))?,
        status,
        executor,
        session,
        attempt: Attempt(attempt),
        add_time,
        start_time,
        report_time,
        finish_time,
        result: result.get(&id).map(|result| decode_result(result)).transpose()?,
        trouble,
    })
}

/// The time of the newest task, after which the next ones are added.
pub(super) async fn last_add(base: Arc<Base>) -> Result<Moment, Failure> {
    let newest = base
        .tasks()
        .find_one(doc! {})
        .sort(doc! { "add_time": -1 })
        .max_time(COMMAND)
        .await?;
    Ok(newest.map_or(Moment(0), |row| Moment(row.add_time)))
}
