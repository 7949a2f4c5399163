//! Keeping blobs.

use std::sync::Arc;

use model::BlobHash;

use super::sample::{blob, hash_of, put};
use crate::{BlobFile, TaskStore};

const BYTES: &[u8] = b"bytes";

pub async fn a_blob_comes_back_as_it_was_put(store: Arc<dyn TaskStore>) {
    // Longer than any chunk that a stream is likely to use, and not a multiple of one.
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
    let hash = put(&*store, &bytes).await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
    let sizes = store.has_blobs(vec![BlobHash([1; 32]), hash]).await.unwrap();
    assert_eq!(sizes, [None, Some(3_000_001)]);
}

pub async fn a_check_leaves_nothing_that_is_shown(store: Arc<dyn TaskStore>) {
    let before = store.totals().await.unwrap();
    store.check().await.unwrap();
    store.check().await.unwrap();
    assert_eq!(store.totals().await.unwrap(), before);
    let left = std::fs::read_dir(store.incoming()).unwrap().count();
    assert_eq!(left, 0, "nothing stays on its way in");
    assert_eq!(store.failures().seen(), None);
}

pub async fn a_blob_may_be_put_twice(store: Arc<dyn TaskStore>) {
    put(&*store, BYTES).await.unwrap();
    let hash = put(&*store, BYTES).await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&b"bytes"[..]));
    let left = std::fs::read_dir(store.incoming()).unwrap().count();
    assert_eq!(left, 0, "nothing stays on its way in");
}

pub async fn an_empty_blob_is_a_blob(store: Arc<dyn TaskStore>) {
    let hash = put(&*store, b"").await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&b""[..]));
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [Some(0)]);
}

pub async fn an_unknown_blob_is_none(store: Arc<dyn TaskStore>) {
    let hash = hash_of(BYTES);
    assert_eq!(blob(&*store, hash).await, None);
    assert_eq!(store.has_blobs(vec![hash, hash]).await.unwrap(), [None, None]);
    assert_eq!(store.has_blobs(vec![]).await.unwrap(), []);
}

pub async fn a_blob_without_its_file_is_refused(store: Arc<dyn TaskStore>) {
    let path = store.incoming().join("never-written");
    let hash = hash_of(BYTES);
    assert!(store.put_blob(BlobFile { hash, size: 5, path }).await.is_err());
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [None]);
    put(&*store, BYTES).await.unwrap();
    assert_eq!(blob(&*store, hash).await.as_deref(), Some(&b"bytes"[..]));
}

/// What a store keeps is whole: a scan reads it and finds nothing to complain of.
pub async fn a_scan_finds_every_blob(store: Arc<dyn TaskStore>) {
    let mut put_in = vec![];
    for text in ["one", "two", "three"] {
        put_in.push(put(&*store, text.as_bytes()).await.unwrap());
    }
    let mut found = vec![];
    for first_byte in 0..=u8::MAX {
        let shelf = store.scan_blobs(first_byte).await.unwrap();
        assert!(
            shelf.blobs.iter().all(|hash| hash.0[0] == first_byte),
            "{shelf:?}"
        );
        assert_eq!(shelf.orphans, 0);
        found.extend(shelf.blobs);
    }
    put_in.sort_unstable();
    assert_eq!(found, put_in);
    assert_eq!(store.damaged_blobs().await.unwrap(), 0);
}
