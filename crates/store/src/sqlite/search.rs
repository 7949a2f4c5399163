//! Searching: always along an index in the order asked for, stopping as soon as the page is full.

mod conditions;
mod text;

use std::time::{Duration, Instant};

use model::{Brief, Order, Page, Query, Status};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, params_from_iter};

use self::conditions::{Conditions, Path};
use self::text::Needle;
use super::failure::{During, Failure};
use super::rows::{BRIEF, to_brief};
use super::totals::totals;
use crate::StoreError;

/// A search may have to look at every task, for one that matches none. It may not take its thread for ever.
const LONGEST: Duration = Duration::from_secs(5);
/// How many of SQLite's own steps pass between two looks at the clock: about a millisecond.
const STEPS: i32 = 10_000;
const DEFAULT_LIMIT: usize = 50;

/// Below this many tasks with one of the statuses, looking at each of them beats looking at a user's.
const FEW: u64 = 10_000;

pub(super) fn search(connection: &mut Connection, query: &Query) -> Result<Page, Failure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(Failure::Refused(StoreError::ForeignCursor));
    }
    within(connection, LONGEST, |connection| {
        // One snapshot for all the statements: a task that moves between two of them is seen once.
        let snapshot = connection.unchecked_transaction().during(STEP)?;
        let mut found = Vec::new();
        for path in paths(&snapshot, query)? {
            collect(&snapshot, query, &path, &mut found)?;
        }
        Ok(page(query, found))
    })
}

const STEP: &str = "search";

/// Runs `work` with a bound on its time.
fn within<T>(
    connection: &mut Connection,
    longest: Duration,
    work: impl FnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let end = Instant::now() + longest;
    connection
        .progress_handler(STEPS, Some(move || Instant::now() >= end))
        .during(STEP)?;
    let outcome = work(connection);
    connection
        .progress_handler(0, None::<fn() -> bool>)
        .during(STEP)?;
    outcome.map_err(|failure| match failure {
        Failure::Database { source, .. }
            if source.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) =>
        {
            Failure::Refused(StoreError::SearchTooLong { limit: longest })
        }
        other => other,
    })
}

/// How to come by the tasks: the narrowest way that the query allows. Several ways are taken one after the
/// other, and none of them meets a task of another.
fn paths(connection: &Connection, query: &Query) -> Result<Vec<Path>, Failure> {
    let mut statuses = query.statuses.clone();
    statuses.sort_unstable();
    statuses.dedup();
    let by_status = || statuses.iter().copied().map(Path::Status).collect();
    if !query.ids.is_empty() {
        let mut ids = query.ids.clone();
        ids.sort_unstable();
        ids.dedup();
        return Ok(ids.into_iter().map(Path::Id).collect());
    }
    if query.id_prefix.is_some() {
        return Ok(vec![Path::IdRange]);
    }
    if query.executor.is_some() {
        return Ok(vec![Path::Executor]);
    }
    match (&query.user, statuses.len()) {
        (Some(_), 0) => Ok(vec![Path::User]),
        (Some(_), _) if count(connection, &statuses)? < FEW => Ok(by_status()),
        (Some(_), _) => Ok(vec![Path::User]),
        (None, 0) => Ok(vec![Path::All]),
        (None, known) if known == Status::ALL.len() => Ok(vec![Path::All]),
        (None, _) => Ok(by_status()),
    }
}

fn count(connection: &Connection, statuses: &[Status]) -> Result<u64, Failure> {
    let counts = totals(connection)?.counts;
    Ok(statuses.iter().filter_map(|status| counts.get(status)).sum())
}

/// One more than the page holds, so that it is known whether another follows.
fn wanted(query: &Query) -> usize {
    let limit = if query.limit == 0 {
        DEFAULT_LIMIT
    } else {
        query.limit
    };
    limit.min(Query::LIMIT) + 1
}

fn collect(
    connection: &Connection,
    query: &Query,
    path: &Path,
    found: &mut Vec<Brief>,
) -> Result<(), Failure> {
    let (sql, values) = sql(query, path);
    let mut statement = connection.prepare_cached(&sql).during(STEP)?;
    let mut rows = statement.query(params_from_iter(values)).during(STEP)?;
    let needle = query.text.as_deref().map(Needle::new);
    let enough = found.len() + wanted(query);
    while found.len() < enough
        && let Some(row) = rows.next().during(STEP)?
    {
        if needle.as_ref().is_none_or(|needle| needle.is_in(row)) {
            found.push(to_brief(row).during(STEP)?);
        }
    }
    Ok(())
}

fn sql(query: &Query, path: &Path) -> (String, Vec<Value>) {
    let Conditions {
        from,
        conditions,
        values,
    } = Conditions::of(query, path);
    let direction = match query.order {
        Order::Oldest => "ASC",
        Order::Newest => "DESC",
    };
    let key = match query.id_prefix {
        Some(_) => "id",
        None => "seq",
    };
    let sql = format!("SELECT {BRIEF} FROM {from} WHERE {conditions} ORDER BY {key} {direction}");
    (sql, values)
}

fn page(query: &Query, mut found: Vec<Brief>) -> Page {
    match query.id_prefix {
        Some(_) => found.sort_unstable_by_key(|brief| brief.id),
        None => found.sort_unstable_by_key(|brief| brief.add_time),
    }
    if query.order == Order::Newest {
        found.reverse();
    }
    let full = wanted(query) - 1;
    let more = found.len() > full;
    found.truncate(full);
    let next = found.last().filter(|_| more).map(|last| query.cursor_after(last));
    Page { tasks: found, next }
}

#[cfg(test)]
mod tests {
    use model::{ExecutorName, Moment, TaskId, UserName};

    use super::*;
    use crate::sqlite::schema::tests::{database, plan};

    #[test]
    fn a_long_search_is_stopped_and_the_connection_goes_on() {
        let mut connection = database();
        let endless =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let longest = Duration::from_millis(1);
        let stopped = within(&mut connection, longest, |connection| {
            connection.query_row(endless, [], |_| Ok(())).during(STEP)
        });
        assert!(
            matches!(stopped, Err(Failure::Refused(StoreError::SearchTooLong { .. }))),
            "{stopped:?}"
        );
        assert_eq!(
            search(&mut connection, &Query::default()).unwrap(),
            Page::default()
        );
    }

    #[test]
    fn every_path_follows_an_index_in_order() {
        let connection = database();
        let query = Query {
            user: Some(UserName::new("ada").unwrap()),
            executor: Some(ExecutorName::new("e").unwrap()),
            from: Some(Moment(1)),
            until: Some(Moment(2)),
            ..Query::default()
        };
        let check = |path: Path, index: &str| {
            for order in [Order::Oldest, Order::Newest] {
                let id_prefix = matches!(path, Path::IdRange).then(|| "0189".parse().unwrap());
                let (sql, _) = sql(
                    &Query {
                        order,
                        id_prefix,
                        ..query.clone()
                    },
                    &path,
                );
                let plan = plan(&connection, &sql);
                assert!(plan.contains(index), "{path:?}: {plan}");
                // Only what an executor holds is sorted: it is as many as it has slots.
                let sorts = plan.contains("TEMP B-TREE");
                assert_eq!(sorts, matches!(path, Path::Executor), "{path:?}: {plan}");
            }
        };
        check(Path::All, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)");
        check(Path::Id(TaskId::generate()), "sqlite_autoindex_tasks_1 (id=?)");
        check(Path::IdRange, "sqlite_autoindex_tasks_1 (id>? AND id<?)");
        check(Path::User, "tasks_by_user (user=? AND rowid>? AND rowid<?)");
        check(
            Path::Status(Status::Success),
            "tasks_by_status (status=? AND rowid>? AND rowid<?)",
        );
        check(Path::Executor, "tasks_held (executor=?");
    }
}
