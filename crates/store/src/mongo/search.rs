//! Searching: along an index in the order asked for, stopping as soon as the page is full or enough tasks were looked
//! at.

mod conditions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use model::{Counts, Moment, Order, Page, Query, TaskId};
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::Hint;

use self::conditions::{Conditions, up_to};
use super::base::Base;
use super::failure::{Failure, TOO_LONG, code};
use super::row::{brief, key, readable, without_content};
use super::schema::{BY_STATUS, BY_TIME, BY_USER, HELD};
use super::totals::totals;
use crate::StoreError;
use crate::search::{Needle, Way, in_order_of_ids, page_length};

/// A page that takes longer ends as it is and says where to go on.
const LONGEST: Duration = Duration::from_secs(3);
/// What a last try to get on at all may take beyond that.
const LEAST: Duration = Duration::from_millis(500);
/// Where the server was stopped, so many times fewer tasks are looked at in the next step.
const FEWER: usize = 20;

pub(super) async fn search(base: Arc<Base>, query: Arc<Query>, window: usize) -> Result<Page, Failure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(Failure::Refused(StoreError::ForeignCursor));
    }
    let end = Instant::now() + LONGEST;
    let counts = match Way::needs_counts(&query) {
        true => totals(base.clone()).await?.counts,
        false => Counts::new(),
    };
    let way = Way::of(&query, &counts, window);
    look(&base, &query, &way, (window, end))
        .await
        .map_err(|error| match is_too_long(&error) {
            true => Failure::Refused(StoreError::SearchTooLong { limit: LONGEST }),
            false => error.into(),
        })
}

fn is_too_long(error: &mongodb::error::Error) -> bool {
    code(error) == Some(TOO_LONG)
}

/// A part of the way that is looked at in one go.
struct Step {
    /// All to the end of the way if it is not set.
    tasks: Option<usize>,
    /// How many of those that match still fit on the page.
    wanted: usize,
    /// When the server is stopped. It then answers nothing, so that a smaller step needs time after that.
    stop: Instant,
    /// When the page ends as it is.
    end: Instant,
}

struct Found {
    rows: Vec<RawDocumentBuf>,
    looked_at: usize,
    /// The task at which the step ended; none if the way ended in it.
    reached: Option<(Moment, TaskId)>,
}

/// In one step as a rule. If the server takes too long for that, in smaller ones until the time is used up.
async fn look(
    base: &Base,
    query: &Query,
    way: &Way,
    (window, end): (usize, Instant),
) -> mongodb::error::Result<Page> {
    let full = page_length(query);
    // If every task on the way is on the page, the page itself bounds what is looked at.
    let is_checked = query.text.is_some() || !Conditions::of(query, way).checks.is_empty();
    // A smaller step may end at a task that the query may not see.
    let may_stop = way.stops_after_a_window(query);
    let mut left = (is_checked && may_stop).then_some(window);
    let (mut query, mut page) = (query.clone(), Page::default());
    let (mut tasks, mut got_on) = (left, false);
    loop {
        let now = Instant::now();
        let time = end.saturating_duration_since(now);
        let step = Step {
            tasks,
            wanted: full + 1 - page.tasks.len(),
            stop: now
                + match tasks {
                    _ if got_on => time,
                    Some(1) => time.max(LEAST),
                    _ => time / 2,
                },
            end,
        };
        let found = match take(base, &query, way, &step).await {
            Ok(found) => found,
            Err(error) if is_too_long(&error) && got_on => break,
            Err(error) if is_too_long(&error) && may_stop && tasks != Some(1) => {
                tasks = Some((tasks.unwrap_or(full) / FEWER).max(1));
                continue;
            }
            Err(error) => return Err(error),
        };
        got_on = true;
        let rows = readable(base, found.rows);
        page.tasks.extend(rows.iter().filter_map(|row| brief(row).ok()));
        if page.tasks.len() > full {
            page.tasks.truncate(full);
            page.next = page.tasks.last().map(|last| query.cursor_after(last));
            return Ok(page);
        }
        let Some((add_time, id)) = found.reached else {
            return Ok(page);
        };
        query.after = Some(query.cursor_at(add_time, id));
        left = left.map(|left| left.saturating_sub(found.looked_at));
        if left == Some(0) || Instant::now() >= end {
            break;
        }
        let more = tasks.map(|tasks| tasks.saturating_mul(2));
        tasks = more.into_iter().chain(left).min();
    }
    page.complete = page.tasks.len() == full;
    page.next = query.after;
    Ok(page)
}

async fn take(base: &Base, query: &Query, way: &Way, step: &Step) -> mongodb::error::Result<Found> {
    let end = match step.tasks {
        Some(tasks) => step_end(base, query, way, (tasks, step.stop)).await?,
        None => None,
    };
    let Conditions { along, checks } = Conditions::of(query, way);
    let mut conditions = [along, checks].concat();
    conditions.extend(end.map(|(add_time, id)| up_to(query.cursor_at(add_time, id), query)));
    // The server's own matcher takes time in the product of both lengths for a text, and no look at the clock.
    let needle = query.text.as_deref().map(Needle::new);
    let mut found = Found {
        rows: vec![],
        looked_at: 0,
        reached: None,
    };
    let mut cursor = read(base, query, way, (&conditions, step)).await?;
    loop {
        let row = match cursor.try_next().await {
            // What was found until now is an answer, too.
            Err(error) if is_too_long(&error) && found.reached.is_some() => return Ok(found),
            row => row?,
        };
        let Some(row) = row else {
            found.looked_at = step.tasks.unwrap_or(found.looked_at);
            found.reached = end;
            return Ok(found);
        };
        found.looked_at += 1;
        // The key of a row that cannot be read may be unreadable too; then an earlier one serves.
        found.reached = key(&row).or(found.reached);
        if needle.as_ref().is_none_or(|needle| is_in(needle, &row)) {
            found.rows.push(row);
        }
        // One task at least, so that every page gets on.
        let is_over = found.reached.is_some() && Instant::now() >= step.end;
        if found.rows.len() == step.wanted || is_over {
            return Ok(found);
        }
    }
}

fn is_in(needle: &Needle, row: &RawDocument) -> bool {
    ["command", "compile"]
        .into_iter()
        .filter_map(|field| row.get_str(field).ok())
        .any(|command| needle.is_part_of(command))
}

/// Where the step ends: at its last task, if there are others behind it. Only the index is read for that.
async fn step_end(
    base: &Base,
    query: &Query,
    way: &Way,
    (tasks, stop): (usize, Instant),
) -> mongodb::error::Result<Option<(Moment, TaskId)>> {
    let two: Vec<RawDocumentBuf> = base
        .tasks()
        .find(all(&Conditions::of(query, way).along))
        .projection(doc! { "_id": 1, "add_time": 1 })
        .sort(order(query))
        .hint(Hint::Name(index(way).into()))
        .skip(tasks.saturating_sub(1) as u64)
        .limit(2)
        .max_time(time_until(stop))
        .await?
        .try_collect()
        .await?;
    let last = two.first().filter(|_| two.len() == 2);
    Ok(last.and_then(|last| key(last)))
}

async fn read(
    base: &Base,
    query: &Query,
    way: &Way,
    (conditions, step): (&[Document], &Step),
) -> mongodb::error::Result<mongodb::Cursor<RawDocumentBuf>> {
    let tasks = base.tasks();
    let find = tasks
        .find(all(conditions))
        .projection(without_content())
        .sort(order(query))
        .hint(Hint::Name(index(way).into()))
        .max_time(time_until(step.stop));
    match query.text {
        // How many are read before enough of them have the text is not known.
        Some(_) => find.await,
        None => {
            let limit = i64::try_from(step.wanted).unwrap_or(i64::MAX);
            let batch = u32::try_from(step.wanted).unwrap_or(u32::MAX);
            find.limit(limit).batch_size(batch).await
        }
    }
}

/// To the server, no time at all would mean as long as it likes.
fn time_until(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
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
