//! Rows that no store has written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{BlobHash, ExecutorName, TaskId};
use rusqlite::Connection;
use store::TaskStore;
use store::contract::damaging::{self, BlobDamage, Damage, ExecutorDamage, Rows};
use store::contract::sample::{add_one, get, success};
use store::contract::worker::Worker;
use store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::open;

struct Database {
    path: PathBuf,
    store: Arc<SqliteStore>,
}

impl Database {
    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    }
}

#[async_trait]
impl Rows for Database {
    async fn damage(&self, id: TaskId, damage: Damage) {
        let sql = match damage {
            Damage::Status => "UPDATE tasks SET status = 42 WHERE id = ?1",
            Damage::Id => "UPDATE tasks SET id = x'010203' WHERE id = ?1",
            Damage::User => "UPDATE tasks SET user = '' WHERE id = ?1",
            Damage::Executor => "UPDATE tasks SET executor = 'a b' WHERE id = ?1",
            Damage::Session => "UPDATE tasks SET session = x'010203' WHERE id = ?1",
            Damage::Attempt => "UPDATE tasks SET attempt = -1 WHERE id = ?1",
            Damage::Spec => "UPDATE specs SET spec = x'ff' WHERE seq = (SELECT seq FROM tasks WHERE id = ?1)",
            Damage::DoneInQueue => "UPDATE tasks SET status = 5 WHERE id = ?1",
            // The queue has only tasks without an executor, so it is not in the queue any more.
            Damage::HeldInQueue => "UPDATE tasks SET executor = 'nobody' WHERE id = ?1",
            Damage::Lost => "UPDATE tasks SET lost = 4294967295 WHERE id = ?1",
        };
        assert_eq!(self.connect().execute(sql, [id.0.as_bytes()]).unwrap(), 1);
    }

    async fn damage_executor(&self, name: &ExecutorName, damage: ExecutorDamage) {
        let sql = match damage {
            ExecutorDamage::Session => "UPDATE executors SET session = x'010203' WHERE name = ?1",
            ExecutorDamage::Seq => "UPDATE executors SET seq = -1 WHERE name = ?1",
            ExecutorDamage::Host => "UPDATE executors SET host = CAST(x'ff' AS TEXT) WHERE name = ?1",
        };
        assert_eq!(self.connect().execute(sql, [name.as_str()]).unwrap(), 1);
    }

    async fn damage_blob(&self, hash: BlobHash, damage: BlobDamage) {
        let sql = match damage {
            BlobDamage::Hash => "UPDATE blobs SET hash = substr(hash, 1, 3) WHERE hash = ?1",
            BlobDamage::Missing => "DELETE FROM blobs WHERE hash = ?1",
        };
        assert_eq!(self.connect().execute(sql, [hash.0]).unwrap(), 1);
    }

    async fn count(&self) -> u64 {
        let count = "SELECT count(*) FROM tasks";
        let count: i64 = self.connect().query_row(count, [], |row| row.get(0)).unwrap();
        u64::try_from(count).unwrap()
    }

    fn noted(&self) -> usize {
        self.store.unreadable_rows()
    }
}

fn database(folder: &Path) -> Database {
    Database {
        path: folder.join("tasks.db"),
        store: open(folder),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_cannot_be_read_are_set_aside_and_everything_else_goes_on() {
    let folder = TempDir::new().unwrap();
    let database = database(folder.path());
    damaging::everything_else_goes_on(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_in_the_queue_that_do_not_wait_are_passed_over() {
    let folder = TempDir::new().unwrap();
    let database = database(folder.path());
    damaging::tasks_that_do_not_wait_are_passed_over(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_cannot_be_read_is_expired() {
    let folder = TempDir::new().unwrap();
    let database = database(folder.path());
    damaging::an_unreadable_executor_is_expired(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_that_cannot_be_read_does_not_stop_retention() {
    let folder = TempDir::new().unwrap();
    let database = database(folder.path());
    damaging::an_unreadable_blob_does_not_stop_retention(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_are_counted_to_an_end() {
    let folder = TempDir::new().unwrap();
    let database = database(folder.path());
    damaging::losses_are_counted_to_an_end(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_there_already_is_replaced() {
    let folder = TempDir::new().unwrap();
    let database = database(folder.path());
    let store: Arc<dyn TaskStore> = database.store.clone();
    let id = add_one(&*store).await;
    let left = "INSERT INTO results SELECT seq, x'ff' FROM tasks WHERE id = ?1";
    assert_eq!(database.connect().execute(left, [id.0.as_bytes()]).unwrap(), 1);
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    worker.finish(handout, success()).await;
    assert_eq!(get(&*store, id).await.result, Some(success()));
}
