//! RawDatabase that no store has written.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{BlobHash, ExecutorName, TaskForm, TaskId, TaskStatus};
use rusqlite::Connection;
use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, add_task_with, get_task, success};
use store::contract::forms;
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
                "UPDATE specs SET spec = x'04ff' WHERE seq = (SELECT seq FROM tasks WHERE id = ?1)"
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
            ExecutorRowDamage::Tools => "UPDATE executor_tools SET tools = x'01ff' WHERE executor = ?1",
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

    async fn set_form(&self, id: TaskId, form: TaskForm) {
        let connection = self.connect();
        let find = "SELECT seq, spec FROM tasks JOIN specs USING (seq) WHERE id = ?1";
        let (seq, mut spec): (i64, Vec<u8>) = connection
            .query_row(find, [id.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        spec[0] = u8::try_from(form.0).unwrap();
        connection
            .execute("UPDATE specs SET spec = ?2 WHERE seq = ?1", (seq, spec))
            .unwrap();
        connection
            .execute("UPDATE tasks SET form = ?2 WHERE seq = ?1", (seq, form.0))
            .unwrap();
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
async fn unreadable_tools_count_as_none() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    unreadable_rows::unreadable_tools_count_as_none(database.store.clone(), &database).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_an_unknown_form_are_not_claimed() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    forms::tasks_of_an_unknown_form_are_not_claimed(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_executors_get_no_newer_tasks() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    forms::older_executors_get_no_newer_tasks(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_an_unknown_form_are_not_ended() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    forms::tasks_of_an_unknown_form_are_not_ended(database.store.clone(), &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_an_earlier_version_may_be_added_again() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    forms::a_task_of_an_earlier_version_may_be_added_again(database.store.clone(), &database).await;
}

/// Only the spec says that the form is newer. The task is not ended, and not claimed again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_spec_is_newer_than_its_row_returns_to_the_queue() {
    const NEWER: TaskForm = TaskForm(TaskForm::NEWEST.0 + 1);
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    let store: Arc<dyn TaskStore> = database.store.clone();
    let id = add_task(&*store).await;
    database.set_form(id, NEWER).await;
    let connection = database.connect();
    let older = "UPDATE tasks SET form = ?2 WHERE id = ?1";
    let changed = connection.execute(older, (id.0.as_bytes(), TaskForm::CURRENT.0));
    assert_eq!(changed.unwrap(), 1);
    let mut executor = FakeExecutor::new(&store, "e");
    for _ in 0..3 {
        assert_eq!(executor.claim(1).await.len(), 0);
    }
    let read = "SELECT form, executor IS NULL AND session IS NULL AND finish_age IS NULL, attempt FROM tasks WHERE id = ?1";
    let row: (u32, bool, u32) = connection
        .query_row(read, [id.0.as_bytes()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!(row, (NEWER.0, true, 1));
    assert_eq!((store.newer_form(), database.unreadable_rows()), (Some(NEWER), 0));
    let totals = store.totals().await.unwrap();
    assert_eq!((totals.counts[&TaskStatus::Retrying], totals.held), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_executor_keeps_attempts_of_unknown_forms() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    forms::a_leaving_executor_keeps_attempts_of_unknown_forms(database.store.clone(), &database).await;
}

/// Its group counts it as what it was, so it must not be marked as a task that no group counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_task_is_not_marked_as_retried() {
    let folder = TempDir::new().unwrap();
    let database = open_database(folder.path());
    let repeated = add_task(&*database.store).await;
    database.damage(repeated, TaskRowDamage::Attempt).await;
    add_task_with(&*database.store, |spec| spec.retry_of = Some(repeated)).await;
    let sql = "SELECT retried FROM tasks WHERE id = ?1";
    let id = repeated.0.as_bytes();
    let retried: i64 = database.connect().query_row(sql, [id], |row| row.get(0)).unwrap();
    assert_eq!(retried, 0);
    assert_eq!(database.unreadable_rows(), 1);
}
