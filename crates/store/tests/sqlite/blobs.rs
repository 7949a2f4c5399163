//! Blobs whose files are not as they should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use model::{Age, BlobHash};
use store::contract::sample::{blob, hash_of, needing, put};
use store::sqlite::SqliteStore;
use store::{Retired, StoreError, TaskStore};
use tempfile::TempDir;

use super::open;

/// More than one piece of a stream.
const LARGE: usize = 700_000;

fn file_of(folder: &Path, hash: BlobHash) -> PathBuf {
    let name = hash.to_string();
    folder.join("blobs").join(&name[..2]).join(&name[2..])
}

/// What a reader gets: as many bytes before the error.
async fn read_damaged(store: &SqliteStore, hash: BlobHash) -> usize {
    let mut bytes = match store.get_blob(hash).await {
        Ok(bytes) => bytes.unwrap(),
        Err(StoreError::DamagedBlob(damaged)) if damaged == hash => return 0,
        Err(error) => panic!("{error}"),
    };
    let mut read = 0;
    loop {
        match bytes.try_next().await {
            Ok(Some(piece)) => read += piece.len(),
            Ok(None) => panic!("it was taken for whole"),
            Err(StoreError::DamagedBlob(damaged)) if damaged == hash => return read,
            Err(error) => panic!("{error}"),
        }
    }
}

struct Damaged {
    folder: TempDir,
    store: Arc<SqliteStore>,
    bytes: Vec<u8>,
    hash: BlobHash,
}

/// A store with a blob whose file this has been done to.
async fn damaged(size: usize, damage: impl FnOnce(&Path)) -> Damaged {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
    let hash = put(&*store, &bytes).await.unwrap();
    damage(&file_of(folder.path(), hash));
    Damaged {
        folder,
        store,
        bytes,
        hash,
    }
}

/// One byte is another: the length is right.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

async fn check_found_and_mended(size: usize, damage: fn(&Path)) {
    let Damaged {
        folder,
        store,
        bytes,
        hash,
    } = damaged(size, damage).await;
    let read = read_damaged(&store, hash).await;
    assert!(read < size.max(1), "{read} of {size} bytes came");
    // From now on it is known, also after a restart.
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [None]);
    assert_eq!(store.damaged_blobs().await.unwrap(), 1);
    assert_eq!(read_damaged(&store, hash).await, 0);
    let refused = store.add(vec![needing(&[hash])]).await;
    assert!(matches!(refused, Err(StoreError::NoBlob(_))), "{refused:?}");
    // To put it again mends it.
    put(&*store, &bytes).await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [Some(size as u64)]);
    assert_eq!(store.damaged_blobs().await.unwrap(), 0);
}

#[tokio::test]
async fn damage_is_found_by_reading_and_mended_by_putting() {
    check_found_and_mended(LARGE, flip).await;
    check_found_and_mended(10, flip).await;
    check_found_and_mended(LARGE, |path| fs::write(path, "short").unwrap()).await;
    check_found_and_mended(0, |path| fs::write(path, "long").unwrap()).await;
    check_found_and_mended(10, |path| fs::remove_file(path).unwrap()).await;
}

#[tokio::test]
async fn damage_that_nobody_has_met_is_mended_by_putting() {
    let Damaged {
        folder: _folder,
        store,
        bytes,
        hash,
    } = damaged(LARGE, flip).await;
    put(&*store, &bytes).await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
}

#[tokio::test]
async fn a_blob_that_was_mended_while_it_was_read_is_not_marked() {
    let Damaged {
        folder: _folder,
        store,
        bytes,
        hash,
    } = damaged(LARGE, flip).await;
    let reading = store.get_blob(hash).await.unwrap().unwrap();
    put(&*store, &bytes).await.unwrap();
    let read: Result<Vec<_>, _> = reading.try_collect().await;
    assert!(matches!(read, Err(StoreError::DamagedBlob(_))), "{read:?}");
    assert_eq!(store.damaged_blobs().await.unwrap(), 0);
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
}

#[tokio::test]
async fn a_damaged_blob_is_retired_like_any_other() {
    let Damaged {
        folder, store, hash, ..
    } = damaged(10, flip).await;
    read_damaged(&store, hash).await;
    let ever = Age(i64::MAX);
    let gone = Retired { tasks: 0, blobs: 1 };
    assert_eq!(store.retire(ever, ever, 10).await.unwrap(), gone);
    assert_eq!(store.damaged_blobs().await.unwrap(), 0);
    assert!(!file_of(folder.path(), hash).exists());
}

#[tokio::test]
async fn a_file_that_a_crash_has_left_is_removed() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    let kept = put(&*store, b"kept").await.unwrap();
    let orphan = file_of(folder.path(), hash_of(b"orphan"));
    fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    fs::write(&orphan, "orphan").unwrap();
    let foreign = orphan.with_file_name("notes.txt");
    fs::write(&foreign, "of somebody else").unwrap();
    let mut orphans = 0;
    for first_byte in 0..=u8::MAX {
        orphans += store.scan_blobs(first_byte).await.unwrap().orphans;
    }
    assert_eq!(orphans, 1);
    assert!(!orphan.exists());
    assert!(foreign.exists(), "what is not ours is left alone");
    assert_eq!(blob(&*store, kept).await.as_deref(), Some(&b"kept"[..]));
}

/// Both at once, many times: what is being put is never taken for an orphan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_leaves_what_is_being_put() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path());
    for round in 0..50_u8 {
        let bytes = [round];
        let (hash, shelf) = tokio::join!(put(&*store, &bytes), store.scan_blobs(hash_of(&bytes).0[0]));
        shelf.unwrap();
        assert_eq!(blob(&*store, hash.unwrap()).await.as_deref(), Some(&bytes[..]));
    }
}
