//! What `TaskStore::check` detects while the store is open.

use std::fs;
use std::path::Path;
use std::process::Command;

use store::TaskStore;
use tempfile::TempDir;

use super::open;

/// Damages the folder of an open store and returns the error of the next check.
async fn check_error_after(damage: impl FnOnce(&Path)) -> String {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    store.check().await.unwrap();
    damage(folder.path());
    let checked = store.check().await;
    checked.expect_err("the check detects it").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_database_is_detected() {
    let all = ["tasks.db", "tasks.db-wal", "tasks.db-shm"];
    for removed in [&all[..], &all[..1], &all[1..2]] {
        let error = check_error_after(|folder| {
            for name in removed {
                fs::remove_file(folder.join(name)).unwrap();
            }
        });
        let error = error.await;
        assert!(error.contains(removed[0]), "{error}");
        assert!(error.contains("restore a backup"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_database_is_detected() {
    let error = check_error_after(|folder| {
        let copy = folder.join("copy");
        fs::copy(folder.join("tasks.db"), &copy).unwrap();
        fs::rename(copy, folder.join("tasks.db")).unwrap();
    });
    let error = error.await;
    assert!(error.contains("replaced"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_blob_folder_is_detected() {
    let error = check_error_after(|folder| fs::remove_dir_all(folder.join("blobs")).unwrap());
    let error = error.await;
    assert!(error.contains("blobs"), "{error}");
}

/// Mounting a file system needs root.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_folder_is_detected() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program)
            .args(args)
            .arg(store.incoming_folder())
            .status();
        assert!(status.unwrap().success(), "{program} needs root");
    };
    run("mount", &["-t", "tmpfs", "-o", "ro", "tmpfs"]);
    let checked = store.check().await;
    run("umount", &["--lazy"]);
    let error = checked.expect_err("the check detects it").to_string();
    assert!(error.contains("incoming"), "{error}");
    store.check().await.unwrap();
}
