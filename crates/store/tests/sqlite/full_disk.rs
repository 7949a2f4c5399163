//! A disk that is full: what cannot be kept is refused, and once there is room the store goes on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use model::{Content, Status, TaskId};
use store::contract::sample::{add_one, get, new, spec, success};
use store::contract::worker::Worker;
use store::{StoreError, TaskStore};
use tempfile::TempDir;

use super::open;

/// A small file system of its own. It takes root to mount one.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn mount(mebibytes: u32) -> Disk {
        let folder = TempDir::new().unwrap();
        let size = format!("size={mebibytes}m");
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], folder.path());
        Disk { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], self.folder.path());
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().unwrap();
    assert!(status.success(), "{program} needs root");
}

/// Adds tasks of this many bytes until one is refused; answers those that were not, and why the last one was.
async fn add_until_refused(store: &dyn TaskStore, bytes: usize) -> (Vec<TaskId>, StoreError) {
    let mut spec = spec();
    spec.execute.input = Content::Inline(Bytes::from(vec![b'x'; bytes]));
    let mut ids = vec![];
    loop {
        assert!(ids.len() < 10_000, "the disk is never full");
        match store.add(vec![new(spec.clone())]).await {
            Ok(added) => ids.push(added[0].id),
            Err(error) => return (ids, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_and_recovers() {
    let disk = Disk::mount(12);
    let ballast = disk.path("ballast");
    std::fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let store: Arc<dyn TaskStore> = open(&disk.path("store"));
    let mut worker = Worker::new(&store, "e");
    add_one(&*store).await;
    let handout = worker.claim_one().await;

    let (mut ids, error) = add_until_refused(&*store, 64 << 10).await;
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.is_transient());
    assert!(ids.len() > 10);
    let (more, error) = add_until_refused(&*store, 1 << 10).await;
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    ids.extend(more);
    let checked = store.check().await;
    assert!(matches!(checked, Err(StoreError::Full { .. })), "{checked:?}");
    // What was kept can still be read, and nothing more than that is there.
    for id in &ids {
        assert_eq!(get(&*store, *id).await.status, Status::Pending);
    }
    assert_eq!(
        store.totals().await.unwrap().counts[&Status::Pending],
        ids.len() as u64 + 1
    );

    std::fs::remove_file(&ballast).unwrap();
    store.check().await.unwrap();
    worker.finish(handout, success()).await;
    assert_eq!(get(&*store, handout.task).await.status, Status::Success);
    ids.push(add_one(&*store).await);
    drop(worker);
    drop(store);
    let store = open(&disk.path("store"));
    for id in &ids {
        assert_eq!(get(&*store, *id).await.status, Status::Pending);
    }
    assert_eq!(
        store.totals().await.unwrap().counts[&Status::Pending],
        ids.len() as u64
    );
}
