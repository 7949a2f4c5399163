//! Opening what is there, and refusing what should not be touched.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{Age, Moment, Query, Status};
use rusqlite::Connection;
use store::contract::losing::report_platform_failures;
use store::contract::sample::{add_one, get, grow_older, new, spec, success};
use store::contract::worker::Worker;
use store::sqlite::{Options, SqliteStore};
use store::{Retired, StoreError, TaskStore};
use tempfile::TempDir;

use super::open;

/// A store with some tasks in it, closed.
async fn filled() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store.add((0..2000).map(|_| new(spec())).collect()).await.unwrap();
    folder
}

fn refused(folder: &Path) -> StoreError {
    let database = folder.join("tasks.db");
    let before = fs::read(&database).ok();
    let Err(error) = SqliteStore::open(folder, Options::default()) else {
        panic!("it was opened");
    };
    let same = fs::read(&database).ok() == before;
    assert!(same, "a store that is refused is left as it is");
    error
}

#[tokio::test]
async fn everything_is_there_again() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let id = add_one(&*store).await;
    let task = get(&*store, id).await;
    fs::write(store.incoming().join("half"), b"half a blob").unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(get(&*store, id).await, task);
    assert_eq!(
        fs::read_dir(store.incoming()).unwrap().count(),
        0,
        "nobody will send the other half"
    );
}

#[tokio::test]
async fn add_times_rise_over_restarts_and_clock_changes() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let id = add_one(&*store).await;
    store.cancel(id).await.unwrap();
    store.retire(Age(i64::MAX), Age(0), 10).await.unwrap();
    drop(store);
    // As if the clock had been far ahead when the last task was added, which is gone meanwhile.
    let future = Moment(i64::MAX / 2);
    Connection::open(folder.path().join("tasks.db"))
        .and_then(|database| {
            database.execute("UPDATE ledger SET value = ?1 WHERE name = 'last_add'", [future.0])
        })
        .unwrap();
    let store = open(folder.path());
    let mut times = vec![future];
    for _ in 0..3 {
        let id = add_one(&*store).await;
        times.push(get(&*store, id).await.add_time);
    }
    assert!(times.is_sorted_by(|earlier, later| earlier < later), "{times:?}");
}

#[tokio::test]
async fn a_store_in_use_is_refused() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    assert!(matches!(refused(folder.path()), StoreError::InUse { .. }));
    add_one(&*store).await;
    drop(store);
    open(folder.path());
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("tasks.db"),
        "this is not a database, it is a text of some length\n".repeat(200),
    )
    .unwrap();
    assert!(matches!(refused(folder.path()), StoreError::Corrupt { .. }));
}

#[tokio::test]
async fn a_database_cut_short_is_refused() {
    let folder = filled().await;
    let file = fs::File::options()
        .write(true)
        .open(folder.path().join("tasks.db"))
        .unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn damage_inside_is_an_error_when_it_is_met() {
    let folder = filled().await;
    let database = folder.path().join("tasks.db");
    let mut bytes = fs::read(&database).unwrap();
    let length = bytes.len();
    bytes[length / 4..].fill(0x5a);
    fs::write(&database, bytes).unwrap();
    let error = match SqliteStore::open(folder.path(), Options::default()) {
        Err(error) => error,
        Ok(store) => store
            .search(Query {
                limit: 1000,
                ..Query::default()
            })
            .await
            .unwrap_err(),
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_log_without_its_database_is_refused() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("tasks.db-wal");
    fs::write(&log, b"all that is left").unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(folder.path().join("tasks.db"), b"").unwrap();
        }
        assert!(matches!(refused(folder.path()), StoreError::Corrupt { .. }));
        assert_eq!(fs::read(&log).unwrap(), b"all that is left");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let folder = filled().await;
    let database = Connection::open(folder.path().join("tasks.db")).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let error = refused(folder.path());
    assert!(
        matches!(
            error,
            StoreError::TooNew {
                found: 99,
                known: 5,
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
    let id = add_one(&*store).await;
    drop(store);
    let version: i64 = Connection::open(&path)
        .and_then(|database| database.pragma_query_value(None, "user_version", |row| row.get(0)))
        .unwrap();
    assert_eq!(version, 5);
    assert_eq!(get(&*open(folder.path()), id).await.id, id);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let folder = TempDir::new().unwrap();
    let database = Connection::open(folder.path().join("tasks.db")).unwrap();
    database.execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    drop(database);
    assert!(matches!(refused(folder.path()), StoreError::Corrupt { .. }));
}

/// As the first version left it: three tasks of which two are done, long ago by its clock; a blob; an executor that is gone.
fn first_version(folder: &Path) {
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
async fn what_the_first_version_kept_counts_from_the_upgrade_on() {
    let folder = TempDir::new().unwrap();
    first_version(folder.path());
    let store = open(folder.path());
    let age = store.age().await.unwrap();
    assert_eq!(store.retire(age, age, 10).await.unwrap(), Retired::default());
    assert_eq!(store.forget_executors(age).await.unwrap(), 0);
    let later = grow_older(&*store, Duration::from_secs(1)).await;
    let all = Retired { tasks: 2, blobs: 1 };
    assert_eq!(store.retire(later, later, 10).await.unwrap(), all);
    assert_eq!(store.forget_executors(later).await.unwrap(), 1);
    assert_eq!(store.totals().await.unwrap().counts[&Status::Pending], 1);
    // The age goes on where it was.
    drop(store);
    assert_eq!(open(folder.path()).age().await.unwrap(), later);
}

/// As if the clock had been set back by years after the task was added, and again after it was handed out.
#[tokio::test]
async fn times_of_a_task_do_not_run_backwards() {
    let folder = TempDir::new().unwrap();
    let set = |change: &str| {
        Connection::open(folder.path().join("tasks.db"))
            .and_then(|database| database.execute_batch(change))
            .unwrap();
    };
    drop(open(folder.path()));
    set("UPDATE ledger SET value = 4000000000000000 WHERE name = 'last_add'");
    let store: Arc<dyn TaskStore> = open(folder.path());
    let mut changes = store.changes();
    let mut worker = Worker::new(&store, "e");
    let (id, cancelled) = (add_one(&*store).await, add_one(&*store).await);
    let handout = worker.claim_one().await;
    set("UPDATE tasks SET start_time = start_time + 1000000 WHERE start_time IS NOT NULL");
    worker.progress(id, Status::Running).await;
    set("UPDATE tasks SET report_time = report_time + 1000000 WHERE report_time IS NOT NULL");
    worker.finish(handout, success()).await;
    store.cancel(cancelled).await.unwrap();
    let task = get(&*store, id).await;
    let times = [
        Some(task.add_time),
        task.start_time,
        task.report_time,
        task.finish_time,
    ];
    assert!(times.is_sorted() && times[0].is_some(), "{times:?}");
    assert!(task.finish_time.unwrap() >= Moment(4_000_000_002_000_000));
    let task = get(&*store, cancelled).await;
    assert!(task.finish_time >= Some(task.add_time), "{task:?}");
    // What is told of it has the same times.
    let mut told = vec![];
    while let Ok(change) = changes.try_recv() {
        if let store::Change::Moved { id: moved, time, .. } = change
            && moved == id
        {
            told.push(time);
        }
    }
    assert!(told.len() == 3 && told.is_sorted(), "{told:?}");
}

#[tokio::test]
async fn platform_losses_are_counted_on_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let store: Arc<dyn TaskStore> = open(folder.path());
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    report_platform_failures(&mut worker, 0..4).await;
    worker.die().await;
    drop((worker, store));
    let store: Arc<dyn TaskStore> = open(folder.path());
    report_platform_failures(&mut Worker::new(&store, "e"), 4..10).await;
    assert_eq!(get(&*store, id).await.status, Status::SystemError);
}
