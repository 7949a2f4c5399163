//! Reads under which keys tasks with a requirement are queued.

use model::QueueKeys;
use mongodb::bson::{Document, doc};
use mongodb::options::{Hint, ReadConcern};

use crate::mongo::context::{StoreContext, TASKS};
use crate::mongo::failure::MongoFailure;
use crate::mongo::retry::COMMAND_TIMEOUT;
use crate::mongo::schema::REQUIRED_QUEUE_INDEX;

/// The keys among `own` under which tasks may be queued. Usually no task has a requirement, and this reads no more than the
/// first key.
pub(super) async fn claimable(context: &StoreContext, own: &QueueKeys) -> Result<Vec<String>, MongoFailure> {
    let Some(first) = first_queued(context, "").await? else {
        return Ok(vec![]);
    };
    let mut keys = judged(context, own, Some(first)).await?;
    keys.extend_from_slice(own.of_steps());
    Ok(keys)
}

/// The keys among `own` under which tasks are queued whose judge programs need tools of their own. An executor may claim
/// many more pairs of tools than are queued, so each read skips those of one side that the other does not have. `first` is
/// the first key in the queue.
pub(in crate::mongo) async fn judged(
    context: &StoreContext,
    own: &QueueKeys,
    first: Option<String>,
) -> Result<Vec<String>, MongoFailure> {
    let (mut keys, mut queued) = (vec![], first);
    while let Some(key) = queued.filter(|key| QueueKeys::is_judged(key)) {
        let next = match own.contains(&key) {
            true => own.first_after(&key),
            false => own.first_from(&key),
        };
        if own.contains(&key) {
            keys.push(key);
        }
        queued = match next.filter(|next| QueueKeys::is_judged(next)) {
            Some(next) => first_queued(context, &next).await?,
            None => None,
        };
    }
    Ok(keys)
}

/// The first key in the queue that is not less than this text.
pub(in crate::mongo) async fn first_queued(
    context: &StoreContext,
    text: &str,
) -> Result<Option<String>, MongoFailure> {
    let found = context
        .collection::<Document>(TASKS)
        .find_one(doc! { "waits_for": { "$gte": text } })
        .projection(doc! { "_id": 0, "waits_for": 1 })
        .sort(doc! { "waits_for": 1 })
        .hint(Hint::Name(REQUIRED_QUEUE_INDEX.into()))
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    Ok(found.and_then(|found| found.get_str("waits_for").ok().map(String::from)))
}
