//! Contract cases: storing blobs.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use model::BlobHash;

use super::fixtures::{hash_of, put_blob, read_blob};
use crate::{BlobFile, TaskStore};

const BYTES: &[u8] = b"bytes";

pub async fn get_returns_the_bytes_that_were_put(store: Arc<dyn TaskStore>) {
    // Longer than the chunks of a stream, and not a multiple of their size.
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
    let hash = put_blob(&*store, &bytes).await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&bytes[..]));
    let sizes = store.has_blobs(vec![BlobHash([1; 32]), hash]).await.unwrap();
    assert_eq!(sizes, [None, Some(3_000_001)]);
}

pub async fn a_blob_is_read_from_an_offset_on(store: Arc<dyn TaskStore>) {
    let bytes: Vec<u8> = (0..700_001_u32).map(|index| (index % 251) as u8).collect();
    let hash = put_blob(&*store, &bytes).await.unwrap();
    // At the beginning, within and between chunks, at the last byte, at the end and beyond it.
    for offset in [0, 1, 255 << 10, (255 << 10) + 1, 700_000, 700_001, 1 << 40] {
        let stream = store.get_blob_from(hash, offset).await.unwrap().unwrap();
        let chunks: Vec<Bytes> = stream.try_collect().await.unwrap();
        let start = usize::try_from(offset).unwrap().min(bytes.len());
        assert!(chunks.concat() == bytes[start..], "{offset}");
    }
    let unknown = store.get_blob_from(hash_of(BYTES), 1).await.unwrap();
    assert!(unknown.is_none());
}

pub async fn a_health_check_leaves_no_trace(store: Arc<dyn TaskStore>) {
    let before = store.totals().await.unwrap();
    store.check().await.unwrap();
    store.check().await.unwrap();
    assert_eq!(store.totals().await.unwrap(), before);
    let left = std::fs::read_dir(store.incoming_folder()).unwrap().count();
    assert_eq!(left, 0, "the folder for incoming blobs is empty");
    assert_eq!(store.failures().current(), None);
}

pub async fn a_blob_may_be_put_twice(store: Arc<dyn TaskStore>) {
    put_blob(&*store, BYTES).await.unwrap();
    let hash = put_blob(&*store, BYTES).await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&b"bytes"[..]));
    let left = std::fs::read_dir(store.incoming_folder()).unwrap().count();
    assert_eq!(left, 0, "the folder for incoming blobs is empty");
}

pub async fn a_blob_may_be_empty(store: Arc<dyn TaskStore>) {
    let hash = put_blob(&*store, b"").await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&b""[..]));
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [Some(0)]);
}

pub async fn an_unknown_blob_is_none(store: Arc<dyn TaskStore>) {
    let hash = hash_of(BYTES);
    assert_eq!(read_blob(&*store, hash).await, None);
    assert_eq!(store.has_blobs(vec![hash, hash]).await.unwrap(), [None, None]);
    assert_eq!(store.has_blobs(vec![]).await.unwrap(), []);
}

pub async fn putting_a_missing_file_is_refused(store: Arc<dyn TaskStore>) {
    let path = store.incoming_folder().join("never-written");
    let hash = hash_of(BYTES);
    assert!(store.put_blob(BlobFile { hash, size: 5, path }).await.is_err());
    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [None]);
    put_blob(&*store, BYTES).await.unwrap();
    assert_eq!(read_blob(&*store, hash).await.as_deref(), Some(&b"bytes"[..]));
}

pub async fn a_scan_finds_every_blob(store: Arc<dyn TaskStore>) {
    let mut put_in = vec![];
    for text in ["one", "two", "three"] {
        put_in.push(put_blob(&*store, text.as_bytes()).await.unwrap());
    }
    let mut found = vec![];
    for first_byte in 0..=u8::MAX {
        let scanned = store.scan_blobs(first_byte).await.unwrap();
        assert!(
            scanned.intact.iter().all(|hash| hash.0[0] == first_byte),
            "{scanned:?}"
        );
        assert_eq!(scanned.orphans_removed, 0);
        found.extend(scanned.intact);
    }
    put_in.sort_unstable();
    assert_eq!(found, put_in);
    assert_eq!(store.count_damaged_blobs().await.unwrap(), 0);
}
