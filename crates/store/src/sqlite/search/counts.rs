//! Counts the tasks that match, by status.

use std::time::Duration;

use model::{SortOrder, StatusCounts, TaskCounts, TaskQuery, TaskStatus};
use rusqlite::{Connection, Row, params_from_iter};

use super::statement::SearchStatement;
use super::{STEP, with_timeout};
use crate::search::{COUNT_SCAN_LIMIT, SearchIndex, TextMatcher};
use crate::sqlite::failure::{SqliteFailure, StepContext};
use crate::sqlite::ledger;
use crate::sqlite::sql_value::SqlValue;

/// After this time SQLite interrupts the count. A page is shown without it then.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

pub(in crate::sqlite) fn count(
    connection: &mut Connection,
    query: &TaskQuery,
    scan_limit: usize,
) -> Result<TaskCounts, SqliteFailure> {
    let scan_limit = scan_limit.min(COUNT_SCAN_LIMIT);
    let query = TaskQuery {
        order: SortOrder::Newest,
        after: None,
        ..query.clone()
    };
    with_timeout(connection, COUNT_TIMEOUT, |connection| {
        let counts = match SearchIndex::needs_counts(&query) {
            true => ledger::totals(connection)?.counts,
            false => StatusCounts::new(),
        };
        let index = SearchIndex::choose(&query, &counts, scan_limit);
        let found = match &query.text {
            None => count_in_sql(connection, &query, &index, scan_limit)?,
            Some(text) => count_with_text(connection, (&query, &index), &TextMatcher::new(text), scan_limit)?,
        };
        Ok(TaskCounts {
            counts: found.matches,
            complete: found.examined < scan_limit,
        })
    })
}

/// What a count in SQLite found among the tasks that it has examined.
#[derive(Default)]
struct CountedTasks {
    examined: usize,
    matches: StatusCounts,
}

/// Returns no row for each task, which costs more than all else.
fn count_in_sql(
    connection: &Connection,
    query: &TaskQuery,
    index: &SearchIndex,
    scan_limit: usize,
) -> Result<CountedTasks, SqliteFailure> {
    let SearchStatement { sql, parameters, .. } = SearchStatement::with_columns(query, index, "id, status");
    let sql =
        format!("SELECT status, count(*), sum(matches) FROM ({sql} LIMIT {scan_limit}) GROUP BY status");
    let mut statement = connection.prepare_cached(&sql).during(STEP)?;
    let mut rows = statement.query(params_from_iter(parameters)).during(STEP)?;
    let mut found = CountedTasks::default();
    while let Some(row) = rows.next().during(STEP)? {
        let (examined, matches): (i64, i64) = (row.get(1).during(STEP)?, row.get(2).during(STEP)?);
        found.examined += usize::try_from(examined).unwrap_or(usize::MAX);
        // A status that cannot be read is on no list either.
        if let (Ok(SqlValue(status)), 1..) = (row.get::<_, SqlValue<TaskStatus>>(0), matches) {
            found.matches.insert(status, matches.unsigned_abs());
        }
    }
    Ok(found)
}

fn count_with_text(
    connection: &Connection,
    (query, index): (&TaskQuery, &SearchIndex),
    matcher: &TextMatcher,
    scan_limit: usize,
) -> Result<CountedTasks, SqliteFailure> {
    let columns = "id, status, command, compile";
    let SearchStatement { sql, parameters, .. } = SearchStatement::with_columns(query, index, columns);
    let sql = format!("{sql} LIMIT {scan_limit}");
    let mut statement = connection.prepare_cached(&sql).during(STEP)?;
    let mut rows = statement.query(params_from_iter(parameters)).during(STEP)?;
    let mut found = CountedTasks::default();
    while let Some(row) = rows.next().during(STEP)? {
        found.examined += 1;
        let passes_filters = row.get(5).during(STEP)?;
        let has_text = |row: &Row<'_>, column| {
            let text = row.get_ref(column).ok().and_then(|value| value.as_str().ok());
            text.is_some_and(|command| matcher.matches(command))
        };
        if passes_filters
            && (has_text(row, 3) || has_text(row, 4))
            && let Ok(SqlValue(status)) = row.get::<_, SqlValue<TaskStatus>>(2)
        {
            *found.matches.entry(status).or_default() += 1;
        }
    }
    Ok(found)
}
