//! The store's age: one document, which only leaders advance.

use std::sync::Arc;
use std::time::Duration;

use model::Age;
use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;

use super::attempts::COMMAND;
use super::base::{Base, META};
use super::failure::Failure;
use super::field::{Field, unreadable};

const ID: &str = "age";

/// Where there is none yet.
pub(super) async fn begin(base: &Base) -> Result<(), Failure> {
    base.collection::<Document>(META)
        .update_one(doc! { "_id": ID }, doc! { "$setOnInsert": { "age": 0_i64 } })
        .upsert(true)
        .await?;
    Ok(())
}

/// The newest that the primary has, for a stamp. Asked anew for each: a value kept from before would be too young
/// after a pause of this process, and what is stamped with it would be removed early.
pub(super) async fn now(base: &Base) -> Result<Age, Failure> {
    find(base, ReadConcern::local()).await
}

pub(super) async fn read(base: Arc<Base>) -> Result<Age, Failure> {
    find(&base, ReadConcern::majority()).await
}

pub(super) async fn advance(base: Arc<Base>, from: Age, by: Duration) -> Result<Age, Failure> {
    let to = from.plus(by);
    let advanced = base
        .collection::<Document>(META)
        .update_one(
            doc! { "_id": ID, "age": from.field() },
            doc! { "$set": { "age": to.field() } },
        )
        .await?;
    match advanced.matched_count {
        1 => Ok(to),
        // By another leader, or by an attempt of ours whose answer was lost.
        _ => read(base).await,
    }
}

async fn find(base: &Base, concern: ReadConcern) -> Result<Age, Failure> {
    let found = base
        .collection::<Document>(META)
        .find_one(doc! { "_id": ID })
        .read_concern(concern)
        .max_time(COMMAND)
        .await?;
    let age = found.as_ref().and_then(|found| found.get_i64("age").ok());
    age.map(Age)
        .ok_or_else(|| unreadable("store's age", "it is missing"))
}
