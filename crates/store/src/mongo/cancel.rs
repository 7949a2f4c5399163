//! Cancelling: the one transition that no executor has a say in.

use std::sync::Arc;

use model::{Status, TaskId};
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::age;
use super::attempts::COMMAND;
use super::base::{Base, now};
use super::failure::Failure;
use super::field::Field;
use super::row::{Position, required, without_content};
use super::table::Table;
use super::transaction::Transaction;

pub(super) enum Existed {
    No,
    Yes,
}

pub(super) async fn cancel(base: Arc<Base>, id: TaskId) -> Result<Existed, Failure> {
    let found = base
        .tasks()
        .find_one(doc! { "_id": id.field() })
        .projection(without_content())
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?;
    let Some(row) = found else {
        return confirm(&base, id, None).await.map(|()| Existed::No);
    };
    let task = Position::try_from(&required(&base, &row)?)?;
    if !task.status.may_become(Status::Cancelled) {
        confirm(&base, id, Some(task.status)).await?;
    } else {
        let age = age::now(&base).await?;
        let mut table = Table::new(now(), base.max_attempts).at_age(Some(age));
        table.lay(task);
        table.cancel(id);
        let mut transaction = Transaction::default();
        transaction.count(&table.tally())?;
        table.write(&mut transaction)?;
        transaction.commit(&base).await?;
    }
    Ok(Existed::Yes)
}

/// Without a write of our own nothing vouches for what was read: it might be rolled back, or be read from a primary
/// that is none any more.
async fn confirm(base: &Base, id: TaskId, status: Option<Status>) -> Result<(), Failure> {
    let found = base
        .tasks()
        .find_one(doc! { "_id": id.field() })
        .projection(without_content())
        .read_concern(ReadConcern::linearizable())
        .max_time(COMMAND)
        .await?;
    let found = match found {
        Some(row) => Some(Position::try_from(&required(base, &row)?)?.status),
        None => None,
    };
    match found == status {
        true => Ok(()),
        false => Err(Failure::Overtaken),
    }
}
