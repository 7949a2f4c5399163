//! Counts the tasks that a claim takes before a queued one.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{QueuePlace, QueuedBefore};
use mongodb::bson::{Document, doc};
use mongodb::options::{Hint, ReadConcern};

use super::bson_values::ToBson;
use super::context::StoreContext;
use super::failure::MongoFailure;
use super::report::{first_queued, judged};
use super::retry::COMMAND_TIMEOUT;
use super::schema::{QUEUE_INDEX, REQUIRED_QUEUE_INDEX};

/// How many queue keys one count names.
const KEYS_IN_ONE_COUNT: usize = 500;

pub(super) async fn queued_before(
    context: Arc<StoreContext>,
    place: Arc<QueuePlace>,
) -> Result<QueuedBefore, MongoFailure> {
    let keys = queued_keys(&context, &place).await?;
    let (priority, time) = (place.priority, place.add_time.0);
    // Each is one range of an index.
    let before = [
        doc! { "priority": { "$gt": priority } },
        doc! { "priority": priority, "add_time": { "$lt": time } },
        doc! { "priority": priority, "add_time": time, "_id": { "$lt": place.id.to_bson() } },
    ];
    let mut found = 0;
    for before in before {
        found += count(&context, QUEUE_INDEX, doc! { "waits": true }, &before, found).await?;
        for keys in keys.chunks(KEYS_IN_ONE_COUNT) {
            let required = doc! { "waits_for": { "$in": keys } };
            found += count(&context, REQUIRED_QUEUE_INDEX, required, &before, found).await?;
        }
    }
    Ok(QueuedBefore::counted(found))
}

/// The keys of the tasks with a requirement that count.
async fn queued_keys(context: &StoreContext, place: &QueuePlace) -> Result<Vec<String>, MongoFailure> {
    let mut keys: BTreeSet<_> = place.requires.queue_key().into_iter().collect();
    let first = first_queued(context, "").await?;
    for tools in &place.tools {
        let own = tools.queue_keys();
        keys.extend(judged(context, &own, first.clone()).await?);
        keys.extend(own.of_steps().iter().cloned());
    }
    Ok(keys.into_iter().collect())
}

/// Counts no further than the limit, of which a part is counted before.
async fn count(
    context: &StoreContext,
    index: &str,
    mut queue: Document,
    before: &Document,
    counted: u64,
) -> Result<u64, MongoFailure> {
    let left = (u64::from(QueuedBefore::MAX) + 1).saturating_sub(counted);
    // The server refuses a limit of zero.
    if left == 0 {
        return Ok(0);
    }
    queue.extend(before.clone());
    let counted = context
        .tasks()
        .count_documents(queue)
        .hint(Hint::Name(index.into()))
        .limit(left)
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    Ok(counted)
}
