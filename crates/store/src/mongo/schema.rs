//! The indexes, and the version of what is written.

use std::path::PathBuf;
use std::sync::Arc;

use mongodb::bson::{Document, doc};

use super::age;
use super::attempts::COMMAND;
use super::base::{BLOBS, Base, CHUNKS, EXECUTORS, FILES, LEDGER, META, PARTS, TASKS, UPLOADS};
use super::failure::Failure;
use crate::StoreError;

pub(super) const WAITING: &str = "waiting";
pub(super) const HELD: &str = "held";
pub(super) const DONE: &str = "done_by_age";
pub(super) const IDLE: &str = "idle_by_age";
pub(super) const DAMAGED: &str = "damaged";
pub(super) const BY_NAME: &str = "filename_1_uploadDate_1";
pub(super) const BY_USER: &str = "by_user";
pub(super) const BY_STATUS: &str = "by_status";
pub(super) const BY_TIME: &str = "by_time";

/// The version that this program writes. A form that was ever released is never changed, only followed by another.
const VERSION: i64 = 2;

/// Of the first version, which retired by the clock: a judicator of that version retires nothing without them.
const RETIRED: [(&str, &str); 3] = [(TASKS, "done"), (BLOBS, "idle"), (UPLOADS, "since")];

/// Brings the database to this version. Several may do so at once, and it may be repeated.
pub(super) async fn prepare(base: Arc<Base>) -> Result<(), Failure> {
    let meta = base.collection::<Document>(META);
    // Nothing is written before this is known.
    let found = meta.find_one(doc! { "_id": "schema" }).max_time(COMMAND).await?;
    let found = found.and_then(|schema| schema.get_i64("version").ok());
    if let Some(found) = found {
        check(&base, found)?;
        if found == VERSION {
            return Ok(());
        }
    }
    for collection in [PARTS, EXECUTORS, LEDGER, FILES] {
        create(&base, collection).await?;
    }
    for (collection, indexes) in [
        (TASKS, tasks()),
        (BLOBS, blobs()),
        (FILES, files()),
        (CHUNKS, chunks()),
        (UPLOADS, uploads()),
    ] {
        base.database
            .run_command(
                doc! { "createIndexes": collection, "indexes": indexes, "writeConcern": { "w": "majority" } },
            )
            .await?;
    }
    for (collection, index) in RETIRED {
        drop_index(&base, collection, index).await?;
    }
    age::begin(&base).await?;
    // Last: who finds a version finds everything that belongs to it.
    meta.update_one(doc! { "_id": "schema" }, doc! { "$max": { "version": VERSION } })
        .upsert(true)
        .await?;
    Ok(())
}

fn check(base: &Base, found: i64) -> Result<(), Failure> {
    if found <= VERSION {
        return Ok(());
    }
    Err(Failure::Refused(StoreError::TooNew {
        path: PathBuf::from(format!("the MongoDB database '{}'", base.database.name())),
        found,
        known: VERSION,
    }))
}

/// Ahead of the first transaction that writes to it.
async fn create(base: &Base, collection: &str) -> Result<(), Failure> {
    const EXISTS: i32 = 48;
    match base.database.create_collection(collection).await {
        Err(error) if super::failure::code(&error) != Some(EXISTS) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn drop_index(base: &Base, collection: &str, index: &str) -> Result<(), Failure> {
    const NOT_FOUND: i32 = 27;
    let dropped = base.collection::<Document>(collection).drop_index(index).await;
    match dropped {
        Err(error) if super::failure::code(&error) != Some(NOT_FOUND) => Err(error.into()),
        _ => Ok(()),
    }
}

/// All end in the order of lists. What waits, is held or is done is in an index of its own that holds nothing
/// else, so that finding it costs the same however many others there are.
fn tasks() -> Vec<Document> {
    vec![
        doc! {
            "name": WAITING,
            "key": super::report::order(),
            "partialFilterExpression": { "waits": true },
        },
        doc! {
            "name": HELD,
            "key": { "executor": 1, "session": 1 },
            "partialFilterExpression": { "executor": { "$exists": true } },
        },
        doc! {
            "name": DONE,
            // Those without an age, of the first version, come first in it.
            "key": { "finish_age": 1 },
            "partialFilterExpression": { "finish_time": { "$exists": true } },
        },
        doc! { "name": BY_USER, "key": { "user": 1, "add_time": 1, "_id": 1 } },
        doc! { "name": BY_STATUS, "key": { "status": 1, "add_time": 1, "_id": 1 } },
        doc! { "name": BY_TIME, "key": { "add_time": 1, "_id": 1 } },
    ]
}

fn blobs() -> Vec<Document> {
    vec![
        doc! {
            "name": IDLE,
            "key": { "used_age": 1 },
            "partialFilterExpression": { "refs": 0_i64 },
        },
        doc! {
            "name": DAMAGED,
            "key": { "damaged": 1 },
            "partialFilterExpression": { "damaged": true },
        },
    ]
}

/// As GridFS wants it; the scan of the blobs needs it too.
fn files() -> Vec<Document> {
    vec![doc! { "name": BY_NAME, "key": { "filename": 1, "uploadDate": 1 } }]
}

/// As GridFS wants it.
fn chunks() -> Vec<Document> {
    vec![doc! { "name": "files_id_1_n_1", "key": { "files_id": 1, "n": 1 }, "unique": true }]
}

fn uploads() -> Vec<Document> {
    vec![
        doc! { "name": "by_age", "key": { "age": 1 } },
        doc! { "name": "doomed", "key": { "doomed": 1 }, "partialFilterExpression": { "doomed": true } },
    ]
}
