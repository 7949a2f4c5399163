//! The indexes of the database, and the version of its schema.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::TaskForm;
use mongodb::bson::{Document, doc};

use super::age;
use super::context::{
    BLOBS, CHUNKS, EXECUTORS, FILES, GROUPS, LEDGER, META, PARTS, PROBLEMS, StoreContext, TASKS, UPLOADS,
};
use super::earlier_reasons;
use super::failure::MongoFailure;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use super::transaction;
use crate::StoreError;

pub(super) const QUEUE_INDEX: &str = "waiting";
pub(super) const REQUIRED_QUEUE_INDEX: &str = "waiting_for_tools";
pub(super) const HELD_TASKS_INDEX: &str = "held";
pub(super) const DONE_TASKS_INDEX: &str = "done_by_age";
pub(super) const UNUSED_BLOBS_INDEX: &str = "idle_by_age";
pub(super) const DAMAGED_BLOBS_INDEX: &str = "damaged";
pub(super) const FILE_NAME_INDEX: &str = "filename_1_uploadDate_1";
pub(super) const BY_USER_INDEX: &str = "by_user";
pub(super) const BY_STATUS_INDEX: &str = "by_status";
pub(super) const BY_TIME_INDEX: &str = "by_time";
pub(super) const BY_GROUP_INDEX: &str = "by_group";
pub(super) const BY_USER_GROUP_INDEX: &str = "by_user_group";
pub(super) const BY_LABEL_INDEX: &str = "by_label";
pub(super) const BY_USER_LABEL_INDEX: &str = "by_user_label";
pub(super) const BY_BLOB_INDEX: &str = "by_blob";
pub(super) const BY_RESULT_BLOB_INDEX: &str = "by_result_blob";
pub(super) const PROBLEMS_BY_OWNER_INDEX: &str = "by_owner";

/// The schema version that this program writes. A released version never changes; changes make a new version. A program
/// that knows the made-up next form of tasks has the made-up next version.
const VERSION: i64 = 5 + (TaskForm::NEWEST.0 - TaskForm::CURRENT.0) as i64;
/// The lowest version of a program that can still use a database of this version. Raising it ends rolling upgrades from
/// the versions below.
const READER: i64 = 3;

/// Indexes of version 1, whose retention compared wall clock times. Judicators of that version need them for retention,
/// so without them they remove nothing.
const OBSOLETE_INDEXES: [(&str, &str); 3] = [(TASKS, "done"), (BLOBS, "idle"), (UPLOADS, "since")];

/// How long the upgrade of a large database may take. The server builds indexes, and the next try waits for the same build.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Creates or upgrades the schema, if the database has none or an older one.
pub(super) async fn prepare(context: &Arc<StoreContext>) -> Result<(), StoreError> {
    let needs_upgrade = RetryPolicy::new("read the version of the database")
        .run(|_| needs_upgrade(context.clone()))
        .await?;
    if !needs_upgrade {
        return Ok(());
    }
    RetryPolicy::new("prepare the database")
        .with_longest_try(UPGRADE_TIMEOUT)
        .run(|_| upgrade(context.clone()))
        .await
}

/// Whether the database has a schema that is older than this version, or none. Refuses one that is too new. Writes nothing.
async fn needs_upgrade(context: Arc<StoreContext>) -> Result<bool, MongoFailure> {
    let found = context
        .collection::<Document>(META)
        .find_one(doc! { "_id": "schema" })
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let version = |field| found.as_ref().and_then(|schema| schema.get_i64(field).ok());
    if let Some(found) = version("version") {
        // Versions before 3 do not record what can use the database.
        check_reader(&context, version("reader").unwrap_or(found), found)?;
        return Ok(found < VERSION);
    }
    Ok(true)
}

/// Upgrades the database to this version. Safe to repeat and to run in several processes at once.
async fn upgrade(context: Arc<StoreContext>) -> Result<(), MongoFailure> {
    for collection in [PARTS, EXECUTORS, LEDGER, GROUPS, FILES, PROBLEMS] {
        create_collection(&context, collection).await?;
    }
    for (collection, indexes) in [
        (TASKS, task_indexes()),
        (BLOBS, blob_indexes()),
        (FILES, file_indexes()),
        (CHUNKS, chunk_indexes()),
        (UPLOADS, upload_indexes()),
        (PROBLEMS, problem_indexes()),
    ] {
        context
            .database
            .run_command(
                doc! { "createIndexes": collection, "indexes": indexes, "writeConcern": { "w": "majority" } },
            )
            .await?;
    }
    for (collection, index) in OBSOLETE_INDEXES {
        drop_index(&context, collection, index).await?;
    }
    transaction::create_ledger(&context).await?;
    age::initialize(&context).await?;
    earlier_reasons::fill_in(&context).await?;
    // The version is written last: a database with this version has all of its indexes.
    context
        .collection::<Document>(META)
        .update_one(
            doc! { "_id": "schema" },
            doc! { "$max": { "version": VERSION, "reader": READER } },
        )
        .upsert(true)
        .await?;
    Ok(())
}

fn check_reader(context: &StoreContext, reader: i64, found: i64) -> Result<(), MongoFailure> {
    if reader <= VERSION {
        return Ok(());
    }
    Err(MongoFailure::Refused(StoreError::SchemaTooNew {
        path: PathBuf::from(format!("the MongoDB database '{}'", context.database.name())),
        found,
        known: VERSION,
    }))
}

/// Creates a collection before a transaction writes to it.
async fn create_collection(context: &StoreContext, collection: &str) -> Result<(), MongoFailure> {
    const NAMESPACE_EXISTS: i32 = 48;
    match context.database.create_collection(collection).await {
        Err(error) if super::failure::error_code(&error) != Some(NAMESPACE_EXISTS) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn drop_index(context: &StoreContext, collection: &str, index: &str) -> Result<(), MongoFailure> {
    const INDEX_NOT_FOUND: i32 = 27;
    let dropped = context.collection::<Document>(collection).drop_index(index).await;
    match dropped {
        Err(error) if super::failure::error_code(&error) != Some(INDEX_NOT_FOUND) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Queued, held and done tasks have partial indexes, so that finding them costs the same however many other tasks there
/// are. The indexes for lists end in the sort order of lists.
fn task_indexes() -> Vec<Document> {
    vec![
        doc! {
            "name": QUEUE_INDEX,
            "key": super::report::queue_order(),
            "partialFilterExpression": { "waits": true },
        },
        doc! {
            "name": REQUIRED_QUEUE_INDEX,
            "key": super::report::required_queue_order(),
            "partialFilterExpression": { "waits_for": { "$exists": true } },
        },
        doc! {
            "name": HELD_TASKS_INDEX,
            "key": { "executor": 1, "session": 1 },
            "partialFilterExpression": { "executor": { "$exists": true } },
        },
        doc! {
            "name": DONE_TASKS_INDEX,
            // Documents of version 1 have no age and come first.
            "key": { "finish_age": 1 },
            "partialFilterExpression": { "finish_time": { "$exists": true } },
        },
        doc! { "name": BY_USER_INDEX, "key": { "user": 1, "add_time": 1, "_id": 1 } },
        doc! { "name": BY_STATUS_INDEX, "key": { "status": 1, "add_time": 1, "_id": 1 } },
        doc! { "name": BY_TIME_INDEX, "key": { "add_time": 1, "_id": 1 } },
        doc! {
            "name": BY_GROUP_INDEX,
            "key": { "group": 1, "add_time": 1, "_id": 1 },
            "partialFilterExpression": { "group": { "$exists": true } },
        },
        doc! {
            "name": BY_USER_GROUP_INDEX,
            "key": { "user": 1, "group": 1, "add_time": 1, "_id": 1 },
            "partialFilterExpression": { "group": { "$exists": true } },
        },
        doc! {
            "name": BY_LABEL_INDEX,
            "key": { "labels": 1, "add_time": 1, "_id": 1 },
            "partialFilterExpression": { "labels": { "$exists": true } },
        },
        doc! {
            "name": BY_USER_LABEL_INDEX,
            "key": { "user": 1, "labels": 1, "add_time": 1, "_id": 1 },
            "partialFilterExpression": { "labels": { "$exists": true } },
        },
        doc! {
            "name": BY_BLOB_INDEX,
            "key": { "blobs": 1 },
            "partialFilterExpression": { "blobs": { "$exists": true } },
        },
        doc! {
            "name": BY_RESULT_BLOB_INDEX,
            "key": { "result_blobs": 1 },
            "partialFilterExpression": { "result_blobs": { "$exists": true } },
        },
    ]
}

fn blob_indexes() -> Vec<Document> {
    vec![
        doc! {
            "name": UNUSED_BLOBS_INDEX,
            "key": { "used_age": 1 },
            "partialFilterExpression": { "refs": 0_i64 },
        },
        doc! {
            "name": DAMAGED_BLOBS_INDEX,
            "key": { "damaged": 1 },
            "partialFilterExpression": { "damaged": true },
        },
    ]
}

/// The index that GridFS specifies. The scan of the blobs uses it too.
fn file_indexes() -> Vec<Document> {
    vec![doc! { "name": FILE_NAME_INDEX, "key": { "filename": 1, "uploadDate": 1 } }]
}

/// The index that GridFS specifies.
fn chunk_indexes() -> Vec<Document> {
    vec![doc! { "name": "files_id_1_n_1", "key": { "files_id": 1, "n": 1 }, "unique": true }]
}

fn upload_indexes() -> Vec<Document> {
    vec![
        doc! { "name": "by_age", "key": { "age": 1 } },
        doc! { "name": "doomed", "key": { "doomed": 1 }, "partialFilterExpression": { "doomed": true } },
    ]
}

/// Retention looks for the problems that name a blob as it does for tasks.
fn problem_indexes() -> Vec<Document> {
    vec![
        doc! { "name": PROBLEMS_BY_OWNER_INDEX, "key": { "owner": 1 } },
        doc! { "name": BY_BLOB_INDEX, "key": { "blobs": 1 } },
    ]
}
