//! The indexes, and the version of what is written.

use std::path::PathBuf;
use std::sync::Arc;

use mongodb::bson::{Document, doc};

use super::attempts::COMMAND;
use super::base::{BLOBS, Base, CHUNKS, EXECUTORS, FILES, LEDGER, META, PARTS, TASKS, UPLOADS};
use super::failure::Failure;
use crate::StoreError;

pub(super) const WAITING: &str = "waiting";
pub(super) const HELD: &str = "held";
pub(super) const DONE: &str = "done";
pub(super) const IDLE: &str = "idle";
pub(super) const BY_USER: &str = "by_user";
pub(super) const BY_STATUS: &str = "by_status";
pub(super) const BY_TIME: &str = "by_time";

/// The version that this program writes. A form that was ever released is never changed, only followed by another.
const VERSION: i64 = 1;

/// Brings the database to this version. Several may do so at once, and it may be repeated.
pub(super) async fn prepare(base: Arc<Base>) -> Result<(), Failure> {
    let meta = base.collection::<Document>(META);
    // Nothing is written before this is known.
    let found = meta.find_one(doc! { "_id": "schema" }).max_time(COMMAND).await?;
    let found = found.and_then(|schema| schema.get_i64("version").ok());
    if let Some(found) = found {
        return check(&base, found);
    }
    for collection in [PARTS, EXECUTORS, LEDGER, FILES] {
        create(&base, collection).await?;
    }
    for (collection, indexes) in [
        (TASKS, tasks()),
        (BLOBS, blobs()),
        (CHUNKS, chunks()),
        (UPLOADS, uploads()),
    ] {
        base.database
            .run_command(
                doc! { "createIndexes": collection, "indexes": indexes, "writeConcern": { "w": "majority" } },
            )
            .await?;
    }
    // Last: who finds a version finds everything that belongs to it.
    meta.update_one(
        doc! { "_id": "schema" },
        doc! { "$setOnInsert": { "version": VERSION } },
    )
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
            "key": { "finish_time": 1 },
            "partialFilterExpression": { "finish_time": { "$exists": true } },
        },
        doc! { "name": BY_USER, "key": { "user": 1, "add_time": 1, "_id": 1 } },
        doc! { "name": BY_STATUS, "key": { "status": 1, "add_time": 1, "_id": 1 } },
        doc! { "name": BY_TIME, "key": { "add_time": 1, "_id": 1 } },
    ]
}

fn blobs() -> Vec<Document> {
    vec![doc! {
        "name": IDLE,
        "key": { "used": 1 },
        "partialFilterExpression": { "refs": 0_i64 },
    }]
}

/// As GridFS wants it.
fn chunks() -> Vec<Document> {
    vec![doc! { "name": "files_id_1_n_1", "key": { "files_id": 1, "n": 1 }, "unique": true }]
}

fn uploads() -> Vec<Document> {
    vec![
        doc! { "name": "since", "key": { "since": 1 } },
        doc! { "name": "doomed", "key": { "doomed": 1 }, "partialFilterExpression": { "doomed": true } },
    ]
}
