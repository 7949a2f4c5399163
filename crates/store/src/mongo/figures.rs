//! The history: the figures of minutes, and the oldest task in the queue.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use model::{HistoryMinute, TaskStatus, UnixTime};
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, Uuid, doc};
use mongodb::options::{Hint, ReadConcern};
use serde::{Deserialize, Serialize};

use super::MongoStore;
use super::bson_values::{ToBson, uuid};
use super::context::{FIGURES, StoreContext, TASKS};
use super::failure::MongoFailure;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use super::schema::BY_STATUS_INDEX;
use crate::document::{decode_figures, encode_figures};
use crate::{EndsWithoutResult, HistoryStore, StoreError, WrittenFigures};

#[async_trait]
impl HistoryStore for MongoStore {
    async fn oldest_queued(&self) -> Result<Option<UnixTime>, StoreError> {
        RetryPolicy::new("look for the oldest task in the queue")
            .run(|_| find_oldest_queued(self.context.clone()))
            .await
    }

    fn ends_without_result(&self) -> EndsWithoutResult {
        self.context.ends.counts()
    }

    async fn put_figures(&self, written: Vec<WrittenFigures>) -> Result<(), StoreError> {
        let records = written.iter().map(FiguresRecord::encode);
        let records = Arc::new(records.collect::<Result<Vec<_>, _>>()?);
        RetryPolicy::new("write figures")
            .run(|_| put_rows(self.context.clone(), records.clone()))
            .await
    }

    async fn figures(&self, minutes: Range<HistoryMinute>) -> Result<Vec<WrittenFigures>, StoreError> {
        RetryPolicy::new("read figures")
            .run(|_| read_rows(self.context.clone(), minutes.clone()))
            .await
    }

    async fn remove_figures(&self, before: HistoryMinute) -> Result<(), StoreError> {
        RetryPolicy::new("remove old figures")
            .run(|_| remove_rows(self.context.clone(), before))
            .await
    }
}

/// The figures of one minute by one writer, as a MongoDB document.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FiguresRecord {
    #[serde(rename = "_id")]
    id: FiguresId,
    figures: Binary,
}

/// The key of the figures of one minute in MongoDB. Documents are compared field by field, so the minute orders them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FiguresId {
    minute: i64,
    writer: Uuid,
}

impl FiguresRecord {
    fn encode(written: &WrittenFigures) -> Result<FiguresRecord, StoreError> {
        Ok(FiguresRecord {
            id: FiguresId {
                minute: written.minute.0,
                writer: uuid(written.writer),
            },
            figures: Binary {
                subtype: BinarySubtype::Generic,
                bytes: encode_figures(&written.figures)?,
            },
        })
    }
}

/// An upsert that is not in a transaction creates the collection.
async fn put_rows(context: Arc<StoreContext>, figures: Arc<Vec<FiguresRecord>>) -> Result<(), MongoFailure> {
    for record in &*figures {
        let FiguresId { minute, writer } = record.id;
        context
            .collection::<Document>(FIGURES)
            .update_one(
                doc! { "_id": { "minute": minute, "writer": writer } },
                doc! { "$set": { "figures": record.figures.clone() } },
            )
            .upsert(true)
            .await?;
    }
    Ok(())
}

/// Figures that cannot be read are left out.
async fn read_rows(
    context: Arc<StoreContext>,
    minutes: Range<HistoryMinute>,
) -> Result<Vec<WrittenFigures>, MongoFailure> {
    let found: Vec<Document> = context
        .collection::<Document>(FIGURES)
        .find(doc! { "_id": { "$gte": first_id(minutes.start), "$lt": first_id(minutes.end) } })
        .sort(doc! { "_id": 1 })
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let read = |document: Document| {
        let name = format!("figures {:?}", document.get("_id"));
        let unreadable = |problem: String| context.unreadable_rows.record(&name, problem);
        let record: FiguresRecord = mongodb::bson::deserialize_from_document(document)
            .map_err(|error| unreadable(error.to_string()))
            .ok()?;
        let figures = decode_figures(&record.figures.bytes)
            .map_err(|error| unreadable(error.to_string()))
            .ok()?;
        Some(WrittenFigures {
            minute: HistoryMinute(record.id.minute),
            writer: uuid::Uuid::from_bytes(record.id.writer.bytes()),
            figures,
        })
    };
    Ok(found.into_iter().filter_map(read).collect())
}

async fn remove_rows(context: Arc<StoreContext>, before: HistoryMinute) -> Result<(), MongoFailure> {
    context
        .collection::<Document>(FIGURES)
        .delete_many(doc! { "_id": { "$lt": first_id(before) } })
        .await?;
    Ok(())
}

/// A document with a single field is less than every other that begins with the same field and value.
fn first_id(minute: HistoryMinute) -> Bson {
    doc! { "minute": minute.0 }.into()
}

/// A queued task is pending or retrying. The index by status also contains the tasks with these statuses that executors
/// hold, so the read passes these. They are few: an executor holds little more than it has slots.
async fn find_oldest_queued(context: Arc<StoreContext>) -> Result<Option<UnixTime>, MongoFailure> {
    let statuses = [TaskStatus::Pending, TaskStatus::Retrying].map(|status| status.to_bson());
    let found = context
        .collection::<Document>(TASKS)
        .find_one(doc! { "status": { "$in": statuses.to_vec() }, "executor": { "$exists": false } })
        .sort(doc! { "add_time": 1, "_id": 1 })
        .projection(doc! { "add_time": 1 })
        .hint(Hint::Name(BY_STATUS_INDEX.into()))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let add_time = found.as_ref().and_then(|task| task.get_i64("add_time").ok());
    Ok(add_time.map(UnixTime))
}
