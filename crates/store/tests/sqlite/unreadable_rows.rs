//! RawDatabase that no store has written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{BlobHash, ExecutorName, TaskId};
use rusqlite::Connection;
use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, get_task, success};
use store::contract::unreadable_rows::{self, BlobRowDamage, ExecutorRowDamage, RawDatabase, TaskRowDamage};
use store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::open;

/// A SQLite store under test, and the path of its database file, so that contract tests can damage its rows.
struct RawSqliteDatabase {
    path: PathBuf,
    store: Arc<SqliteStore>,
}

impl RawSqliteDatabase {
    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    }
}

#[async_trait]
impl RawDatabase for RawSqliteDatabase {
    async fn damage(&self, id: TaskId, damage: TaskRowDamage) {
        let sql = match damage {
            TaskRowDamage::Status => "UPDATE tasks SET status = 42 WHERE id = ?1",
            TaskRowDamage::Id => "UPDATE tasks SET id = x'010203' WHERE id = ?1",
            TaskRowDamage::User => "UPDATE tasks SET user = '' WHERE id = ?1",
            TaskRowDamage::Executor => "UPDATE tasks SET executor = 'a b' WHERE id = ?1",
            TaskRowDamage::Session => "UPDATE tasks SET session = x'010203' WHERE id = ?1",
            TaskRowDamage::Attempt => "UPDATE tasks SET attempt = -1 WHERE id = ?1",
            TaskRowDamage::Spec => {
                "UPDATE specs SET spec = x'ff' WHERE seq = (SELECT seq FROM tasks WHERE id = ?1)"
            }
            TaskRowDamage::DoneInQueue => "UPDATE tasks SET status = 5 WHERE id = ?1",
            // The SQLite queue is the tasks without an executor, so this removes the task from the queue.
            TaskRowDamage::HeldInQueue => "UPDATE tasks SET executor = 'nobody' WHERE id = ?1",
            TaskRowDamage::MaxLosses => "UPDATE tasks SET lost = 4294967295 WHERE id = ?1",
        };
        assert_eq!(self.connect().execute(sql, [id.0.as_bytes()]).unwrap(), 1);
    }

    async fn damage_executor(&self, name: &ExecutorName, damage: ExecutorRowDamage) {
        let sql = match damage {
            ExecutorRowDamage::Session => "UPDATE executors SET session = x'010203' WHERE name = ?1",
            ExecutorRowDamage::Seq => "UPDATE executors SET seq = -1 WHERE name = ?1",
            ExecutorRowDamage::Host => "UPDATE executors SET host = CAST(x'ff' AS TEXT) WHERE name = ?1",
        };
        assert_eq!(self.connect().execute(sql, [name.as_str()]).unwrap(), 1);
    }

    async fn damage_blob(&self, hash: BlobHash, damage: BlobRowDamage) {
        let sql = match damage {
            BlobRowDamage::Hash => "UPDATE blobs SET hash = substr(hash, 1, 3) WHERE hash = ?1",
            BlobRowDamage::Missing => "DELETE FROM blobs WHERE hash = ?1",
        };
        assert_eq!(self.connect().execute(sql, [hash.0]).unwrap(), 1);
    }

    async fn count_tasks(&self) -> u64 {
        let count = "SELECT count(*) FROM tasks";
        let count: i64 = self.connect().query_row(count, [], |row| row.get(0)).unwrap();
        u64::try_from(count).unwrap()
    }

    fn unreadable_rows(&self) -> usize {
        self.store.unreadable_rows()
    }
}

fn open_database(folder: &Path) -> RawSqliteDatabase {
    RawSqliteDatabase {
        path: folder.join("tasks.db"),
        store: open(folder),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_rows_are_skipped_and_everything_else_works() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    unreadable_rows::unreadable_rows_are_skipped(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inconsistent_tasks_in_the_queue_are_skipped() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    unreadable_rows::inconsistent_tasks_in_the_queue_are_skipped(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_executor_is_expired() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    unreadable_rows::an_unreadable_executor_is_expired(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_blob_does_not_stop_retention() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    unreadable_rows::an_unreadable_blob_does_not_stop_retention(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_counter_does_not_overflow() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    unreadable_rows::the_loss_counter_does_not_overflow(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leftover_result_is_replaced() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    let store: Arc<dyn TaskStore> = database.store.clone();
    let id = add_task(&*store).await;
    let leftover = "INSERT INTO results SELECT seq, x'ff' FROM tasks WHERE id = ?1";
    assert_eq!(
        database.connect().execute(leftover, [id.0.as_bytes()]).unwrap(),
        1
    );
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, success()).await;
    assert_eq!(get_task(&*store, id).await.result, Some(success()));
}
