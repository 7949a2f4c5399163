//! The store's age: one document, which only the leader advances.

use std::sync::Arc;
use std::time::Duration;

use model::StoreAge;
use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;

use super::bson_values::{ToBson, unreadable};
use super::context::{META, StoreContext};
use super::failure::MongoFailure;
use super::retry::COMMAND_TIMEOUT;

const ID: &str = "age";

/// Starts at 0, unless the document exists.
pub(super) async fn initialize(context: &StoreContext) -> Result<(), MongoFailure> {
    context
        .collection::<Document>(META)
        .update_one(doc! { "_id": ID }, doc! { "$setOnInsert": { "age": 0_i64 } })
        .upsert(true)
        .await?;
    Ok(())
}

/// The newest value of the primary, for stamping documents. It is not cached: after a pause of this process a cached
/// age would be too low, and retention would remove the stamped documents too early.
pub(super) async fn now(context: &StoreContext) -> Result<StoreAge, MongoFailure> {
    read_with(context, ReadConcern::local()).await
}

/// The value that a majority has.
pub(super) async fn read(context: Arc<StoreContext>) -> Result<StoreAge, MongoFailure> {
    read_with(&context, ReadConcern::majority()).await
}

pub(super) async fn advance(
    context: Arc<StoreContext>,
    from: StoreAge,
    by: Duration,
) -> Result<StoreAge, MongoFailure> {
    let to = from.plus(by);
    let advanced = context
        .collection::<Document>(META)
        .update_one(
            doc! { "_id": ID, "age": from.to_bson() },
            doc! { "$set": { "age": to.to_bson() } },
        )
        .await?;
    match advanced.matched_count {
        1 => Ok(to),
        // Another leader advanced it, or an earlier try of this call did and its reply was lost.
        _ => read(context).await,
    }
}

async fn read_with(context: &StoreContext, concern: ReadConcern) -> Result<StoreAge, MongoFailure> {
    let found = context
        .collection::<Document>(META)
        .find_one(doc! { "_id": ID })
        .read_concern(concern)
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let age = found.as_ref().and_then(|found| found.get_i64("age").ok());
    age.map(StoreAge)
        .ok_or_else(|| unreadable("store's age", "it is missing"))
}
