//! On a full disk the store refuses writes. When there is space again, it continues.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use model::{Content, TaskId, TaskStatus};
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, get_task, new_task, success, task_spec};
use store::{StoreError, TaskStore};
use tempfile::TempDir;

use super::open;

/// A small tmpfs for tests of the SQLite store on a full disk. Mounting it needs root.
struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    fn mount(mebibytes: u32) -> SmallDisk {
        let folder = TempDir::new().unwrap();
        let size = format!("size={mebibytes}m");
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], folder.path());
        SmallDisk { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], self.folder.path());
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().unwrap();
    assert!(status.success(), "{program} needs root");
}

/// Adds tasks of this many bytes until the store refuses one. Returns the added tasks and the error.
async fn add_until_refused(store: &dyn TaskStore, bytes: usize) -> (Vec<TaskId>, StoreError) {
    let mut spec = task_spec();
    spec.execute.input = Content::Inline(Bytes::from(vec![b'x'; bytes]));
    let mut ids = vec![];
    loop {
        assert!(ids.len() < 10_000, "the disk is never full");
        match store.add(vec![new_task(spec.clone())]).await {
            Ok(added) => ids.push(added[0].id),
            Err(error) => return (ids, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_adds_until_there_is_space() {
    let disk = SmallDisk::mount(12);
    let ballast = disk.path("ballast");
    std::fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let store: Arc<dyn TaskStore> = open(&disk.path("store"));
    let mut executor = FakeExecutor::new(&store, "e");
    add_task(&*store).await;
    let attempt_id = executor.claim_one().await;

    let (mut ids, error) = add_until_refused(&*store, 64 << 10).await;
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert!(error.is_transient());
    assert!(ids.len() > 10);
    let (more, error) = add_until_refused(&*store, 1 << 10).await;
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    ids.extend(more);
    let checked = store.check().await;
    assert!(matches!(checked, Err(StoreError::DiskFull { .. })), "{checked:?}");
    // The added tasks are still readable, and no other task exists.
    for id in &ids {
        assert_eq!(get_task(&*store, *id).await.status, TaskStatus::Pending);
    }
    assert_eq!(
        store.totals().await.unwrap().counts[&TaskStatus::Pending],
        ids.len() as u64 + 1
    );

    std::fs::remove_file(&ballast).unwrap();
    store.check().await.unwrap();
    executor.finish(attempt_id, success()).await;
    assert_eq!(
        get_task(&*store, attempt_id.task).await.status,
        TaskStatus::Success
    );
    ids.push(add_task(&*store).await);
    drop(executor);
    drop(store);
    let store = open(&disk.path("store"));
    for id in &ids {
        assert_eq!(get_task(&*store, *id).await.status, TaskStatus::Pending);
    }
    assert_eq!(
        store.totals().await.unwrap().counts[&TaskStatus::Pending],
        ids.len() as u64
    );
}
