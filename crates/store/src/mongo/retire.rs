//! Retention: removing tasks that were done long ago. A part of them at a time, each in a transaction.

use std::sync::Arc;

use futures::TryStreamExt;
use model::Moment;
use mongodb::bson::doc;
use mongodb::options::ReadConcern;

use super::attempts::COMMAND;
use super::base::{BLOBS, Base, PARTS, TASKS};
use super::blobs;
use super::failure::Failure;
use super::field::{Field, blob_hash};
use super::parts::{self, Kind};
use super::row::{Position, Row, size};
use super::tally::Tally;
use super::transaction::Transaction;

const TOGETHER: usize = 200;

/// Up to `limit` of them, but not more than one transaction takes; 0 when there are none left.
pub(super) async fn retire(base: Arc<Base>, done_before: Moment, limit: usize) -> Result<usize, Failure> {
    let limit = limit.min(TOGETHER);
    let rows: Vec<Row> = base
        .tasks()
        .find(doc! { "finish_time": { "$lt": done_before.field() } })
        .projection(doc! { "spec": 0, "result": 0 })
        .sort(doc! { "finish_time": 1 })
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let mut tally = Tally::default();
    let (mut hashes, mut content) = (vec![], vec![]);
    for row in &rows {
        let task = Position::try_from(row)?;
        tally.remove(task.status);
        content.extend(parts::ids(task.id, Kind::Spec, task.spec_size));
        let result = size("result's size", row.result_size.unwrap_or(0))?;
        content.extend(parts::ids(task.id, Kind::Result, result));
        for hash in &row.blobs {
            hashes.push(blob_hash(hash)?);
        }
    }
    let mut transaction = Transaction::default();
    let conditions = rows
        .iter()
        .map(|row| doc! { "_id": row.id, "finish_time": row.finish_time });
    transaction.delete_each(TASKS, conditions)?;
    if !content.is_empty() {
        transaction.delete_all(PARTS, doc! { "_id": { "$in": content } })?;
    }
    transaction.update(BLOBS, blobs::counted(hashes.iter(), -1))?;
    transaction.count(&tally)?;
    transaction.commit(&base).await?;
    Ok(rows.len())
}
