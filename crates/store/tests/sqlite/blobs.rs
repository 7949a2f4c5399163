//! Damaged, missing and orphaned blob files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, TryStreamExt};
use model::{BlobHash, StoreAge};
use store::contract::fake_executor::{FakeExecutor, instructions};
use store::contract::fixtures::{
    add_done_tasks_with_50_blobs, add_task, get_task, hash_of, put_blob, read_blob, result_with_files,
    task_with_blobs,
};
use store::sqlite::SqliteStore;
use store::{BlobFile, RetentionSummary, StoreError, TaskStore};
use tempfile::TempDir;
use tokio::time::timeout;

use super::open;

/// More than one chunk of a stream.
const LARGE: usize = 700_000;

fn file_of(folder: &Path, hash: BlobHash) -> PathBuf {
    let name = hash.to_string();
    folder.join("blobs").join(&name[..2]).join(&name[2..])
}

/// Reads a damaged blob and returns the number of bytes before the error.
async fn read_damaged(store: &SqliteStore, hash: BlobHash) -> usize {
    let mut bytes = match store.get_blob(hash).await {
        Ok(bytes) => bytes.unwrap(),
        Err(StoreError::DamagedBlob(damaged)) if damaged == hash => return 0,
        Err(error) => panic!("{error}"),
    };
    let mut read = 0;
    loop {
        match bytes.try_next().await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) => panic!("the damage was not detected"),
            Err(StoreError::DamagedBlob(damaged)) if damaged == hash => return read,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A SQLite store under test that holds one blob whose file the test has damaged.
struct DamagedStore {
    folder: TempDir,
    store: Arc<SqliteStore>,
    bytes: Vec<u8>,
    hash: BlobHash,
}

async fn damaged_store(size: usize, damage: impl FnOnce(&Path)) -> DamagedStore {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let hash = put_blob(&*store, &bytes).await.unwrap();
    damage(&file_of(folder.path(), hash));
    DamagedStore {
        folder,
        store,
        bytes,
        hash,
    }
}

/// Changes one byte and keeps the length.
fn flip_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

async fn check_detected_and_repaired(size: usize, damage: fn(&Path)) {
    let DamagedStore {
        folder,
        store,
        bytes,
        hash,
    } = damaged_store(size, damage).await;
    let read = read_damaged(&store, hash).await;
    assert!(read < size.max(1), "{read} of {size} bytes were read");
    // The mark survives a restart.
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [None]);
    assert_eq!(store.count_damaged_blobs().await.unwrap(), 1);
    assert_eq!(read_damaged(&store, hash).await, 0);
    let refused = store.add(vec![task_with_blobs(&[hash])]).await;
    assert!(matches!(refused, Err(StoreError::BlobNotFound(_))), "{refused:?}");
    // Putting the blob again repairs it.
    put_blob(&*store, &bytes).await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [Some(size as u64)]);
    assert_eq!(store.count_damaged_blobs().await.unwrap(), 0);
}

#[tokio::test]
async fn reading_detects_damage_and_putting_repairs_it() {
    check_detected_and_repaired(LARGE, flip_bit).await;
    check_detected_and_repaired(10, flip_bit).await;
    check_detected_and_repaired(LARGE, |path| fs::write(path, "short").unwrap()).await;
    check_detected_and_repaired(0, |path| fs::write(path, "long").unwrap()).await;
    check_detected_and_repaired(10, |path| fs::remove_file(path).unwrap()).await;
}

#[tokio::test]
async fn putting_repairs_damage_that_no_read_has_detected() {
    let DamagedStore {
        folder: _folder,
        store,
        bytes,
        hash,
    } = damaged_store(LARGE, flip_bit).await;
    put_blob(&*store, &bytes).await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
}

#[tokio::test]
async fn a_blob_that_was_repaired_during_a_read_is_not_marked() {
    let DamagedStore {
        folder: _folder,
        store,
        bytes,
        hash,
    } = damaged_store(LARGE, flip_bit).await;
    let reading = store.get_blob(hash).await.unwrap().unwrap();
    put_blob(&*store, &bytes).await.unwrap();
    let read: Result<Vec<_>, _> = reading.try_collect().await;
    assert!(matches!(read, Err(StoreError::DamagedBlob(_))), "{read:?}");
    assert_eq!(store.count_damaged_blobs().await.unwrap(), 0);
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
}

#[tokio::test]
async fn retention_removes_a_damaged_blob() {
    let DamagedStore {
        folder, store, hash, ..
    } = damaged_store(10, flip_bit).await;
    read_damaged(&store, hash).await;
    let ever = StoreAge(i64::MAX);
    let gone = RetentionSummary {
        tasks: 0,
        blobs: 1,
        more: false,
    };
    assert_eq!(store.apply_retention(ever, ever, 10).await.unwrap(), gone);
    assert_eq!(store.count_damaged_blobs().await.unwrap(), 0);
    assert!(!file_of(folder.path(), hash).exists());
}

#[tokio::test]
async fn a_scan_removes_orphaned_files() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let kept = put_blob(&*store, b"kept").await.unwrap();
    let orphan = file_of(folder.path(), hash_of(b"orphan"));
    fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    fs::write(&orphan, "orphan").unwrap();
    let foreign = orphan.with_file_name("notes.txt");
    fs::write(&foreign, "of another program").unwrap();
    let mut orphans = 0;
    for first_byte in 0..=u8::MAX {
        orphans += store.scan_blobs(first_byte).await.unwrap().orphans_removed;
    }
    assert_eq!(orphans, 1);
    assert!(!orphan.exists());
    assert!(foreign.exists(), "the scan keeps other files");
    assert_eq!(read_blob(&*store, kept).await.as_deref(), Some(&b"kept"[..]));
}

/// Concurrently, many times: the file of a blob that is being put is never taken for an orphan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_keeps_a_blob_that_is_being_put() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    for round in 0..50_u8 {
        let bytes = [round];
        let (hash, scanned) = tokio::join!(put_blob(&*store, &bytes), store.scan_blobs(hash_of(&bytes).0[0]));
        scanned.unwrap();
        assert_eq!(
            read_blob(&*store, hash.unwrap()).await.as_deref(),
            Some(&bytes[..])
        );
    }
}

/// An executor in the same process links a file into the incoming folder, and keeps its own name for it.
#[tokio::test]
async fn a_link_of_a_file_may_be_put_again_and_again() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let own = folder.path().join("own");
    std::fs::write(&own, b"bytes").unwrap();
    let hash = hash_of(b"bytes");
    for _ in 0..2 {
        let path = store.incoming_folder().join("link");
        std::fs::hard_link(&own, &path).unwrap();
        store.put_blob(BlobFile { hash, size: 5, path }).await.unwrap();
        let left = std::fs::read_dir(store.incoming_folder()).unwrap().count();
        assert_eq!(left, 0, "the folder for incoming blobs is empty");
        assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&b"bytes"[..]));
    }
    assert_eq!(std::fs::read(&own).unwrap(), b"bytes");
}

/// Puts and retention at the same time, many of each: no blob that a put has acknowledged lacks its file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blobs_that_are_put_while_others_are_removed_keep_their_files() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    for round in 0..20_u8 {
        let puts = (0..8_u8).map(|number| {
            let store = store.clone();
            tokio::spawn(async move { put_blob(&*store, &[number % 4]).await.unwrap() })
        });
        let puts: Vec<_> = puts.collect();
        let retired = store.apply_retention(StoreAge(0), StoreAge(i64::MAX), 10).await;
        retired.unwrap();
        let hashes: Vec<_> = futures::future::join_all(puts).await;
        for hash in hashes.into_iter().map(Result::unwrap) {
            let size = store.has_blobs(vec![hash]).await.unwrap()[0];
            let read = read_blob(&*store, hash).await.map(|bytes| bytes.len() as u64);
            assert_eq!(size, read, "round {round}");
        }
    }
    assert_eq!(store.count_damaged_blobs().await.unwrap(), 0);
}

#[tokio::test]
async fn a_result_with_a_damaged_blob_is_committed_after_a_new_upload() {
    let damaged = damaged_store(3, |path| fs::write(path, b"xxx").unwrap()).await;
    read_damaged(&damaged.store, damaged.hash).await;
    let store: Arc<dyn TaskStore> = damaged.store.clone();
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    let result = result_with_files(&[damaged.hash]);
    let answer = instructions(executor.finish(attempt_id, result.clone()).await);
    assert_eq!((answer.upload_again, answer.delete), (vec![attempt_id], vec![]));
    put_blob(&*store, &damaged.bytes).await.unwrap();
    executor.finish(attempt_id, result.clone()).await;
    assert_eq!(get_task(&*store, id).await.result, Some(result));
}

/// Otherwise its file would use space that no row shows.
#[tokio::test]
async fn a_put_whose_caller_is_gone_adds_the_blob() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let hash = hash_of(b"bytes");
    let path = store.incoming_folder().join("upload");
    fs::write(&path, b"bytes").unwrap();
    let put = store.put_blob(BlobFile { hash, size: 5, path });
    assert!(put.now_or_never().is_none(), "it waits for the disk");
    let added = async {
        while store.has_blobs(vec![hash]).await.unwrap() == [None] {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), added).await.unwrap();
    assert!(file_of(folder.path(), hash).exists());
}

/// The single writer would block all reports while it removes hundreds of thousands of references.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_of_retention_removes_a_bounded_number_of_references() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    add_done_tasks_with_50_blobs(&*store, 120).await;
    let expected = [(100, 0, true), (20, 50, false)];
    for (tasks, blobs, more) in expected {
        let removed = store.apply_retention(StoreAge(i64::MAX), StoreAge(i64::MAX), 1000);
        assert_eq!(removed.await.unwrap(), RetentionSummary { tasks, blobs, more });
    }
}
