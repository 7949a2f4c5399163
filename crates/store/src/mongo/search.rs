//! Searching: along an index in the order asked for, stopping as soon as the page is full.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::{Order, Page, Query, Status};
use mongodb::bson::{Document, doc};
use mongodb::options::Hint;

use self::conditions::conditions;
use super::base::Base;
use super::failure::{Failure, TOO_LONG, code};
use super::row::{Row, brief, without_content};
use super::schema::{BY_STATUS, BY_TIME, BY_USER, HELD};
use crate::StoreError;

/// A search may have to look at every task, for one that matches none. It may not take the server for ever.
const LONGEST: Duration = Duration::from_secs(3);
const DEFAULT_LIMIT: usize = 50;

pub(super) async fn search(base: Arc<Base>, query: Arc<Query>) -> Result<Page, Failure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(Failure::Refused(StoreError::ForeignCursor));
    }
    let full = limit(&query);
    let mut rows = read(&base, &query, full + 1)
        .await
        .map_err(|error| match code(&error) {
            Some(TOO_LONG) => Failure::Refused(StoreError::SearchTooLong { limit: LONGEST }),
            _ => error.into(),
        })?;
    // One more than the page holds was asked for, so that it is known whether another follows.
    let more = rows.len() > full;
    rows.truncate(full);
    let tasks = rows.iter().map(brief).collect::<Result<Vec<_>, _>>()?;
    let next = tasks.last().filter(|_| more).map(|last| query.cursor_after(last));
    Ok(Page { tasks, next })
}

async fn read(base: &Base, query: &Query, limit: usize) -> mongodb::error::Result<Vec<Row>> {
    let tasks = base.tasks();
    let mut find = tasks
        .find(conditions(query))
        .projection(without_content())
        .sort(order(query))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .max_time(LONGEST);
    if let Some(index) = index(query) {
        find = find.hint(Hint::Name(index.into()));
    }
    find.await?.try_collect().await
}

/// The narrowest way to the tasks. Of a user's tasks with some statuses it is the server that finds out which of
/// two ways is shorter.
fn index(query: &Query) -> Option<&'static str> {
    let any_status = Status::ALL.iter().all(|status| query.statuses.contains(status));
    match query {
        Query { ids, .. } if !ids.is_empty() => Some("_id_"),
        Query {
            id_prefix: Some(_), ..
        } => Some("_id_"),
        Query {
            executor: Some(_), ..
        } => Some(HELD),
        Query {
            user: Some(_),
            statuses,
            ..
        } if statuses.is_empty() => Some(BY_USER),
        Query { user: Some(_), .. } => None,
        Query { statuses, .. } if statuses.is_empty() || any_status => Some(BY_TIME),
        _ => Some(BY_STATUS),
    }
}

fn order(query: &Query) -> Document {
    let direction = match query.order {
        Order::Oldest => 1,
        Order::Newest => -1,
    };
    match query.id_prefix {
        Some(_) => doc! { "_id": direction },
        None => doc! { "add_time": direction, "_id": direction },
    }
}

fn limit(query: &Query) -> usize {
    if query.limit == 0 {
        DEFAULT_LIMIT
    } else {
        query.limit.min(Query::LIMIT)
    }
}
