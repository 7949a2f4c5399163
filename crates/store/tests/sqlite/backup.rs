//! A backup of a store in use is a complete store.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::BlobHash;
use rusqlite::Connection;
use store::TaskStore;
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{
    get_group, get_task, hash_of, labels, new_task, put_blob, read_blob, result_with_files, task_spec,
};
use store::sqlite::{BackupError, BackupSummary, SqliteStore, backup};
use tempfile::TempDir;

use super::open;

fn back_up(store: &TempDir, target: &Path) -> Result<BackupSummary, BackupError> {
    backup(store.path(), target, &[])
}

fn blob_file(store: &Path, hash: BlobHash) -> PathBuf {
    let name = hash.to_string();
    store.join("blobs").join(&name[..2]).join(&name[2..])
}

/// The result of a query that returns one number.
fn count(store: &Path, sql: &str) -> i64 {
    let database = Connection::open(store.join("tasks.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_has_every_acknowledged_task() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let mut before = Vec::new();
    for _ in 0..200 {
        let task = new_task(task_spec());
        before.push(task.id);
        store.add(vec![task]).await.unwrap();
    }
    let hash = put_blob(&*store, b"a blob of some bytes").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            let mut added = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                store.add(vec![new_task(task_spec())]).await.unwrap();
                added += 1;
            }
            added
        })
    };
    let targets = TempDir::new().unwrap();
    for number in 0..5 {
        let target = targets.path().join(format!("backup-{number}"));
        let path = folder.path().to_path_buf();
        let to = target.clone();
        let done = tokio::task::spawn_blocking(move || backup(&path, &to, &[]))
            .await
            .unwrap()
            .unwrap();
        assert!(done.tasks >= 200 && done.blobs == 1, "{done:?}");
        assert_eq!(done.blob_bytes, 20);

        let copy: Arc<SqliteStore> = open(&target.join("store"));
        for id in &before {
            assert!(copy.get(*id).await.unwrap().is_some(), "{id} is missing");
        }
        let total: u64 = copy.totals().await.unwrap().counts.values().sum();
        assert_eq!(total, done.tasks);
        assert_eq!(read_blob(&*copy, hash).await.unwrap(), b"a blob of some bytes");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(load.await.unwrap() > 0);
}

#[tokio::test]
async fn a_backup_has_groups_labels_and_the_blobs_of_results() {
    let folder = TempDir::new().unwrap();
    let store: Arc<dyn TaskStore> = open(folder.path());
    let mut spec = task_spec();
    spec.group = model::GroupName::new("g").ok();
    spec.labels = labels(&[("a", "b")]);
    let task = new_task(spec);
    store.add(vec![task.clone()]).await.unwrap();
    let output = put_blob(&*store, b"output").await.unwrap();
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, result_with_files(&[output])).await;
    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    assert_eq!(back_up(&folder, &target).unwrap().blobs, 1);
    let copy: Arc<dyn TaskStore> = open(&target.join("store"));
    assert_eq!(get_task(&*copy, task.id).await, get_task(&*store, task.id).await);
    assert_eq!(get_group(&*copy, "g").await, get_group(&*store, "g").await);
    assert_eq!(read_blob(&*copy, output).await.unwrap(), b"output");
    let query = model::TaskQuery {
        labels: labels(&[("a", "b")]),
        ..model::TaskQuery::default()
    };
    assert_eq!(copy.search(query).await.unwrap().tasks[0].id, task.id);
}

#[tokio::test]
async fn a_closed_store_can_be_backed_up_too() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let task = new_task(task_spec());
    store.add(vec![task.clone()]).await.unwrap();
    drop(store);
    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    assert_eq!(back_up(&folder, &target).unwrap().tasks, 1);
    let copy = open(&target.join("store"));
    assert!(copy.get(task.id).await.unwrap().is_some());
    // The backup must leave no lock behind.
    assert!(open(folder.path()).get(task.id).await.unwrap().is_some());
}

#[tokio::test]
async fn an_invalid_source_or_target_is_refused() {
    let folder = TempDir::new().unwrap();
    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    let error = back_up(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::NoStore { .. }), "{error}");

    let _store = open(folder.path());
    std::fs::create_dir(&target).unwrap();
    let error = back_up(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error}");

    let target = targets.path().join("c");
    let staging = targets.path().join("c.new");
    std::fs::create_dir(&staging).unwrap();
    let error = back_up(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::Unfinished { .. }), "{error}");
    std::fs::remove_dir(&staging).unwrap();

    // A failed backup leaves nothing behind.
    let nonsense = TempDir::new().unwrap();
    std::fs::write(nonsense.path().join("tasks.db"), "no database ".repeat(1000)).unwrap();
    assert!(back_up(&nonsense, &target).is_err());
    assert!(!staging.exists() && !target.exists());
}

#[tokio::test]
async fn damaged_blobs_are_left_out_and_everything_else_is_copied() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let mut hashes = Vec::new();
    for content in ["whole", "marked", "missing", "short", "changed"] {
        hashes.push(put_blob(&*store, content.as_bytes()).await.unwrap());
    }
    let [intact, marked, missing, short, changed] = hashes[..] else {
        panic!("five blobs");
    };
    let path = |hash| blob_file(folder.path(), hash);
    std::fs::write(path(marked), "MARKED").unwrap();
    assert!(
        store.get_blob(marked).await.is_err(),
        "the read marks the blob as damaged"
    );
    std::fs::remove_file(path(missing)).unwrap();
    std::fs::write(path(short), "s").unwrap();
    std::fs::write(path(changed), "CHANGED").unwrap();

    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    let done = back_up(&folder, &target).unwrap();
    assert_eq!((done.blobs, done.blob_bytes, done.damaged), (1, 5, 4));
    let copy = target.join("store");
    for hash in [marked, missing, short, changed] {
        assert!(!blob_file(&copy, hash).exists(), "{hash}");
    }
    assert_eq!(count(&copy, "SELECT count(*) FROM blobs WHERE damaged = 1"), 4);
    let restored = open(&copy);
    assert_eq!(read_blob(&*restored, intact).await.unwrap(), b"whole");
    // A backup only reads the live store: its own scan marks damaged blobs.
    let marks = "SELECT count(*) FROM blobs WHERE damaged = 1";
    assert_eq!(count(folder.path(), marks), 1);
    // Putting a blob again repairs it in the restored store too.
    put_blob(&*restored, b"missing").await.unwrap();
    assert_eq!(read_blob(&*restored, missing).await.unwrap(), b"missing");
}

#[tokio::test]
async fn a_backup_shares_no_file_with_the_store() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let hash = put_blob(&*store, b"a blob").await.unwrap();
    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    back_up(&folder, &target).unwrap();
    let inode = |path: PathBuf| std::fs::metadata(path).unwrap().ino();
    let (live, copy) = (
        blob_file(folder.path(), hash),
        blob_file(&target.join("store"), hash),
    );
    assert_ne!(inode(live), inode(copy));
}

#[tokio::test]
async fn extra_files_are_copied_with_owner_only_permissions() {
    let folder = TempDir::new().unwrap();
    let _store = open(&folder.path().join("store"));
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret").unwrap();
    let extra_files = [secret, folder.path().join("none")];
    let target = folder.path().join("b");
    backup(&folder.path().join("store"), &target, &extra_files).unwrap();
    let copy = target.join("secret");
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "a secret");
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!target.join("none").exists());
}

/// Before an upgrade, the new binary backs up the store of the old one.
#[tokio::test]
async fn a_version_1_store_can_be_backed_up() {
    let folder = TempDir::new().unwrap();
    let database = Connection::open(folder.path().join("tasks.db")).unwrap();
    database
        .execute_batch(include_str!("../../src/sqlite/schema/1.sql"))
        .unwrap();
    let (intact, missing) = (hash_of(b"whole"), hash_of(b"missing"));
    for hash in [intact, missing] {
        let put = "INSERT INTO blobs (hash, size, used) VALUES (?1, 5, 7)";
        database.execute(put, [&hash.0[..]]).unwrap();
    }
    database.pragma_update(None, "user_version", 1).unwrap();
    drop(database);
    let path = blob_file(folder.path(), intact);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "whole").unwrap();

    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    let done = back_up(&folder, &target).unwrap();
    assert_eq!((done.blobs, done.damaged), (1, 1));
    let copy = target.join("store");
    assert_eq!(count(&copy, "SELECT count(*) FROM blobs"), 2);
    assert_eq!(count(&copy, "SELECT user_version FROM pragma_user_version"), 1);
    assert_eq!(read_blob(&*open(&copy), intact).await.unwrap(), b"whole");
}
