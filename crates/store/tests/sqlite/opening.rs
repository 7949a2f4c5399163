//! Opening existing stores, and refusing folders that the store must not touch.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{StoreAge, TaskQuery, TaskStatus, UnixTime};
use rusqlite::Connection;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, advance_age, get_task, new_task, success, task_spec};
use store::contract::lost_attempts::report_platform_failures;
use store::sqlite::{SqliteStore, SqliteStoreOptions};
use store::{RetentionSummary, StoreError, TaskStore};
use tempfile::TempDir;

use super::open;

/// The folder of a closed store with many tasks.
async fn filled_store() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store
        .add((0..2000).map(|_| new_task(task_spec())).collect())
        .await
        .unwrap();
    folder
}

/// Opens the store, which must fail and change nothing.
fn open_error(folder: &Path) -> StoreError {
    let database = folder.join("tasks.db");
    let before = fs::read(&database).ok();
    let Err(error) = SqliteStore::open(folder, SqliteStoreOptions::default()) else {
        panic!("the store was opened");
    };
    let same = fs::read(&database).ok() == before;
    assert!(same, "a refused store is not changed");
    error
}

#[tokio::test]
async fn tasks_survive_a_restart_and_incoming_blobs_are_removed() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let id = add_task(&*store).await;
    let task = get_task(&*store, id).await;
    fs::write(store.incoming_folder().join("partial"), b"part of a blob").unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(get_task(&*store, id).await, task);
    assert_eq!(
        fs::read_dir(store.incoming_folder()).unwrap().count(),
        0,
        "the upload cannot continue after a restart"
    );
}

#[tokio::test]
async fn add_times_increase_over_restarts_and_clock_changes() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let id = add_task(&*store).await;
    store.cancel(id).await.unwrap();
    store
        .apply_retention(StoreAge(i64::MAX), StoreAge(0), 10)
        .await
        .unwrap();
    drop(store);
    // The state after the clock was far ahead when the last task was added, and retention has removed that task.
    let future = UnixTime(i64::MAX / 2);
    Connection::open(folder.path().join("tasks.db"))
        .and_then(|database| {
            database.execute("UPDATE ledger SET value = ?1 WHERE name = 'last_add'", [future.0])
        })
        .unwrap();
    let store = open(folder.path());
    let mut times = vec![future];
    for _ in 0..3 {
        let id = add_task(&*store).await;
        times.push(get_task(&*store, id).await.add_time);
    }
    assert!(times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");
}

#[tokio::test]
async fn a_store_in_use_is_refused() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    assert!(matches!(open_error(folder.path()), StoreError::InUse { .. }));
    add_task(&*store).await;
    drop(store);
    open(folder.path());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("tasks.db"),
        "this is not a database, it is a text of some length\n".repeat(200),
    )
    .unwrap();
    assert!(matches!(open_error(folder.path()), StoreError::Corrupt { .. }));
}

#[tokio::test]
async fn a_truncated_database_is_refused() {
    let folder = filled_store().await;
    let file = fs::File::options()
        .write(true)
        .open(folder.path().join("tasks.db"))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = open_error(folder.path());
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_corrupt_page_is_an_error_when_it_is_read() {
    let folder = filled_store().await;
    let database = folder.path().join("tasks.db");
    let mut bytes = fs::read(&database).unwrap();
    let length = bytes.len();
    bytes[length / 4..].fill(0x5a);
    fs::write(&database, bytes).unwrap();
    let error = match SqliteStore::open(folder.path(), SqliteStoreOptions::default()) {
        Err(error) => error,
        Ok(store) => store
            .search(TaskQuery {
                limit: 1000,
                ..TaskQuery::default()
            })
            .await
            .unwrap_err(),
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_wal_without_its_database_is_refused() {
    let folder = TempDir::new().unwrap();
    let wal = folder.path().join("tasks.db-wal");
    fs::write(&wal, b"all that is left").unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(folder.path().join("tasks.db"), b"").unwrap();
        }
        assert!(matches!(open_error(folder.path()), StoreError::Corrupt { .. }));
        assert_eq!(fs::read(&wal).unwrap(), b"all that is left");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = filled_store().await;
    let database = Connection::open(folder.path().join("tasks.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let error = open_error(folder.path());
    assert!(
        matches!(
            error,
            StoreError::SchemaTooNew {
                found: 99,
                known: 10,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_empty_database_is_migrated() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tasks.db");
    Connection::open(&path)
        .and_then(|database| database.execute_batch("VACUUM"))
        .unwrap();
    let store = open(folder.path());
    let id = add_task(&*store).await;
    drop(store);
    let version: i64 = Connection::open(&path)
        .and_then(|database| database.pragma_query_value(None, "user_version", |row| row.get(0)))
        .unwrap();
    assert_eq!(version, 10);
    assert_eq!(get_task(&*open(folder.path()), id).await.id, id);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let folder = TempDir::new().unwrap();
    let database = Connection::open(folder.path().join("tasks.db")).unwrap();
    database.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    drop(database);
    assert!(matches!(open_error(folder.path()), StoreError::Corrupt { .. }));
}

/// Creates a store with schema version 1: three tasks, two of them done long ago by its clock; a blob; an executor
/// that has left.
fn create_version_1_store(folder: &Path) {
    let database = Connection::open(folder.join("tasks.db")).unwrap();
    database
        .execute_batch(include_str!("../../src/sqlite/schema/1.sql"))
        .unwrap();
    database
        .execute_batch(
            "INSERT INTO tasks (seq, id, digest, user, priority, status, finish_time, command) VALUES
                 (1, x'00000000000000000000000000000001', x'07', 'ada', 0, 8, 5, 'x'),
                 (2, x'00000000000000000000000000000002', x'07', 'ada', 0, 8, 6, 'x'),
                 (3, x'00000000000000000000000000000003', x'07', 'ada', 0, 1, NULL, 'x');
             UPDATE ledger SET value = 2 WHERE name = 'cancelled';
             UPDATE ledger SET value = 1 WHERE name = 'pending';
             INSERT INTO blobs (hash, size, used) VALUES (zeroblob(32), 1, 7);
             INSERT INTO executors VALUES ('gone', zeroblob(16), 1, 0, 4, 'h', '1', 5, 6);
             PRAGMA user_version = 1;",
        )
        .unwrap();
}

#[tokio::test]
async fn ages_in_a_version_1_store_start_at_the_migration() {
    let folder = TempDir::new().unwrap();
    create_version_1_store(folder.path());
    let store = open(folder.path());
    let age = store.age().await.unwrap();
    assert_eq!(
        store.apply_retention(age, age, 10).await.unwrap(),
        RetentionSummary::default()
    );
    assert_eq!(store.remove_ended_executors(age).await.unwrap(), 0);
    let later = advance_age(&*store, Duration::from_secs(1)).await;
    let all = RetentionSummary {
        tasks: 2,
        blobs: 1,
        more: false,
    };
    assert_eq!(store.apply_retention(later, later, 10).await.unwrap(), all);
    assert_eq!(store.remove_ended_executors(later).await.unwrap(), 1);
    assert_eq!(store.totals().await.unwrap().counts[&TaskStatus::Pending], 1);
    // The age survives a restart.
    drop(store);
    assert_eq!(open(folder.path()).age().await.unwrap(), later);
}

/// The clock is set back by years after the task was added, and again after it was claimed.
#[tokio::test]
async fn the_times_of_a_task_never_decrease() {
    let folder = TempDir::new().unwrap();
    let execute = |sql: &str| {
        Connection::open(folder.path().join("tasks.db"))
            .and_then(|database| database.execute_batch(sql))
            .unwrap();
    };
    drop(open(folder.path()));
    execute("UPDATE ledger SET value = 4000000000000000 WHERE name = 'last_add'");
    let store: Arc<dyn TaskStore> = open(folder.path());
    let mut events = store.subscribe();
    let mut executor = FakeExecutor::new(&store, "e");
    let (id, cancelled) = (add_task(&*store).await, add_task(&*store).await);
    let attempt_id = executor.claim_one().await;
    execute("UPDATE tasks SET start_time = start_time + 1000000 WHERE start_time IS NOT NULL");
    executor.report_status(id, TaskStatus::Running).await;
    execute("UPDATE tasks SET report_time = report_time + 1000000 WHERE report_time IS NOT NULL");
    executor.finish(attempt_id, success()).await;
    store.cancel(cancelled).await.unwrap();
    let task = get_task(&*store, id).await;
    let times = [
        Some(task.add_time),
        task.start_time,
        task.report_time,
        task.finish_time,
    ];
    assert!(times.is_sorted() && times[0].is_some(), "{times:?}");
    assert!(task.finish_time.unwrap() >= UnixTime(4_000_000_002_000_000));
    let task = get_task(&*store, cancelled).await;
    assert!(task.finish_time >= Some(task.add_time), "{task:?}");
    // The events have the same times.
    let mut event_times = vec![];
    while let Ok(event) = events.try_recv() {
        if let store::ChangeEvent::StatusChanged {
            id: changed, time, ..
        } = event
            && changed == id
        {
            event_times.push(time);
        }
    }
    assert!(
        event_times.len() == 3 && event_times.is_sorted(),
        "{event_times:?}"
    );
}

#[tokio::test]
async fn platform_failures_are_still_counted_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let store: Arc<dyn TaskStore> = open(folder.path());
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    report_platform_failures(&mut executor, 0..4).await;
    executor.expire().await;
    drop((executor, store));
    let store: Arc<dyn TaskStore> = open(folder.path());
    report_platform_failures(&mut FakeExecutor::new(&store, "e"), 4..10).await;
    assert_eq!(get_task(&*store, id).await.status, TaskStatus::SystemError);
}
