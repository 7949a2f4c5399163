//! Searching: always along an index in the order asked for, stopping as soon as the page is full or enough tasks were
//! looked at.

mod conditions;

use std::time::{Duration, Instant};

use model::{Counts, Moment, Page, Query, TaskId};
use rusqlite::{Connection, ErrorCode, Row, params_from_iter};

use self::conditions::Statement;
use super::column::Column;
use super::failure::{During, Failure};
use super::rows::{CHECKED, readable, to_brief};
use super::totals::totals;
use crate::StoreError;
use crate::search::{Needle, Way, page_length};
use crate::set_aside::SetAside;

/// A page that takes longer ends as it is and says where to go on.
const ENOUGH: Duration = Duration::from_secs(3);
/// However slow the disk is, a search may not take its thread for ever.
const LONGEST: Duration = Duration::from_secs(5);
/// How many of SQLite's own steps pass between two looks at the clock: about a millisecond.
const STEPS: i32 = 10_000;

pub(super) fn search(
    connection: &mut Connection,
    query: &Query,
    window: usize,
    set_aside: &SetAside,
) -> Result<Page, Failure> {
    if query
        .after
        .is_some_and(|cursor| cursor.fingerprint != query.fingerprint())
    {
        return Err(Failure::Refused(StoreError::ForeignCursor));
    }
    let end = Instant::now() + ENOUGH;
    within(connection, LONGEST, |connection| {
        look(connection, query, Bound { window, end }, set_aside)
    })
}

/// How many tasks are looked at for a page, and until when.
#[derive(Clone, Copy, Debug)]
struct Bound {
    window: usize,
    end: Instant,
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
        Failure::Database { source, .. } if is_interrupted(&source) => {
            Failure::Refused(StoreError::SearchTooLong { limit: longest })
        }
        other => other,
    })
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

/// Looks along the way until the page is full, the tasks end, or the window or the time is used up.
fn look(connection: &Connection, query: &Query, bound: Bound, set_aside: &SetAside) -> Result<Page, Failure> {
    let counts = match Way::needs_counts(query) {
        true => totals(connection)?.counts,
        false => Counts::new(),
    };
    let way = Way::of(query, &counts, bound.window);
    let Statement { sql, values, checks } = Statement::of(query, &way);
    // If every task on the way is on the page, the page itself bounds what is looked at.
    let may_stop = way.stops_after_a_window(query);
    let stops = may_stop && (checks || query.text.is_some());
    let mut statement = connection.prepare_cached(&sql).during(STEP)?;
    let mut rows = statement.query(params_from_iter(values)).during(STEP)?;
    let needle = query.text.as_deref().map(Needle::new);
    let full = page_length(query);
    let mut page = Page::default();
    let (mut looked_at, mut reached) = (0, None);
    loop {
        let row = match rows.next() {
            // What was found until now is an answer, too.
            Err(error) if is_interrupted(&error) && reached.is_some() => break,
            row => row.during(STEP)?,
        };
        let Some(row) = row else {
            return Ok(page);
        };
        // One task at least, so that every page gets on.
        if (looked_at == bound.window && stops) || (reached.is_some() && Instant::now() >= bound.end) {
            break;
        }
        looked_at += 1;
        let checked = row.get(CHECKED).during(STEP)?;
        let matches = checked && needle.as_ref().is_none_or(|needle| is_in(needle, row));
        if matches && page.tasks.len() == full {
            page.next = page.tasks.last().map(|last| query.cursor_after(last));
            return Ok(page);
        }
        // The key of a row that cannot be read may be unreadable too; then an earlier one serves. The cursor names no
        // task that the query may not see.
        if checked || may_stop {
            reached = key(row).or(reached);
        }
        if matches && let Some(brief) = readable(row, to_brief(row), set_aside).during(STEP)? {
            page.tasks.push(brief);
        }
    }
    page.complete = page.tasks.len() == full;
    page.next = reached.map(|(add_time, id)| query.cursor_at(add_time, id));
    Ok(page)
}

/// Columns of `BRIEF`.
const EXECUTE: usize = 4;
const COMPILE: usize = 10;

fn is_in(needle: &Needle, row: &Row<'_>) -> bool {
    [EXECUTE, COMPILE]
        .into_iter()
        .filter_map(|column| row.get_ref(column).ok()?.as_str().ok())
        .any(|command| needle.is_part_of(command))
}

/// The add time and the id.
fn key(row: &Row<'_>) -> Option<(Moment, TaskId)> {
    let add_time: Column<Moment> = row.get(0).ok()?;
    let id: Column<TaskId> = row.get(1).ok()?;
    Some((add_time.0, id.0))
}

#[cfg(test)]
mod tests {
    use model::{ExecutorName, Order, Status, UserName};

    use super::*;
    use crate::contract::sample::add_one;
    use crate::sqlite::schema::tests::{database, plan};
    use crate::sqlite::{Options, SqliteStore};

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
            search(&mut connection, &Query::default(), 1, &SetAside::default()).unwrap(),
            Page::default()
        );
    }

    #[tokio::test]
    async fn a_page_whose_time_is_over_has_one_task_and_says_where_to_go_on() {
        let root = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(root.path(), Options::default()).unwrap();
        let mut ids = vec![];
        for _ in 0..5 {
            ids.push(add_one(&store).await);
        }
        drop(store);
        let connection = Connection::open(root.path().join("tasks.db")).unwrap();
        let text = |text: &str| Query {
            text: Some(text.into()),
            ..Query::default()
        };
        let prefix = Query {
            id_prefix: ids[0].to_string()[..4].parse().ok(),
            ..Query::default()
        };
        let list = Query::default();
        for (query, expected) in [
            (list, &ids[..]),
            (prefix, &ids[..]),
            (text(""), &ids[..]),
            (text("nowhere"), &[]),
        ] {
            let mut query = Query {
                order: Order::Oldest,
                ..query
            };
            let mut found = vec![];
            for looked_at in 1.. {
                let bound = Bound {
                    window: 100,
                    end: Instant::now(),
                };
                let page = look(&connection, &query, bound, &SetAside::default()).unwrap();
                found.extend(page.tasks.iter().map(|brief| brief.id));
                assert_eq!(page.complete, looked_at == ids.len(), "{query:?}: {page:?}");
                assert_eq!(page.next.is_some(), looked_at < ids.len(), "{query:?}: {page:?}");
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected, "{query:?}");
        }
    }

    #[test]
    fn every_way_follows_an_index_in_order() {
        let connection = database();
        let query = Query {
            ids: vec![TaskId::generate(), TaskId::generate()],
            user: Some(UserName::new("ada").unwrap()),
            executor: Some(ExecutorName::new("e").unwrap()),
            statuses: vec![Status::Success],
            from: Some(Moment(1)),
            until: Some(Moment(2)),
            ..Query::default()
        };
        let check = |way: Way, index: &str| {
            for order in [Order::Oldest, Order::Newest] {
                let user = query.user.clone().filter(|_| way != Way::IdRange);
                let query = Query {
                    order,
                    id_prefix: user.is_none().then(|| "0189".parse().unwrap()),
                    user,
                    ..query.clone()
                };
                let plan = plan(&connection, &Statement::of(&query, &way).sql);
                assert!(plan.contains(index), "{way:?}: {plan}");
                // Only what is named or what an executor holds is sorted: a page of ids, as many as it has slots.
                let sorts = plan.contains("TEMP B-TREE");
                assert_eq!(sorts, matches!(way, Way::Executor | Way::Ids), "{way:?}: {plan}");
                assert!(!plan.contains("SCAN tasks"), "{way:?}: {plan}");
            }
        };
        let by_status = "tasks_by_status (status=? AND rowid>? AND rowid<?)";
        check(Way::All, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)");
        check(
            Way::Ids,
            "sqlite_autoindex_tasks_1 (id=? AND rowid>? AND rowid<?)",
        );
        check(Way::IdRange, "sqlite_autoindex_tasks_1 (id>? AND id<?)");
        check(Way::User, "tasks_by_user (user=? AND rowid>? AND rowid<?)");
        check(Way::Statuses(vec![Status::Success]), by_status);
        check(Way::Statuses(vec![Status::Success, Status::Running]), by_status);
        check(Way::Executor, "tasks_held (executor=?");
    }
}
