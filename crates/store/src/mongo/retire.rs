//! Retention: removing tasks that were done long ago. A part of them at a time, each in a transaction.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::Age;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};

use super::age;
use super::attempts::{COMMAND, Patience};
use super::base::{BLOBS, Base, PARTS, TASKS, UPLOADS};
use super::blobs;
use super::failure::Failure;
use super::field::{Field, blob_hash};
use super::files;
use super::row::{Position, Row, readable};
use super::schema::{DONE, IDLE};
use super::tally::Tally;
use super::transaction::Transaction;

const TOGETHER: usize = 200;
/// How many are stamped in one go.
const STAMPED: i64 = 1000;
/// A mark this old is not of a file still on its way in.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Up to `limit` of them, but not more than one transaction takes; 0 when there are none left.
pub(super) async fn retire(base: Arc<Base>, done_before: Age, limit: usize) -> Result<usize, Failure> {
    let limit = limit.min(TOGETHER);
    let rows = done(&base, done_before, limit).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let mut tally = Tally::default();
    let (mut hashes, mut parts, mut files) = (vec![], vec![], vec![]);
    for row in &rows {
        tally.remove(Position::try_from(row)?.status);
        for content in [Some(&row.spec), row.result.as_ref()].into_iter().flatten() {
            parts.extend(content.part);
            files.extend(content.file);
        }
        for hash in &row.blobs {
            hashes.push(blob_hash(hash)?);
        }
    }
    let mut transaction = Transaction::default();
    let conditions = rows
        .iter()
        .map(|row| doc! { "_id": row.id, "finish_time": row.finish_time });
    transaction.delete_each(TASKS, conditions)?;
    // A part or a blob that is missing must not keep its task, and all that are retired with it, for ever.
    let parts = parts.into_iter().map(|part| doc! { "_id": part });
    transaction.delete_any(PARTS, parts)?;
    transaction.update(UPLOADS, files.into_iter().map(files::doom))?;
    transaction.update_any(BLOBS, blobs::counted(hashes.iter(), -1))?;
    transaction.count(&tally)?;
    transaction.commit(&base).await?;
    Ok(rows.len())
}

/// What cannot be read stays, and does not count.
async fn done(base: &Base, before: Age, limit: usize) -> Result<Vec<Row>, Failure> {
    let mut at_once = limit;
    loop {
        let found: Vec<RawDocumentBuf> = base
            .tasks()
            .find(doc! {
                "finish_time": { "$exists": true },
                "finish_age": { "$lt": before.field() },
            })
            .projection(doc! { "digest": 0, "spec.bytes": 0, "result.bytes": 0 })
            .sort(doc! { "finish_age": 1 })
            .hint(Hint::Name(DONE.into()))
            .limit(i64::try_from(at_once).unwrap_or(i64::MAX))
            .read_concern(ReadConcern::local())
            .max_time(COMMAND)
            .await?
            .try_collect()
            .await?;
        let all = found.len() < at_once;
        let mut rows = readable(base, found);
        rows.retain(|row| row.blobs.iter().all(|hash| blob_hash(hash).is_ok()));
        if all || !rows.is_empty() {
            rows.truncate(limit);
            return Ok(rows);
        }
        at_once *= 2;
    }
}

/// What is done or idle without a stamp counts as such now: a judicator of the first version has left it so. A part of
/// it at a time; answers how much that was.
pub(super) async fn stamp(base: Arc<Base>) -> Result<usize, Failure> {
    let age = age::now(&base).await?;
    let done = doc! { "finish_time": { "$exists": true }, "finish_age": null };
    let idle = doc! { "refs": 0_i64, "used_age": null };
    let mut stamped = 0;
    for (collection, condition, index, stamp) in
        [(TASKS, done, DONE, "finish_age"), (BLOBS, idle, IDLE, "used_age")]
    {
        let unstamped: Vec<Document> = base
            .collection::<Document>(collection)
            .find(condition)
            .projection(doc! { "_id": 1 })
            .hint(Hint::Name(index.into()))
            .limit(STAMPED)
            .read_concern(ReadConcern::local())
            .max_time(COMMAND)
            .await?
            .try_collect()
            .await?;
        if unstamped.is_empty() {
            continue;
        }
        let ids: Vec<_> = unstamped
            .iter()
            .filter_map(|row| row.get("_id").cloned())
            .collect();
        stamped += ids.len();
        base.collection::<Document>(collection)
            .update_many(
                doc! { "_id": { "$in": ids }, stamp: null },
                doc! { "$set": { stamp: age.field() } },
            )
            .await?;
    }
    Ok(stamped)
}

/// The files that were given up, and those whose mark is old. A mark without an age is as old as the first look at it.
async fn clear_abandoned(base: Arc<Base>) -> Result<usize, Failure> {
    let age = age::now(&base).await?;
    base.collection::<Document>(UPLOADS)
        .update_many(doc! { "age": null }, doc! { "$set": { "age": age.field() } })
        .await?;
    let abandoned = doc! { "age": { "$lt": age.minus(ABANDONED).field() } };
    files::clear(base, abandoned, doc! {}).await
}

/// Clears away the files of what was retired, and those that nobody came for. What is left over when that fails
/// is cleared away the next time.
pub(super) async fn clear_files(base: &Arc<Base>) {
    loop {
        let cleared = Patience::with("clear files away")
            .persist(|_| clear_abandoned(base.clone()))
            .await;
        match cleared {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "files that nobody needs are left for later");
                return;
            }
        }
    }
}
