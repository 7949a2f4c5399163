//! A copy that is made while the store is written to is a whole store of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use store::TaskStore;
use store::contract::sample::{blob, new, put, spec};
use store::sqlite::{BackupError, SqliteStore, backup};
use tempfile::TempDir;

use super::open;

fn copied(store: &TempDir, target: &std::path::Path) -> Result<store::sqlite::BackedUp, BackupError> {
    backup(store.path(), target)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_has_every_acknowledged_task() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let mut before = Vec::new();
    for _ in 0..200 {
        let task = new(spec());
        before.push(task.id);
        store.add(vec![task]).await.unwrap();
    }
    let hash = put(&*store, b"a blob of some bytes").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            let mut added = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                store.add(vec![new(spec())]).await.unwrap();
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
        let done = tokio::task::spawn_blocking(move || backup(&path, &to))
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
        assert_eq!(blob(&*copy, hash).await.unwrap(), b"a blob of some bytes");
    }
    stop.store(true, Ordering::Relaxed);
    assert!(load.await.unwrap() > 0);
}

#[tokio::test]
async fn a_closed_store_can_be_backed_up_too() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let task = new(spec());
    store.add(vec![task.clone()]).await.unwrap();
    drop(store);
    let target = TempDir::new().unwrap();
    // An empty folder will do as well as none.
    assert_eq!(copied(&folder, target.path()).unwrap().tasks, 1);
    let copy = open(&target.path().join("store"));
    assert!(copy.get(task.id).await.unwrap().is_some());
    // What a backup left open must not keep the store from opening again.
    assert!(open(folder.path()).get(task.id).await.unwrap().is_some());
}

#[tokio::test]
async fn what_cannot_be_a_backup_is_refused() {
    let folder = TempDir::new().unwrap();
    let targets = TempDir::new().unwrap();
    let target = targets.path().join("b");
    let error = copied(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::NoStore { .. }), "{error}");

    let store = open(folder.path());
    let hash = put(&*store, b"0123456789").await.unwrap();
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("file"), "").unwrap();
    let error = copied(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");

    let target = targets.path().join("c");
    let staging = targets.path().join("c.new");
    std::fs::create_dir(&staging).unwrap();
    let error = copied(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::Unfinished { .. }), "{error}");
    std::fs::remove_dir(&staging).unwrap();

    // A blob that the database names has to be there, whole.
    let name = hash.to_string();
    let path = folder.path().join("blobs").join(&name[..2]).join(&name[2..]);
    std::fs::write(&path, "short").unwrap();
    let error = copied(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::BlobSize { .. }), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = copied(&folder, &target).unwrap_err();
    assert!(matches!(error, BackupError::MissingBlob { .. }), "{error}");
    // Nothing is left of what failed.
    assert!(!staging.exists() && !target.exists());
}
