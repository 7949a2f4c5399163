//! Counts the tasks that match, by status.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use model::{SortOrder, StatusCounts, TaskCounts, TaskQuery, TaskStatus};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::Hint;

use super::conditions::{SearchConditions, up_to};
use super::{conjunction, find_step_end, index_name, is_time_limit_error, matches_text, time_until};
use crate::StoreError;
use crate::mongo::context::StoreContext;
use crate::mongo::failure::MongoFailure;
use crate::mongo::totals::totals;
use crate::search::{COUNT_SCAN_LIMIT, SearchIndex, TextMatcher};

/// After this time the server aborts the count. A page is shown without it then.
const COUNT_TIME_LIMIT: Duration = Duration::from_secs(2);

pub(in crate::mongo) async fn count(
    context: Arc<StoreContext>,
    query: Arc<TaskQuery>,
    scan_limit: usize,
) -> Result<TaskCounts, MongoFailure> {
    let deadline = Instant::now() + COUNT_TIME_LIMIT;
    let scan_limit = scan_limit.min(COUNT_SCAN_LIMIT);
    let query = TaskQuery {
        order: SortOrder::Newest,
        after: None,
        ..(*query).clone()
    };
    let counts = match SearchIndex::needs_counts(&query) {
        true => totals(context.clone()).await?.counts,
        false => StatusCounts::new(),
    };
    let index = SearchIndex::choose(&query, &counts, scan_limit);
    count_until(&context, &query, &index, (scan_limit, deadline))
        .await
        .map_err(|error| match is_time_limit_error(&error) {
            true => MongoFailure::Refused(StoreError::SearchTimeout {
                limit: COUNT_TIME_LIMIT,
            }),
            false => error.into(),
        })
}

async fn count_until(
    context: &StoreContext,
    query: &TaskQuery,
    index: &SearchIndex,
    (scan_limit, deadline): (usize, Instant),
) -> mongodb::error::Result<TaskCounts> {
    let end = find_step_end(context, query, index, (scan_limit, deadline)).await?;
    let SearchConditions {
        index_conditions,
        residual_conditions,
    } = SearchConditions::new(query, index);
    let mut conditions = [index_conditions, residual_conditions].concat();
    conditions.extend(end.map(|(add_time, id)| up_to(query.cursor_at(add_time, id), query)));
    let filter = conjunction(&conditions);
    let hint = Hint::Name(index_name(query, index).into());
    let counts = match &query.text {
        None => count_on_server(context, filter, (hint, deadline)).await?,
        Some(text) => count_with_text(context, filter, &TextMatcher::new(text), (hint, deadline)).await?,
    };
    Ok(TaskCounts {
        counts,
        complete: end.is_none(),
    })
}

async fn count_on_server(
    context: &StoreContext,
    filter: Document,
    (hint, deadline): (Hint, Instant),
) -> mongodb::error::Result<StatusCounts> {
    let groups: Vec<RawDocumentBuf> = context
        .tasks()
        .aggregate([
            doc! { "$match": filter },
            doc! { "$group": { "_id": "$status", "tasks": { "$sum": 1_i64 } } },
        ])
        .hint(hint)
        .max_time(time_until(deadline))
        .with_type::<RawDocumentBuf>()
        .await?
        .try_collect()
        .await?;
    // A status that cannot be read is on no list either.
    let count = |group: &RawDocumentBuf| {
        let status: TaskStatus = group.get_str("_id").ok()?.parse().ok()?;
        let tasks = group.get_i64("tasks").ok()?;
        Some((status, tasks.unsigned_abs()))
    };
    Ok(groups.iter().filter_map(count).collect())
}

async fn count_with_text(
    context: &StoreContext,
    filter: Document,
    matcher: &TextMatcher,
    (hint, deadline): (Hint, Instant),
) -> mongodb::error::Result<StatusCounts> {
    let mut cursor = context
        .tasks()
        .find(filter)
        .projection(doc! { "status": 1, "command": 1, "compile": 1 })
        .hint(hint)
        .max_time(time_until(deadline))
        .await?;
    let mut counts = StatusCounts::new();
    while let Some(task) = cursor.try_next().await? {
        let status = task.get_str("status").ok().and_then(|status| status.parse().ok());
        if let (true, Some(status)) = (matches_text(matcher, &task), status) {
            *counts.entry(status).or_default() += 1;
        }
    }
    Ok(counts)
}
