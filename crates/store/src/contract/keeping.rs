//! Keeping blobs.

use std::sync::Arc;

use model::BlobHash;

use super::sample::{blob, put};
use crate::{BlobFile, TaskStore};

const HASH: BlobHash = BlobHash([0xa7; 32]);

pub async fn a_blob_comes_back_as_it_was_put(store: Arc<dyn TaskStore>) {
    // Longer than any chunk that a stream is likely to use, and not a multiple of one.
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
    put(&*store, HASH, &bytes).await.unwrap();
    assert_eq!(blob(&*store, HASH).await.as_deref(), Some(&bytes[..]));
    let sizes = store.has_blobs(vec![BlobHash([1; 32]), HASH]).await.unwrap();
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
    put(&*store, HASH, b"bytes").await.unwrap();
    put(&*store, HASH, b"bytes").await.unwrap();
    assert_eq!(blob(&*store, HASH).await.as_deref(), Some(&b"bytes"[..]));
    let left = std::fs::read_dir(store.incoming()).unwrap().count();
    assert_eq!(left, 0, "nothing stays on its way in");
}

pub async fn an_empty_blob_is_a_blob(store: Arc<dyn TaskStore>) {
    put(&*store, HASH, b"").await.unwrap();
    assert_eq!(blob(&*store, HASH).await.as_deref(), Some(&b""[..]));
    assert_eq!(store.has_blobs(vec![HASH]).await.unwrap(), [Some(0)]);
}

pub async fn an_unknown_blob_is_none(store: Arc<dyn TaskStore>) {
    assert_eq!(blob(&*store, HASH).await, None);
    assert_eq!(store.has_blobs(vec![HASH, HASH]).await.unwrap(), [None, None]);
    assert_eq!(store.has_blobs(vec![]).await.unwrap(), []);
}

pub async fn a_blob_without_its_file_is_refused(store: Arc<dyn TaskStore>) {
    let path = store.incoming().join("never-written");
    assert!(
        store
            .put_blob(BlobFile {
                hash: HASH,
                size: 5,
                path
            })
            .await
            .is_err()
    );
    assert_eq!(store.has_blobs(vec![HASH]).await.unwrap(), [None]);
    put(&*store, HASH, b"bytes").await.unwrap();
    assert_eq!(blob(&*store, HASH).await.as_deref(), Some(&b"bytes"[..]));
}
