//! Fills in the reasons of tasks that versions before 3 have finished. Lists show them without reading results.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::{OutcomeReason, TaskResult};
use mongodb::bson::{Bson, Document, RawDocumentBuf, Uuid, deserialize_from_slice, doc};
use serde::Deserialize;

use super::bson_values::{ToBson, task_id};
use super::content::{self, StoredContent};
use super::context::{StoreContext, TASKS};
use super::failure::MongoFailure;
use super::retry::COMMAND_TIMEOUT;
use crate::document::decode_result;

/// How many tasks are read at once, with results that are stored inline.
const TASKS_PER_BATCH: i64 = 200;

/// The fields of a MongoDB task document from which the reason of its outcome is filled in.
#[derive(Deserialize)]
struct EarlierResultFields {
    #[serde(rename = "_id")]
    id: Uuid,
    reason: Option<String>,
    result: Option<StoredContent>,
}

/// Unreadable tasks and results are left out. Safe to repeat.
pub(super) async fn fill_in(context: &Arc<StoreContext>) -> Result<(), MongoFailure> {
    let mut after = Bson::MinKey;
    loop {
        let found: Vec<RawDocumentBuf> = context
            .tasks()
            .find(doc! { "_id": { "$gt": after } })
            .projection(doc! { "reason": 1, "result": 1 })
            .sort(doc! { "_id": 1 })
            .limit(TASKS_PER_BATCH)
            .max_time(COMMAND_TIMEOUT)
            .await?
            .try_collect()
            .await?;
        let last = found.last().and_then(|task| task.get("_id").ok().flatten());
        let Some(Ok(last)) = last.map(Bson::try_from) else {
            return Ok(());
        };
        after = last;
        for (reason, ids) in reasons(context, &found).await? {
            context
                .collection::<Document>(TASKS)
                .update_many(
                    doc! { "_id": { "$in": ids }, "reason": null },
                    doc! { "$set": { "reason": reason.as_str() } },
                )
                .await?;
        }
    }
}

/// The tasks without a reason, by the reason in their results.
async fn reasons(
    context: &Arc<StoreContext>,
    tasks: &[RawDocumentBuf],
) -> Result<BTreeMap<OutcomeReason, Vec<Bson>>, MongoFailure> {
    let mut reasons: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for task in tasks {
        let task: Result<EarlierResultFields, _> = deserialize_from_slice(task.as_bytes());
        let Ok(EarlierResultFields {
            id,
            reason: None,
            result: Some(result),
        }) = task
        else {
            continue;
        };
        let id = task_id(id);
        let read = content::read(context, [(id, result)]).await?;
        let result = read.get(&id).and_then(|bytes| decode_result(bytes).ok());
        if let Some(outcome) = result.as_ref().and_then(TaskResult::last_outcome) {
            reasons.entry(outcome.reason).or_default().push(id.to_bson());
        }
    }
    Ok(reasons)
}
