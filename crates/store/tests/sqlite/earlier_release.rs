//! A store that the release before forms wrote is opened, migrated and used. Its rows are in `fixtures/schema_5_rows.sql`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::{
    AttemptNumber, BlobHash, Content, ExecutorName, OutcomeReason, RecordedEnd, SortOrder, StepCommand, Task,
    TaskForm, TaskId, TaskQuery, TaskStatus, WorkspacePath,
};
use rusqlite::Connection;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{get_task, new_task, put_blob, read_blob, success};
use store::{NewTaskRecord, TaskStore};
use tempfile::TempDir;

use super::open;

const SCHEMA: [&str; 5] = [
    include_str!("../../src/sqlite/schema/1.sql"),
    include_str!("../../src/sqlite/schema/2.sql"),
    include_str!("../../src/sqlite/schema/3.sql"),
    include_str!("../../src/sqlite/schema/4.sql"),
    include_str!("../../src/sqlite/schema/5.sql"),
];
const ROWS: &str = include_str!("fixtures/schema_5_rows.sql");
const BLOB: &[u8] = b"three lines\nof a blob\nfor the task\n";

const SUCCESS: &str = "01a1ea0d-e564-73f4-84f2-fe943cd0fa87";
const FAILURE: &str = "01a1ea0d-e5dd-7091-815c-fee2076bbb6f";
const WITH_BLOB: &str = "01a1ea0d-e651-701e-a87e-c3ae7c1c816c";
const RUNNING: &str = "01a1ea0d-e6c6-73b3-8814-8c6b2af202c0";
const CANCELLED: &str = "01a1ea0d-e73a-7491-a776-842ef7998c5a";
const PENDING: &str = "01a1ea0d-e74a-716b-8850-8eb9c3f422c3";
/// The digest of the pending task, as that release computed it.
const PENDING_DIGEST: &str = "dba65a78ecf6fb1132b26dd8a04d5fadb1f79a812913138f966567b4adec84f5";

/// Opens a store that the earlier release wrote.
fn open_earlier_store(folder: &Path) -> Arc<dyn TaskStore> {
    let database = Connection::open(folder.join("tasks.db")).unwrap();
    for sql in SCHEMA.into_iter().chain([ROWS]) {
        database.execute_batch(sql).unwrap();
    }
    database.pragma_update(None, "user_version", 5).unwrap();
    drop(database);
    let name = BlobHash::of(BLOB).to_string();
    let subfolder = folder.join("blobs").join(&name[..2]);
    fs::create_dir_all(&subfolder).unwrap();
    fs::write(subfolder.join(&name[2..]), BLOB).unwrap();
    open(folder)
}

async fn get(store: &Arc<dyn TaskStore>, id: &str) -> Task {
    get_task(&**store, id.parse().unwrap()).await
}

#[tokio::test]
async fn every_task_result_and_blob_is_found() {
    let folder = TempDir::new().unwrap();
    let store = open_earlier_store(folder.path());
    for (id, user, status) in [
        (SUCCESS, "ada", TaskStatus::Success),
        (FAILURE, "ada", TaskStatus::RunFailed),
        (WITH_BLOB, "bob", TaskStatus::Success),
        (RUNNING, "ada", TaskStatus::Running),
        (CANCELLED, "bob", TaskStatus::Cancelled),
        (PENDING, "ada", TaskStatus::Pending),
    ] {
        let task = get(&store, id).await;
        assert_eq!((task.spec.user.as_str(), task.status), (user, status));
        assert_eq!(task.finish_time.is_some(), status.is_done());
        assert_eq!(
            (task.spec.attempts, task.spec.group, task.spec.retry_of),
            (None, None, None)
        );
    }
    let task = get(&store, SUCCESS).await;
    let compile = task.spec.compile.unwrap();
    assert_eq!(compile.env, [("STAGE".to_string(), "build".to_string())].into());
    assert_eq!(task.spec.execute.limits.wall, Some(Duration::from_secs(10)));
    assert_eq!(task.spec.execute.input, Content::Inline("some input".into()));
    let result = task.result.unwrap();
    let execute = result.execute.as_ref().unwrap();
    assert_eq!(execute.stdout.head, "compiled from source\nsome input");
    assert_eq!((execute.stdout.size, execute.stdout.blob), (31, None));
    assert_eq!(result.compile.as_ref().unwrap().stdout.head, "compiling\n");
    assert_eq!((result.files.len(), result.files_left_out.count), (0, 0));
    let failed = get(&store, FAILURE).await.result.unwrap();
    let failed = failed.execute.unwrap();
    assert_eq!(
        (failed.exit_code, &failed.stderr.head[..]),
        (Some(3), &b"problem\n"[..])
    );
    let task = get(&store, WITH_BLOB).await;
    let file = &task.spec.data[&WorkspacePath::new("lines.txt").unwrap()];
    assert_eq!(file.content, Content::Blob(BlobHash::of(BLOB)));
    assert_eq!(
        read_blob(&*store, BlobHash::of(BLOB)).await.as_deref(),
        Some(BLOB)
    );
    let running = get(&store, RUNNING).await;
    assert_eq!(running.executor, ExecutorName::new("worker-1").ok());
    assert_eq!(running.ran_on.len(), 1);
    let page = store
        .search(TaskQuery {
            order: SortOrder::Oldest,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    let listed: Vec<_> = page.tasks.iter().map(|task| task.id.to_string()).collect();
    assert_eq!(listed, [SUCCESS, FAILURE, WITH_BLOB, RUNNING, CANCELLED, PENDING]);
    let reasons: Vec<_> = page.tasks.iter().map(|task| task.reason).collect();
    let exited = Some(OutcomeReason::Exited);
    assert_eq!(reasons, [exited, exited, exited, None, None, None]);
    assert_eq!(store.totals().await.unwrap().counts[&TaskStatus::Success], 2);
}

#[tokio::test]
async fn its_tasks_are_run_to_their_end() {
    let folder = TempDir::new().unwrap();
    let store = open_earlier_store(folder.path());
    let sessions = store.live_sessions().await.unwrap();
    assert_eq!(store.expire(sessions[0].clone()).await.unwrap(), Some(1));
    // An executor of that release can run them, too.
    let mut executor = FakeExecutor::new(&store, "e");
    executor.newest_form = TaskForm::UNRECORDED;
    let assigned = executor.claim(5).await;
    let ids: Vec<_> = assigned
        .iter()
        .map(|task| task.attempt_id.task.to_string())
        .collect();
    assert_eq!(ids, [RUNNING, PENDING]);
    let spec = &assigned[1].spec;
    assert_eq!(
        spec.execute.command,
        StepCommand::Shell("cat data/lines.txt".into())
    );
    assert_eq!(spec.execute.args, ["-n"]);
    for assignment in &assigned {
        executor.finish(assignment.attempt_id, success()).await;
    }
    let task = get(&store, RUNNING).await;
    assert_eq!(
        (task.status, task.attempt),
        (TaskStatus::Success, AttemptNumber(2))
    );
    let ends: Vec<_> = task.ran_on.iter().map(|record| record.end.unwrap().1).collect();
    assert_eq!(ends, [RecordedEnd::Lost, RecordedEnd::Finished]);
    assert_eq!(get(&store, PENDING).await.result, Some(success()));
    // New tasks and blobs live beside the old ones.
    let mut spec = store::contract::fixtures::task_spec();
    spec.retry_of = FAILURE.parse().ok();
    store.add(vec![new_task(spec)]).await.unwrap();
    put_blob(&*store, b"new").await.unwrap();
    drop((executor, store));
    assert_eq!(
        get(&(open(folder.path()) as Arc<dyn TaskStore>), FAILURE)
            .await
            .status,
        TaskStatus::RunFailed
    );
}

#[tokio::test]
async fn a_request_that_it_answered_may_be_repeated() {
    let folder = TempDir::new().unwrap();
    let store = open_earlier_store(folder.path());
    let digest: BlobHash = PENDING_DIGEST.parse().unwrap();
    let id: TaskId = PENDING.parse().unwrap();
    let again = NewTaskRecord {
        id,
        legacy_digest: Some(digest.0),
        ..new_task(get(&store, PENDING).await.spec)
    };
    let added = store.add(vec![again]).await.unwrap();
    assert!(added[0].existed && added[0].id == id);
}
