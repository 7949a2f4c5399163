//! Retention: removing tasks that were done long ago. A part of them at a time, each in a transaction.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::Moment;
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::{Hint, ReadConcern};

use super::attempts::{COMMAND, Patience};
use super::base::{BLOBS, Base, PARTS, TASKS, UPLOADS, now};
use super::blobs;
use super::failure::Failure;
use super::field::{Field, blob_hash};
use super::files;
use super::row::{Position, Row, readable};
use super::schema::DONE;
use super::tally::Tally;
use super::transaction::Transaction;

const TOGETHER: usize = 200;
/// A mark this old is not of a file still on its way in.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Up to `limit` of them, but not more than one transaction takes; 0 when there are none left.
pub(super) async fn retire(base: Arc<Base>, done_before: Moment, limit: usize) -> Result<usize, Failure> {
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
    // A part that is missing must not keep its task, and all that are retired with it, for ever.
    let parts = parts.into_iter().map(|part| doc! { "_id": part });
    transaction.delete_any(PARTS, parts)?;
    transaction.update(UPLOADS, files.into_iter().map(files::doom))?;
    transaction.update(BLOBS, blobs::counted(hashes.iter(), -1))?;
    transaction.count(&tally)?;
    transaction.commit(&base).await?;
    Ok(rows.len())
}

/// What cannot be read stays, and does not count.
async fn done(base: &Base, before: Moment, limit: usize) -> Result<Vec<Row>, Failure> {
    let mut at_once = limit;
    loop {
        let found: Vec<RawDocumentBuf> = base
            .tasks()
            .find(doc! { "finish_time": { "$lt": before.field() } })
            .projection(doc! { "digest": 0, "spec.bytes": 0, "result.bytes": 0 })
            .sort(doc! { "finish_time": 1 })
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

/// Clears away the files of what was retired, and those that nobody came for. What is left over when that fails
/// is cleared away the next time.
pub(super) async fn clear_files(base: &Arc<Base>) {
    loop {
        let cleared = Patience::with("clear files away")
            .persist(|_| {
                let abandoned = doc! { "since": { "$lt": now().minus(ABANDONED).field() } };
                files::clear(base.clone(), abandoned, doc! {})
            })
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
