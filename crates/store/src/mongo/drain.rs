//! Drains and resumes executors. The document of a drained executor stays until it is resumed.

use std::sync::Arc;

use model::{DrainReason, ExecutorDrain, ExecutorName, UnixTime, UserName};
use mongodb::bson::{Bson, Document, doc};
use serde::{Deserialize, Serialize};

use super::bson_values::ToBson;
use super::context::{EXECUTORS, StoreContext};
use super::failure::MongoFailure;
use super::session;

/// The field of an executor's document with its [`DrainDocument`]. Only this file writes it, so an update that has it is a
/// change of the drain. Resuming sets it to null.
pub(super) const DRAIN_FIELD: &str = "drain";

/// The field `drain` of a MongoDB executor document: why, by whom and when an operator has drained the executor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DrainDocument {
    reason: String,
    by: Option<String>,
    since: i64,
}

impl DrainDocument {
    fn new(drain: &ExecutorDrain) -> DrainDocument {
        DrainDocument {
            reason: drain.reason.to_string(),
            by: drain.by.as_ref().map(|user| user.to_string()),
            since: drain.since.0,
        }
    }

    pub(super) fn to_drain(&self) -> ExecutorDrain {
        ExecutorDrain {
            reason: DrainReason::recorded(&self.reason),
            by: self.by.as_ref().and_then(|name| UserName::new(name).ok()),
            since: UnixTime(self.since),
        }
    }

    fn to_document(&self) -> Document {
        doc! { "reason": &self.reason, "by": self.by.clone(), "since": self.since }
    }
}

/// Returns whether the executor exists. A drain that is replaced began when the first one did.
///
/// A report that read the executor before this write conflicts with it and is repeated, so no report that is answered
/// later claims a task for a drained executor.
pub(super) async fn set(
    context: Arc<StoreContext>,
    executor: Arc<ExecutorName>,
    drain: Arc<Option<ExecutorDrain>>,
) -> Result<bool, MongoFailure> {
    let found = session::read(&context, &executor).await?.into_readable()?;
    let Some((stored, _)) = found else {
        return Ok(false);
    };
    let since = stored.drain.as_ref().map(|drain| drain.since);
    let drain = drain
        .as_ref()
        .as_ref()
        .map(DrainDocument::new)
        .map(|drain| DrainDocument {
            since: since.unwrap_or(drain.since),
            ..drain
        });
    let drain = drain.map_or(Bson::Null, |drain| drain.to_document().into());
    let updated = context
        .collection::<Document>(EXECUTORS)
        .update_one(
            doc! { "_id": executor.to_bson(), "revision": stored.revision },
            doc! { "$set": { DRAIN_FIELD: drain }, "$inc": { "revision": 1_i64 } },
        )
        .await?;
    match updated.matched_count {
        1 => Ok(true),
        _ => Err(MongoFailure::Conflict),
    }
}
