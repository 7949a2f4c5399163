//! The totals: the sums over the ledger's stripes and the executors.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::Status;
use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;
use serde::Deserialize;

use super::attempts::COMMAND;
use super::base::{Base, EXECUTORS, LEDGER};
use super::failure::Failure;
use super::tally::Tally;
use crate::Totals;

#[derive(Deserialize)]
struct Sums {
    #[serde(default)]
    tally: BTreeMap<String, i64>,
}

pub(super) async fn totals(base: Arc<Base>) -> Result<Totals, Failure> {
    // One snapshot of both, for what is added in one may be taken away in the other.
    let sums: Vec<Sums> = base
        .collection::<Document>(LEDGER)
        .aggregate([
            doc! { "$unionWith": EXECUTORS },
            doc! { "$project": { "tally": 1 } },
        ])
        .read_concern(ReadConcern::snapshot())
        .max_time(COMMAND)
        .with_type::<Sums>()
        .await?
        .try_collect()
        .await?;
    let mut tally = Tally::default();
    sums.iter().for_each(|sums| tally.take_over(&sums.tally));
    Ok(Totals {
        counts: Status::ALL
            .into_iter()
            .map(|status| (status, tally.count(status)))
            .collect(),
        held: tally.held(),
    })
}
