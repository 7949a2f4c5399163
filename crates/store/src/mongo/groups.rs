//! Reads groups, and removes those that have no tasks any more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::TryStreamExt;
use model::{GroupKey, GroupPage, GroupQuery, GroupState};
use mongodb::bson::{
    Bson, Document, RawDocument, RawDocumentBuf, deserialize_from_slice, doc, serialize_to_bson,
};
use mongodb::error::Error;
use mongodb::options::ReadConcern;

use super::bson_values::ToBson;
use super::context::{GROUPS, StoreContext};
use super::failure::MongoFailure;
use super::group_counters::{GroupSum, StripeDocument, stripe_bound};
use super::retry::COMMAND_TIMEOUT;
use super::transaction::Transaction;

/// How many stripes the list of groups reads for one page. A page of groups with many stripes is shorter.
const MAX_STRIPES_PER_PAGE: usize = 10_000;
/// How many stripes one round of retention examines to find empty groups.
const STRIPES_PER_SWEEP: usize = 1000;

/// Where the MongoDB store's retention continues to look for groups without tasks. They are few: retention removes a
/// group with its last task, unless the process ends between the two.
#[derive(Debug, Default)]
pub(super) struct EmptyGroupSweep(Mutex<Option<GroupKey>>);

/// The stripes of a group are read in one snapshot: a transition may add to one and subtract from another.
pub(super) async fn group(
    context: Arc<StoreContext>,
    key: GroupKey,
) -> Result<Option<GroupState>, MongoFailure> {
    let mut sum = GroupSum::default();
    for stripe in stripes_of(&context, &key).await? {
        sum.add(&stripe);
    }
    Ok(sum.state(key))
}

async fn stripes_of(context: &StoreContext, key: &GroupKey) -> Result<Vec<StripeDocument>, MongoFailure> {
    let bounds = doc! { "$gte": stripe_bound(key, Bson::MinKey), "$lte": stripe_bound(key, Bson::MaxKey) };
    let found: Vec<RawDocumentBuf> = context
        .collection(GROUPS)
        .find(doc! { "_id": bounds })
        .read_concern(ReadConcern::snapshot())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(found
        .iter()
        .filter_map(|document| parse(context, document))
        .collect())
}

/// An unreadable document is logged and left out.
fn parse(context: &StoreContext, document: &RawDocument) -> Option<StripeDocument> {
    let parsed: Result<StripeDocument, _> = deserialize_from_slice(document.as_bytes());
    let note = |problem: String| {
        let id = document.get("_id").ok().flatten();
        context
            .unreadable_rows
            .record(format_args!("group {id:?}"), problem);
    };
    parsed.map_err(|error| note(error.to_string())).ok()
}

pub(super) async fn groups(
    context: Arc<StoreContext>,
    query: Arc<GroupQuery>,
) -> Result<GroupPage, MongoFailure> {
    let limit = query.limit.clamp(1, GroupQuery::MAX_PAGE);
    let scan = scan(&context, &query, limit, MAX_STRIPES_PER_PAGE).await?;
    let mut page = GroupPage::default();
    for (key, sum) in scan.sums {
        page.groups.extend(sum.state(key));
    }
    page.next = scan.next;
    Ok(page)
}

/// Groups that the MongoDB store has read in their order, with or without tasks.
struct GroupScan {
    sums: Vec<(GroupKey, GroupSum)>,
    /// The last of them, if more follow.
    next: Option<GroupKey>,
}

/// Reads groups until `limit` of them have tasks or `max_stripes` stripes are read.
async fn scan(
    context: &StoreContext,
    query: &GroupQuery,
    limit: usize,
    max_stripes: usize,
) -> Result<GroupScan, MongoFailure> {
    let mut bounds = Document::new();
    if let Some(user) = &query.user {
        bounds.insert("$gte", doc! { "user": user.to_bson(), "group": Bson::MinKey });
        bounds.insert("$lte", doc! { "user": user.to_bson(), "group": Bson::MaxKey });
    }
    let after = query.after.as_ref().map(|key| stripe_bound(key, Bson::MaxKey));
    let after = after.map(|bound| doc! { "_id": { "$gt": bound } });
    let within = (!bounds.is_empty()).then(|| doc! { "_id": bounds });
    let conditions: Vec<_> = within.into_iter().chain(after).collect();
    let condition = match conditions.is_empty() {
        true => doc! {},
        false => doc! { "$and": conditions },
    };
    let mut cursor = context
        .collection::<RawDocumentBuf>(GROUPS)
        .find(condition)
        .sort(doc! { "_id": 1 })
        .batch_size(1000)
        .limit(i64::try_from(max_stripes + 1).unwrap_or(i64::MAX))
        .read_concern(ReadConcern::snapshot())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let mut scan = GroupScan {
        sums: vec![],
        next: None,
    };
    let (mut read, mut with_tasks) = (0, 0);
    while let Some(document) = cursor.try_next().await? {
        read += 1;
        let Some((stripe, key)) = parse(context, &document).and_then(|stripe| {
            let key = stripe.id.key().ok()?;
            Some((stripe, key))
        }) else {
            continue;
        };
        let is_next_group = scan.sums.last().is_none_or(|(last, _)| *last != key);
        if is_next_group {
            if let Some((last, sum)) = scan.sums.last() {
                with_tasks += usize::from(sum.clone().state(last.clone()).is_some());
            }
            if with_tasks == limit {
                scan.next = scan.sums.last().map(|(last, _)| last.clone());
                return Ok(scan);
            }
            scan.sums.push((key, GroupSum::default()));
        }
        if let Some((_, sum)) = scan.sums.last_mut() {
            sum.add(&stripe);
        }
    }
    if read > max_stripes {
        // The stripes of the last group may be incomplete. No group has so many stripes that none is left.
        scan.sums.pop();
        scan.next = scan.sums.last().map(|(last, _)| last.clone());
    }
    Ok(scan)
}

/// Removes the stripes of the groups that have no tasks. A group that gets a task at the same time keeps it: its stripes
/// are removed only if they have not changed.
pub(super) async fn remove_empty(
    context: Arc<StoreContext>,
    keys: Arc<BTreeSet<GroupKey>>,
) -> Result<(), MongoFailure> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut transaction = Transaction::default();
    for key in keys.iter() {
        let stripes = stripes_of(&context, key).await?;
        let mut sum = GroupSum::default();
        stripes.iter().for_each(|stripe| sum.add(stripe));
        if !sum.is_empty() || stripes.is_empty() {
            continue;
        }
        let mut unchanged = vec![];
        for stripe in &stripes {
            let id = serialize_to_bson(&stripe.id).map_err(Error::from)?;
            unchanged.push(doc! { "_id": id, "revision": stripe.revision, "created_as": stripe.created_as });
        }
        transaction.delete_each(GROUPS, unchanged)?;
    }
    transaction.commit(&context).await
}

/// The groups without tasks among the next ones, in a round over all groups.
pub(super) async fn find_empty(context: Arc<StoreContext>) -> Result<BTreeSet<GroupKey>, MongoFailure> {
    let position = || {
        context
            .empty_group_sweep
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    };
    let query = GroupQuery {
        user: None,
        after: position().clone(),
        limit: usize::MAX,
    };
    let scan = scan(&context, &query, usize::MAX, STRIPES_PER_SWEEP).await?;
    *position() = scan.next;
    let empty = scan
        .sums
        .into_iter()
        .filter_map(|(key, sum)| sum.is_empty().then_some(key));
    Ok(empty.collect())
}
