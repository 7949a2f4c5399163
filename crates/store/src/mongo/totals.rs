//! The numbers of tasks: the sums of the counters in `ledger` and in the documents of the executors.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::TaskStatus;
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::ReadConcern;

use super::context::{EXECUTORS, LEDGER, StoreContext};
use super::counters::CounterDeltas;
use super::failure::MongoFailure;
use super::retry::COMMAND_TIMEOUT;
use crate::TaskTotals;

pub(super) async fn totals(context: Arc<StoreContext>) -> Result<TaskTotals, MongoFailure> {
    // Snapshot read concern: a counter may be incremented in one document and decremented in another.
    let documents: Vec<RawDocumentBuf> = context
        .collection::<Document>(LEDGER)
        .aggregate([
            doc! { "$unionWith": EXECUTORS },
            doc! { "$project": { "tally": 1 } },
        ])
        .read_concern(ReadConcern::snapshot())
        .max_time(COMMAND_TIMEOUT)
        .with_type::<RawDocumentBuf>()
        .await?
        .try_collect()
        .await?;
    let mut totals = CounterDeltas::default();
    for document in &documents {
        totals.add_stored(&stored_counters(&context, document));
    }
    Ok(TaskTotals {
        counts: TaskStatus::ALL
            .into_iter()
            .map(|status| (status, totals.count(status)))
            .collect(),
        held: totals.held(),
    })
}

/// The counters that a document holds. A counter that is not a number is logged and left out.
pub(super) fn stored_counters(context: &StoreContext, document: &RawDocument) -> BTreeMap<String, i64> {
    let name = || format!("counters of {:?}", document.get("_id").ok().flatten());
    let counters = match document.get("tally") {
        Ok(None) => return BTreeMap::new(),
        Ok(Some(counters)) => counters.as_document(),
        Err(_) => None,
    };
    let Some(counters) = counters else {
        context.unreadable_rows.record(name(), "they are not a document");
        return BTreeMap::new();
    };
    let mut values = BTreeMap::new();
    for counter in counters {
        let read = counter.ok().and_then(|(name, counter)| {
            let counter = counter.as_i64().or(counter.as_i32().map(i64::from))?;
            Some((name.as_str().to_string(), counter))
        });
        match read {
            Some((name, counter)) => drop(values.insert(name, counter)),
            None => context
                .unreadable_rows
                .record(name(), "one of them is not a number"),
        }
    }
    values
}
