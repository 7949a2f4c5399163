//! Searches: scans an index in sort order until the page is full or the scan limit is reached.

mod conditions;
mod counts;

pub(super) use counts::count;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use model::{Page, SortOrder, StatusCounts, TaskId, TaskQuery, UnixTime};
use mongodb::bson::{Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::Hint;

use self::conditions::{SearchConditions, up_to};
use super::context::StoreContext;
use super::failure::{MAX_TIME_EXPIRED, MongoFailure, error_code};
use super::schema::{
    BY_GROUP_INDEX, BY_LABEL_INDEX, BY_STATUS_INDEX, BY_TIME_INDEX, BY_USER_GROUP_INDEX, BY_USER_INDEX,
    BY_USER_LABEL_INDEX, HELD_TASKS_INDEX,
};
use super::task_document::{parse_readable, sort_key, summary, without_content};
use super::totals::totals;
use crate::StoreError;
use crate::search::{SearchIndex, TextMatcher, is_ordered_by_id, page_length};

/// A search that takes longer returns the tasks found until then, with a cursor to continue from.
const PAGE_TIME_LIMIT: Duration = Duration::from_secs(3);
/// The least time for a step that examines a single task, even if that exceeds the time limit.
const LAST_STEP_MIN_TIME: Duration = Duration::from_millis(500);
/// After the server ran out of time, the next step examines this many times fewer tasks.
const STEP_REDUCTION: usize = 20;

pub(super) async fn search(
    context: Arc<StoreContext>,
    query: Arc<TaskQuery>,
    scan_limit: usize,
) -> Result<Page, MongoFailure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(MongoFailure::Refused(StoreError::ForeignCursor));
    }
    let page_deadline = Instant::now() + PAGE_TIME_LIMIT;
    let counts = match SearchIndex::needs_counts(&query) {
        true => totals(context.clone()).await?.counts,
        false => StatusCounts::new(),
    };
    let index = SearchIndex::choose(&query, &counts, scan_limit);
    collect_page(&context, &query, &index, (scan_limit, page_deadline))
        .await
        .map_err(|error| match is_time_limit_error(&error) {
            true => MongoFailure::Refused(StoreError::SearchTimeout {
                limit: PAGE_TIME_LIMIT,
            }),
            false => error.into(),
        })
}

fn is_time_limit_error(error: &mongodb::error::Error) -> bool {
    error_code(error) == Some(MAX_TIME_EXPIRED)
}

/// The bounds of one query of a MongoDB search, which collects a page of tasks in one or more such steps.
struct ScanStep {
    /// How many tasks the step examines. If not set, it runs to the end of the index.
    task_limit: Option<usize>,
    /// How many matching tasks still fit on the page.
    matches_wanted: usize,
    /// When the server aborts the query. It then returns nothing, so that a smaller step needs the rest of the time.
    server_deadline: Instant,
    /// When the page is returned as far as it is.
    page_deadline: Instant,
}

/// The matching tasks that one query ([`ScanStep`]) of a MongoDB search found.
struct ScanStepResult {
    documents: Vec<RawDocumentBuf>,
    examined: usize,
    /// The sort key of the last examined task; none if the step reached the end of the index.
    last_examined: Option<(UnixTime, TaskId)>,
}

/// Normally takes one step. If the server runs out of time, smaller steps follow until the page's time is used up.
async fn collect_page(
    context: &StoreContext,
    query: &TaskQuery,
    index: &SearchIndex,
    (scan_limit, page_deadline): (usize, Instant),
) -> mongodb::error::Result<Page> {
    let page_length = page_length(query);
    // If every examined task matches, the length of the page bounds the scan.
    let has_residual_checks =
        query.text.is_some() || !SearchConditions::new(query, index).residual_conditions.is_empty();
    // A smaller step may end at a task that the caller must not see.
    let may_stop = index.may_stop_at_scan_limit(query);
    let mut tasks_left = (has_residual_checks && may_stop).then_some(scan_limit);
    let (mut query, mut page) = (query.clone(), Page::default());
    let (mut task_limit, mut made_progress) = (tasks_left, false);
    loop {
        let now = Instant::now();
        let time_left = page_deadline.saturating_duration_since(now);
        let step = ScanStep {
            task_limit,
            matches_wanted: page_length + 1 - page.tasks.len(),
            server_deadline: now
                + match task_limit {
                    _ if made_progress => time_left,
                    Some(1) => time_left.max(LAST_STEP_MIN_TIME),
                    _ => time_left / 2,
                },
            page_deadline,
        };
        let found = match run_step(context, &query, index, &step).await {
            Ok(found) => found,
            Err(error) if is_time_limit_error(&error) && made_progress => break,
            Err(error) if is_time_limit_error(&error) && may_stop && task_limit != Some(1) => {
                task_limit = Some((task_limit.unwrap_or(page_length) / STEP_REDUCTION).max(1));
                continue;
            }
            Err(error) => return Err(error),
        };
        made_progress = true;
        let documents = parse_readable(context, found.documents);
        page.tasks
            .extend(documents.iter().filter_map(|document| summary(document).ok()));
        if page.tasks.len() > page_length {
            page.tasks.truncate(page_length);
            page.next = page.tasks.last().map(|last| query.cursor_after(last));
            return Ok(page);
        }
        let Some((add_time, id)) = found.last_examined else {
            return Ok(page);
        };
        query.after = Some(query.cursor_at(add_time, id));
        tasks_left = tasks_left.map(|tasks_left| tasks_left.saturating_sub(found.examined));
        if tasks_left == Some(0) || Instant::now() >= page_deadline {
            break;
        }
        let doubled = task_limit.map(|tasks| tasks.saturating_mul(2));
        task_limit = doubled.into_iter().chain(tasks_left).min();
    }
    page.complete = page.tasks.len() == page_length;
    page.next = query.after;
    Ok(page)
}

async fn run_step(
    context: &StoreContext,
    query: &TaskQuery,
    index: &SearchIndex,
    step: &ScanStep,
) -> mongodb::error::Result<ScanStepResult> {
    let end = match step.task_limit {
        Some(tasks) => find_step_end(context, query, index, (tasks, step.server_deadline)).await?,
        None => None,
    };
    let SearchConditions {
        index_conditions,
        residual_conditions,
    } = SearchConditions::new(query, index);
    let mut conditions = [index_conditions, residual_conditions].concat();
    conditions.extend(end.map(|(add_time, id)| up_to(query.cursor_at(add_time, id), query)));
    // The text is matched here: the server's matcher takes time in the product of both lengths and ignores its time
    // limit.
    let matcher = query.text.as_deref().map(TextMatcher::new);
    let mut found = ScanStepResult {
        documents: vec![],
        examined: 0,
        last_examined: None,
    };
    let mut cursor = open_cursor(context, query, index, (&conditions, step)).await?;
    loop {
        let document = match cursor.try_next().await {
            // The tasks found until now are a valid result.
            Err(error) if is_time_limit_error(&error) && found.last_examined.is_some() => return Ok(found),
            document => document?,
        };
        let Some(document) = document else {
            found.examined = step.task_limit.unwrap_or(found.examined);
            found.last_examined = end;
            return Ok(found);
        };
        found.examined += 1;
        // If the sort key of an unreadable document is unreadable too, the previous one serves as the cursor.
        found.last_examined = sort_key(&document).or(found.last_examined);
        if matcher
            .as_ref()
            .is_none_or(|matcher| matches_text(matcher, &document))
        {
            found.documents.push(document);
        }
        // At least one task is examined, so that every page makes progress.
        let is_over = found.last_examined.is_some() && Instant::now() >= step.page_deadline;
        if found.documents.len() == step.matches_wanted || is_over {
            return Ok(found);
        }
    }
}

fn matches_text(matcher: &TextMatcher, document: &RawDocument) -> bool {
    ["command", "compile"]
        .into_iter()
        .filter_map(|field| document.get_str(field).ok())
        .any(|command| matcher.matches(command))
}

/// The sort key of the last task of a step, or none if no task follows it. Reads only the index.
async fn find_step_end(
    context: &StoreContext,
    query: &TaskQuery,
    index: &SearchIndex,
    (tasks, server_deadline): (usize, Instant),
) -> mongodb::error::Result<Option<(UnixTime, TaskId)>> {
    let two: Vec<RawDocumentBuf> = context
        .tasks()
        .find(conjunction(&SearchConditions::new(query, index).index_conditions))
        .projection(doc! { "_id": 1, "add_time": 1 })
        .sort(sort_order(query))
        .hint(Hint::Name(index_name(query, index).into()))
        .skip(tasks.saturating_sub(1) as u64)
        .limit(2)
        .max_time(time_until(server_deadline))
        .await?
        .try_collect()
        .await?;
    let last = two.first().filter(|_| two.len() == 2);
    Ok(last.and_then(|last| sort_key(last)))
}

async fn open_cursor(
    context: &StoreContext,
    query: &TaskQuery,
    index: &SearchIndex,
    (conditions, step): (&[Document], &ScanStep),
) -> mongodb::error::Result<mongodb::Cursor<RawDocumentBuf>> {
    let tasks = context.tasks();
    let find = tasks
        .find(conjunction(conditions))
        .projection(without_content())
        .sort(sort_order(query))
        .hint(Hint::Name(index_name(query, index).into()))
        .max_time(time_until(step.server_deadline));
    match query.text {
        // How many documents must be read to find enough matches is not known in advance.
        Some(_) => find.await,
        None => {
            let limit = i64::try_from(step.matches_wanted).unwrap_or(i64::MAX);
            let batch = u32::try_from(step.matches_wanted).unwrap_or(u32::MAX);
            find.limit(limit).batch_size(batch).await
        }
    }
}

/// At least a millisecond: the server takes 0 for no limit.
fn time_until(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
}

fn conjunction(conditions: &[Document]) -> Document {
    match conditions {
        [] => doc! {},
        conditions => doc! { "$and": conditions },
    }
}

fn index_name(query: &TaskQuery, index: &SearchIndex) -> &'static str {
    match index {
        SearchIndex::Ids | SearchIndex::IdRange => "_id_",
        SearchIndex::Executor => HELD_TASKS_INDEX,
        SearchIndex::Group if query.user.is_some() => BY_USER_GROUP_INDEX,
        SearchIndex::Group => BY_GROUP_INDEX,
        SearchIndex::Label if query.user.is_some() => BY_USER_LABEL_INDEX,
        SearchIndex::Label => BY_LABEL_INDEX,
        SearchIndex::User => BY_USER_INDEX,
        SearchIndex::Statuses(_) => BY_STATUS_INDEX,
        SearchIndex::All => BY_TIME_INDEX,
    }
}

fn sort_order(query: &TaskQuery) -> Document {
    let direction = match query.order {
        SortOrder::Oldest => 1,
        SortOrder::Newest => -1,
    };
    match is_ordered_by_id(query) {
        true => doc! { "_id": direction },
        false => doc! { "add_time": direction, "_id": direction },
    }
}
