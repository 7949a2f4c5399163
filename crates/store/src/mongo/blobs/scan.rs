//! Scanning the blobs: what is there to be read through, and files that no blob has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::{Age, BlobHash};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::Hint;
use serde::Deserialize;

use super::{BlobRow, parse};
use crate::BlobShelf;
use crate::mongo::age;
use crate::mongo::attempts::COMMAND;
use crate::mongo::base::{BLOBS, Base, FILES, UPLOADS};
use crate::mongo::failure::Failure;
use crate::mongo::field::Field;
use crate::mongo::files;
use crate::mongo::schema::{BY_NAME, DAMAGED};
use crate::mongo::transaction::Transaction;

/// A file must have been seen without a blob this long ago, and still have none: what is read just after an election may
/// be older than what was read before.
const MARGIN: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
struct FileRow {
    #[serde(rename = "_id")]
    id: ObjectId,
    filename: String,
    /// The store's age when it was first seen without a blob.
    orphan_age: Option<i64>,
}

pub(in crate::mongo) async fn scan(base: Arc<Base>, first_byte: u8) -> Result<BlobShelf, Failure> {
    let files = files_of(&base, first_byte).await?;
    let documents = blobs_of(&base, first_byte).await?;
    let mut owners = HashMap::new();
    let mut shelf = BlobShelf::default();
    let rows: Vec<_> = documents
        .iter()
        .filter_map(|document| parse(&base, document).ok())
        .collect();
    let all_readable = rows.len() == documents.len();
    for (hash, row) in rows {
        owners.insert(hash.to_string(), row.file);
        if !row.damaged {
            shelf.blobs.push(hash);
        }
    }
    // A file may belong to a blob that cannot be read.
    let ownerless = files
        .into_iter()
        .filter(|_| all_readable)
        .filter(|file| owners.get(&file.filename) != Some(&file.id));
    let (old, new): (Vec<_>, Vec<_>) = {
        let age = age::now(&base).await?;
        ownerless.partition(|file| {
            file.orphan_age
                .is_some_and(|since| Age(since) < age.minus(MARGIN))
        })
    };
    see(&base, new).await?;
    shelf.orphans = give_up(&base, old).await?;
    Ok(shelf)
}

pub(in crate::mongo) async fn damaged(base: Arc<Base>) -> Result<u64, Failure> {
    let count = base
        .collection::<BlobRow>(BLOBS)
        .count_documents(doc! { "damaged": true })
        .hint(Hint::Name(DAMAGED.into()))
        .max_time(COMMAND)
        .await?;
    Ok(count)
}

async fn files_of(base: &Base, first_byte: u8) -> Result<Vec<FileRow>, Failure> {
    let (first, last) = ends(first_byte);
    let files = base
        .collection::<FileRow>(FILES)
        .find(doc! { "filename": { "$gte": first.to_string(), "$lte": last.to_string() } })
        .projection(doc! { "filename": 1, "orphan_age": 1 })
        .hint(Hint::Name(BY_NAME.into()))
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    Ok(files)
}

async fn blobs_of(base: &Base, first_byte: u8) -> Result<Vec<RawDocumentBuf>, Failure> {
    let (first, last) = ends(first_byte);
    let found = base
        .collection(BLOBS)
        .find(doc! { "_id": { "$gte": first.field(), "$lte": last.field() } })
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    Ok(found)
}

/// The first hash that begins with this byte, and the last.
fn ends(first_byte: u8) -> (BlobHash, BlobHash) {
    let with = |rest: u8| {
        let mut hash = [rest; 32];
        hash[0] = first_byte;
        BlobHash(hash)
    };
    (with(0), with(0xff))
}

async fn see(base: &Base, files: Vec<FileRow>) -> Result<(), Failure> {
    let unseen = files.into_iter().filter(|file| file.orphan_age.is_none());
    let ids: Vec<_> = unseen.map(|file| file.id).collect();
    if !ids.is_empty() {
        let age = age::now(base).await?;
        base.collection::<Document>(FILES)
            .update_many(
                doc! { "_id": { "$in": ids } },
                doc! { "$set": { "orphan_age": age.field() } },
            )
            .await?;
    }
    Ok(())
}

/// Those that are not given up already. The next round of retention clears them away.
async fn give_up(base: &Base, files: Vec<FileRow>) -> Result<usize, Failure> {
    let ids: Vec<_> = files.iter().map(|file| file.id).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let marked: Vec<Document> = base
        .collection::<Document>(UPLOADS)
        .find(doc! { "_id": { "$in": &ids } })
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    let is_marked = |id: &ObjectId| {
        marked
            .iter()
            .any(|mark| mark.get_object_id("_id").is_ok_and(|marked| marked == *id))
    };
    let orphans: Vec<_> = ids.into_iter().filter(|id| !is_marked(id)).collect();
    let mut transaction = Transaction::default();
    transaction.update(UPLOADS, orphans.iter().copied().map(files::doom))?;
    transaction.commit(base).await?;
    for id in &orphans {
        tracing::warn!(file = %id, "removed a file that belongs to no blob");
    }
    Ok(orphans.len())
}
