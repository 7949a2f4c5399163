//! Searching: along an index in the order asked for, stopping as soon as the page is full or enough tasks were looked
//! at.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use model::{Counts, Cursor, Order, Page, Query};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::Hint;

use self::conditions::{Conditions, up_to};
use super::base::Base;
use super::failure::{Failure, TOO_LONG, code};
use super::row::{brief, key, readable, without_content};
use super::schema::{BY_STATUS, BY_TIME, BY_USER, HELD};
use super::totals::totals;
use crate::StoreError;
use crate::search::{Way, in_order_of_ids, page_length};

/// However few tasks a search looks at, it may not take the server for ever.
const LONGEST: Duration = Duration::from_secs(3);

pub(super) async fn search(base: Arc<Base>, query: Arc<Query>, window: usize) -> Result<Page, Failure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(Failure::Refused(StoreError::ForeignCursor));
    }
    let counts = match Way::needs_counts(&query) {
        true => totals(base.clone()).await?.counts,
        false => Counts::new(),
    };
    let way = Way::of(&query, &counts, window);
    look(&base, &query, &way, window)
        .await
        .map_err(|error| match code(&error) {
            Some(TOO_LONG) => Failure::Refused(StoreError::SearchTooLong { limit: LONGEST }),
            _ => error.into(),
        })
}

async fn look(base: &Base, query: &Query, way: &Way, window: usize) -> mongodb::error::Result<Page> {
    let Conditions { along, checks } = Conditions::of(query, way);
    // If every task on the way is on the page, the page itself bounds what is looked at.
    let end = match !checks.is_empty() && way.stops_after_a_window(query) {
        true => window_end(base, query, way, window).await?,
        false => None,
    };
    let mut query = query.clone();
    let full = page_length(&query);
    let mut page = Page::default();
    let mut conditions = [along, checks].concat();
    if let Some(end) = end {
        conditions.push(up_to(end, &query));
    }
    loop {
        let wanted = full + 1 - page.tasks.len();
        let found = read(base, &query, way, (&conditions, wanted)).await?;
        let last = found.iter().rev().find_map(|document| key(document));
        let ended = found.len() < wanted;
        let rows = readable(base, found);
        page.tasks.extend(rows.iter().filter_map(|row| brief(row).ok()));
        if page.tasks.len() > full {
            page.tasks.truncate(full);
            page.next = page.tasks.last().map(|last| query.cursor_after(last));
            return Ok(page);
        }
        match last {
            // There were some that cannot be read. The page goes on behind them.
            Some((add_time, id)) if !ended => {
                query.after = Some(query.cursor_at(add_time, id));
                conditions.extend(conditions::after(&query));
            }
            _ => break,
        }
    }
    if end.is_some() {
        page.complete = page.tasks.len() == full;
        page.next = end;
    }
    Ok(page)
}

/// Where the window ends: at its last task, if there are others behind it. Only the index is read for that.
async fn window_end(
    base: &Base,
    query: &Query,
    way: &Way,
    window: usize,
) -> mongodb::error::Result<Option<Cursor>> {
    let tasks = base.tasks();
    let two: Vec<RawDocumentBuf> = tasks
        .find(all(&Conditions::of(query, way).along))
        .projection(doc! { "_id": 1, "add_time": 1 })
        .sort(order(query))
        .hint(Hint::Name(index(way).into()))
        .skip(window.saturating_sub(1) as u64)
        .limit(2)
        .max_time(LONGEST)
        .await?
        .try_collect()
        .await?;
    let last = two.first().filter(|_| two.len() == 2);
    Ok(last
        .and_then(|last| key(last))
        .map(|(add_time, id)| query.cursor_at(add_time, id)))
}

async fn read(
    base: &Base,
    query: &Query,
    way: &Way,
    (conditions, limit): (&[Document], usize),
) -> mongodb::error::Result<Vec<RawDocumentBuf>> {
    base.tasks()
        .find(all(conditions))
        .projection(without_content())
        .sort(order(query))
        .hint(Hint::Name(index(way).into()))
        .limit(i64::try_from(limit).unwrap_or(i64::MAX))
        .batch_size(u32::try_from(limit).unwrap_or(u32::MAX))
        .max_time(LONGEST)
        .await?
        .try_collect()
        .await
}

fn all(conditions: &[Document]) -> Document {
    match conditions {
        [] => doc! {},
        conditions => doc! { "$and": conditions },
    }
}

fn index(way: &Way) -> &'static str {
    match way {
        Way::Ids | Way::IdRange => "_id_",
        Way::Executor => HELD,
        Way::User => BY_USER,
        Way::Statuses(_) => BY_STATUS,
        Way::All => BY_TIME,
    }
}

fn order(query: &Query) -> Document {
    let direction = match query.order {
        Order::Oldest => 1,
        Order::Newest => -1,
    };
    match in_order_of_ids(query) {
        true => doc! { "_id": direction },
        false => doc! { "add_time": direction, "_id": direction },
    }
}
