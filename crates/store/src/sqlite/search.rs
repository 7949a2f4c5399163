//! Searches tasks. A search scans an index in the order of the results, and stops when the page is full or a bound is
//! reached.

mod counts;
mod statement;

pub(super) use counts::count;

use std::time::{Duration, Instant};

use model::{Page, StatusCounts, TaskId, TaskQuery, UnixTime};
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};

use self::statement::SearchStatement;
use super::failure::{SqliteFailure, StepContext};
use super::ledger;
use super::rows::{MATCHES_COLUMN, read_summary, skip_unreadable_task};
use super::sql_value::SqlValue;
use crate::StoreError;
use crate::search::{SearchIndex, TextMatcher, page_length};
use crate::unreadable_rows::UnreadableRows;

/// After this time the search returns the tasks it has found and a cursor to continue from.
const PAGE_TIME: Duration = Duration::from_secs(3);
/// After this time SQLite interrupts the search, so that a slow disk does not block the thread.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How many instructions of its virtual machine SQLite runs between two checks of the timeout: about a millisecond.
const INSTRUCTIONS_PER_CHECK: i32 = 10_000;

pub(super) fn search(
    connection: &mut Connection,
    query: &TaskQuery,
    scan_limit: usize,
    unreadable_rows: &UnreadableRows,
) -> Result<Page, SqliteFailure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(SqliteFailure::Refused(StoreError::ForeignCursor));
    }
    let bounds = ScanBounds {
        scan_limit,
        deadline: Instant::now() + PAGE_TIME,
    };
    with_timeout(connection, SEARCH_TIMEOUT, |connection| {
        scan_page(connection, query, bounds, unreadable_rows)
    })
}

/// The bounds of a SQLite search for one page: how many tasks it examines, and until when.
#[derive(Clone, Copy, Debug)]
struct ScanBounds {
    scan_limit: usize,
    deadline: Instant,
}

const STEP: &str = "search";

/// Interrupts `work` after the timeout.
fn with_timeout<T>(
    connection: &mut Connection,
    timeout: Duration,
    work: impl FnOnce(&Connection) -> Result<T, SqliteFailure>,
) -> Result<T, SqliteFailure> {
    let deadline = Instant::now() + timeout;
    connection
        .progress_handler(INSTRUCTIONS_PER_CHECK, Some(move || Instant::now() >= deadline))
        .during(STEP)?;
    let result = work(connection);
    connection
        .progress_handler(0, None::<fn() -> bool>)
        .during(STEP)?;
    result.map_err(|failure| match failure {
        SqliteFailure::Database { source, .. } if is_interrupted(&source) => {
            SqliteFailure::Refused(StoreError::SearchTimeout { limit: timeout })
        }
        other => other,
    })
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

/// Scans the index until the page is full, the index ends, or a bound is reached.
fn scan_page(
    connection: &Connection,
    query: &TaskQuery,
    bounds: ScanBounds,
    unreadable_rows: &UnreadableRows,
) -> Result<Page, SqliteFailure> {
    let counts = match SearchIndex::needs_counts(query) {
        true => ledger::totals(connection)?.counts,
        false => StatusCounts::new(),
    };
    let index = SearchIndex::choose(query, &counts, bounds.scan_limit);
    let SearchStatement {
        sql,
        parameters,
        has_filters,
    } = SearchStatement::of(query, &index);
    let may_stop = index.may_stop_at_scan_limit(query);
    // If the index finds only matching tasks, the length of the page bounds the scan.
    let stops_at_limit = may_stop && (has_filters || query.text.is_some());
    let mut statement = connection.prepare_cached(&sql).during(STEP)?;
    let mut rows = statement.query(params_from_iter(parameters)).during(STEP)?;
    let matcher = query.text.as_deref().map(TextMatcher::new);
    let page_length = page_length(query);
    let mut page = Page::default();
    let (mut examined, mut last_examined) = (0, None);
    loop {
        let row = match rows.next() {
            // The tasks found before the timeout are a valid page.
            Err(error) if is_interrupted(&error) && last_examined.is_some() => break,
            row => row.during(STEP)?,
        };
        let Some(row) = row else {
            return Ok(page);
        };
        // Every page examines at least one task, so that following the cursors comes to an end.
        if (examined == bounds.scan_limit && stops_at_limit)
            || (last_examined.is_some() && Instant::now() >= bounds.deadline)
        {
            break;
        }
        examined += 1;
        let passes_filters = row.get(MATCHES_COLUMN).during(STEP)?;
        let matches = passes_filters && matcher.as_ref().is_none_or(|matcher| has_text(matcher, row));
        if matches && page.tasks.len() == page_length {
            page.next = page.tasks.last().map(|last| query.cursor_after(last));
            return Ok(page);
        }
        // The cursor must not name a task that the query may not see. If the key of a row is unreadable, the cursor
        // names the task before it.
        if passes_filters || may_stop {
            last_examined = sort_key(row).or(last_examined);
        }
        if matches
            && let Some(summary) =
                skip_unreadable_task(row, read_summary(row), unreadable_rows).during(STEP)?
        {
            page.tasks.push(summary);
        }
    }
    page.complete = page.tasks.len() == page_length;
    page.next = last_examined.map(|(add_time, id)| query.cursor_at(add_time, id));
    Ok(page)
}

/// The indexes of these columns; the add time is the first, and `SUMMARY_COLUMNS` follow.
const COMMAND_COLUMN: usize = 4;
const COMPILE_COLUMN: usize = 10;

fn has_text(matcher: &TextMatcher, row: &Row<'_>) -> bool {
    [COMMAND_COLUMN, COMPILE_COLUMN]
        .into_iter()
        .filter_map(|column| row.get_ref(column).ok()?.as_str().ok())
        .any(|command| matcher.matches(command))
}

/// The add time and the id, which order the results.
fn sort_key(row: &Row<'_>) -> Option<(UnixTime, TaskId)> {
    let add_time: SqlValue<UnixTime> = row.get(0).ok()?;
    let id: SqlValue<TaskId> = row.get(1).ok()?;
    Some((add_time.0, id.0))
}

#[cfg(test)]
mod tests {
    use model::{ExecutorName, GroupName, OutcomeReason, SortOrder, TaskStatus, UserName};

    use super::*;
    use crate::contract::fixtures::{add_task, labels};
    use crate::sqlite::schema::tests::{database, query_plan};
    use crate::sqlite::{SqliteStore, SqliteStoreOptions};

    #[test]
    fn a_search_that_takes_too_long_is_interrupted_and_its_connection_stays_usable() {
        let mut connection = database();
        let endless =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let timeout = Duration::from_millis(1);
        let stopped = with_timeout(&mut connection, timeout, |connection| {
            connection.query_row(endless, [], |_| Ok(())).during(STEP)
        });
        assert!(
            matches!(
                stopped,
                Err(SqliteFailure::Refused(StoreError::SearchTimeout { .. }))
            ),
            "{stopped:?}"
        );
        assert_eq!(
            search(
                &mut connection,
                &TaskQuery::default(),
                1,
                &UnreadableRows::default()
            )
            .unwrap(),
            Page::default()
        );
    }

    #[tokio::test]
    async fn a_page_past_its_deadline_examines_one_task_and_returns_a_cursor() {
        let root = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(root.path(), SqliteStoreOptions::default()).unwrap();
        let mut ids = vec![];
        for _ in 0..5 {
            ids.push(add_task(&store).await);
        }
        drop(store);
        let connection = Connection::open(root.path().join("tasks.db")).unwrap();
        let text = |text: &str| TaskQuery {
            text: Some(text.into()),
            ..TaskQuery::default()
        };
        let prefix = TaskQuery {
            id_prefix: ids[0].to_string()[..4].parse().ok(),
            ..TaskQuery::default()
        };
        let list = TaskQuery::default();
        for (query, expected) in [
            (list, &ids[..]),
            (prefix, &ids[..]),
            (text(""), &ids[..]),
            (text("nowhere"), &[]),
        ] {
            let mut query = TaskQuery {
                order: SortOrder::Oldest,
                ..query
            };
            let mut found = vec![];
            for examined in 1.. {
                let bounds = ScanBounds {
                    scan_limit: 100,
                    deadline: Instant::now(),
                };
                let page = scan_page(&connection, &query, bounds, &UnreadableRows::default()).unwrap();
                found.extend(page.tasks.iter().map(|summary| summary.id));
                assert_eq!(page.complete, examined == ids.len(), "{query:?}: {page:?}");
                assert_eq!(page.next.is_some(), examined < ids.len(), "{query:?}: {page:?}");
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{query:?}");
        }
    }

    #[test]
    fn every_search_scans_an_index_in_result_order() {
        let connection = database();
        let query = TaskQuery {
            ids: vec![TaskId(uuid::Uuid::now_v7()), TaskId(uuid::Uuid::now_v7())],
            user: Some(UserName::new("ada").unwrap()),
            executor: Some(ExecutorName::new("e").unwrap()),
            statuses: vec![TaskStatus::Success],
            from: Some(UnixTime(1)),
            until: Some(UnixTime(2)),
            group: Some(GroupName::new("g").unwrap()),
            labels: labels(&[("a", "1"), ("b", "2")]),
            reasons: vec![OutcomeReason::Exited],
            retried: Some(false),
            ..TaskQuery::default()
        };
        let check = |index: SearchIndex, expected: &str| {
            for order in [SortOrder::Oldest, SortOrder::Newest] {
                let user = query.user.clone().filter(|_| index != SearchIndex::IdRange);
                let query = TaskQuery {
                    order,
                    id_prefix: user.is_none().then(|| "0189".parse().unwrap()),
                    user,
                    ..query.clone()
                };
                let plan = query_plan(&connection, &SearchStatement::of(&query, &index).sql);
                assert!(plan.contains(expected), "{index:?}: {plan}");
                // Only short results are sorted: a list of given ids, or the tasks that one executor holds.
                let sorts = plan.contains("TEMP B-TREE");
                assert_eq!(
                    sorts,
                    matches!(index, SearchIndex::Executor | SearchIndex::Ids),
                    "{index:?}: {plan}"
                );
                assert!(!plan.contains("SCAN tasks"), "{index:?}: {plan}");
            }
        };
        let by_status = "tasks_by_status (status=? AND rowid>? AND rowid<?)";
        check(SearchIndex::All, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)");
        check(
            SearchIndex::Ids,
            "sqlite_autoindex_tasks_1 (id=? AND rowid>? AND rowid<?)",
        );
        check(SearchIndex::IdRange, "sqlite_autoindex_tasks_1 (id>? AND id<?)");
        check(
            SearchIndex::User,
            "tasks_by_user (user=? AND rowid>? AND rowid<?)",
        );
        check(SearchIndex::Statuses(vec![TaskStatus::Success]), by_status);
        check(
            SearchIndex::Statuses(vec![TaskStatus::Success, TaskStatus::Running]),
            by_status,
        );
        check(SearchIndex::Executor, "tasks_held (executor=?");
        check(
            SearchIndex::Group,
            "tasks_by_user_group (user=? AND grp=? AND rowid>? AND rowid<?)",
        );
        check(
            SearchIndex::Label,
            "labels USING PRIMARY KEY (owner=? AND key=? AND value=? AND task>? AND task<?)",
        );
    }

    #[test]
    fn groups_and_labels_of_all_users_are_found_by_an_index() {
        let query = TaskQuery {
            group: Some(GroupName::new("g").unwrap()),
            labels: labels(&[("a", "1"), ("b", "2")]),
            from: Some(UnixTime(1)),
            ..TaskQuery::default()
        };
        let check = |index: SearchIndex, expected: &str| {
            let plan = query_plan(&database(), &SearchStatement::of(&query, &index).sql);
            assert!(plan.contains(expected) && !plan.contains("TEMP B-TREE"), "{plan}");
        };
        check(SearchIndex::Group, "tasks_by_group (grp=? AND rowid>?)");
        check(
            SearchIndex::Label,
            "labels_of_all_users (key=? AND value=? AND task>?)",
        );
    }
}
