//! Opening what is there, and refusing what should not be touched.

use std::fs;
use std::path::Path;

use model::{Moment, Query};
use rusqlite::Connection;
use store::contract::sample::{add_one, get, new, spec};
use store::sqlite::{Options, SqliteStore};
use store::{StoreError, TaskStore};
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
    store.retire(Moment(i64::MAX), Moment(0), 10).await.unwrap();
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
                known: 1,
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
    assert_eq!(version, 1);
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
