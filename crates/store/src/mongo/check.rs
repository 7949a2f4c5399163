//! A small document that a majority keeps and that is read back, to see whether the store works.

use std::sync::Arc;

use mongodb::bson::{Document, doc};

use super::attempts::COMMAND;
use super::base::{Base, META};
use super::failure::Failure;
use crate::StoreError;

pub(super) async fn check(base: Arc<Base>) -> Result<(), Failure> {
    let meta = base.collection::<Document>(META);
    let one = doc! { "_id": "check" };
    meta.update_one(one.clone(), doc! { "$inc": { "count": 1_i64 } })
        .upsert(true)
        .await?;
    match meta.find_one(one).max_time(COMMAND).await? {
        Some(_) => Ok(()),
        None => Err(Failure::Refused(StoreError::Unreadable {
            what: "check",
            detail: "it was written and is not there".into(),
        })),
    }
}
