//! The totals: the sums over the ledger's stripes and the executors.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::Status;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::ReadConcern;

use super::attempts::COMMAND;
use super::base::{Base, EXECUTORS, LEDGER};
use super::failure::Failure;
use super::tally::Tally;
use crate::Totals;

pub(super) async fn totals(base: Arc<Base>) -> Result<Totals, Failure> {
    // One snapshot of both, for what is added in one may be taken away in the other.
    let documents: Vec<RawDocumentBuf> = base
        .collection::<Document>(LEDGER)
        .aggregate([
            doc! { "$unionWith": EXECUTORS },
            doc! { "$project": { "tally": 1 } },
        ])
        .read_concern(ReadConcern::snapshot())
        .max_time(COMMAND)
        .with_type::<RawDocumentBuf>()
        .await?
        .try_collect()
        .await?;
    let mut tally = Tally::default();
    for document in &documents {
        tally.take_over(&sums(&base, document));
    }
    Ok(Totals {
        counts: Status::ALL
            .into_iter()
            .map(|status| (status, tally.count(status)))
            .collect(),
        held: tally.held(),
    })
}

/// The sums of a document. One that is no number is noted, and counts for nothing.
pub(super) fn sums(base: &Base, document: &RawDocument) -> BTreeMap<String, i64> {
    let name = || format!("sums of {:?}", document.get("_id").ok().flatten());
    let tally = match document.get("tally") {
        Ok(None) => return BTreeMap::new(),
        Ok(Some(tally)) => tally.as_document(),
        Err(_) => None,
    };
    let Some(tally) = tally else {
        base.set_aside.note(name(), "they are no document");
        return BTreeMap::new();
    };
    let mut sums = BTreeMap::new();
    for sum in tally {
        let read = sum.ok().and_then(|(name, sum)| {
            let sum = sum.as_i64().or(sum.as_i32().map(i64::from))?;
            Some((name.as_str().to_string(), sum))
        });
        match read {
            Some((name, sum)) => drop(sums.insert(name, sum)),
            None => base.set_aside.note(name(), "one of them is no number"),
        }
    }
    sums
}
