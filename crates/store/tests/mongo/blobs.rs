//! Damaged blobs, and files that no blob refers to.

use std::time::Duration;

use futures::TryStreamExt;
use model::{BlobHash, StoreAge};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Document, doc};
use store::contract::fixtures::{advance_age, hash_of, put_blob, read_blob, task_with_blobs};
use store::{StoreError, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet};

/// One blob that is written in several commands, and one that is written in one transaction.
const SIZES: [usize; 2] = [9 << 20, 600_000];

async fn read(store: &dyn TaskStore, hash: BlobHash) -> Result<usize, StoreError> {
    let mut bytes = store.get_blob(hash).await?.unwrap();
    let mut read = 0;
    while let Some(piece) = bytes.try_next().await? {
        read += piece.len();
    }
    Ok(read)
}

/// Changes a byte of the second chunk.
async fn flip_byte(chunks: &Collection<Document>) {
    let chunk = chunks.find_one(doc! { "n": 1 }).await.unwrap().unwrap();
    let mut data: Binary = chunk
        .get("data")
        .cloned()
        .map(|data| match data {
            mongodb::bson::Bson::Binary(data) => data,
            other => panic!("{other}"),
        })
        .unwrap();
    data.bytes[7] ^= 1;
    let id = chunk.get_object_id("_id").unwrap();
    chunks
        .update_one(doc! { "_id": id }, doc! { "$set": { "data": data } })
        .await
        .unwrap();
}

async fn remove_chunk(chunks: &Collection<Document>) {
    let removed = chunks.delete_one(doc! { "n": 1 }).await.unwrap();
    assert_eq!(removed.deleted_count, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_finds_damage_and_putting_again_repairs_it() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    for (index, size) in SIZES.into_iter().enumerate() {
        for flipped in [true, false] {
            for read_first in [true, false] {
                let name = format!("blobs-{index}-{flipped}-{read_first}");
                let store = replica_set.open(&name).await;
                let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
                let hash = put_blob(&store, &bytes).await.unwrap();
                let chunks = replica_set.client().database(&name).collection("fs.chunks");
                match flipped {
                    true => flip_byte(&chunks).await,
                    false => remove_chunk(&chunks).await,
                }
                if read_first {
                    let found = read(&store, hash).await;
                    assert!(
                        matches!(found, Err(StoreError::DamagedBlob(_))),
                        "{name}: {found:?}"
                    );
                    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [None]);
                    assert_eq!(store.count_damaged_blobs().await.unwrap(), 1);
                    let found = read(&store, hash).await;
                    assert!(
                        matches!(found, Err(StoreError::DamagedBlob(_))),
                        "{name}: {found:?}"
                    );
                    let refused = store.add(vec![task_with_blobs(&[hash])]).await;
                    assert!(
                        matches!(refused, Err(StoreError::BlobNotFound(_))),
                        "{name}: {refused:?}"
                    );
                }
                put_blob(&store, &bytes).await.unwrap();
                assert!(
                    read_blob(&store, hash).await.as_deref() == Some(&bytes[..]),
                    "{name}"
                );
                assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [Some(size as u64)]);
                assert_eq!(store.count_damaged_blobs().await.unwrap(), 0);
                // The next retention run deletes the damaged file.
                store.apply_retention(StoreAge(0), StoreAge(0), 10).await.unwrap();
                let files = replica_set
                    .client()
                    .database(&name)
                    .collection::<Document>("fs.files");
                assert_eq!(files.count_documents(doc! {}).await.unwrap(), 1, "{name}");
                let left = chunks.count_documents(doc! {}).await.unwrap();
                assert_eq!(left, size.div_ceil(255 << 10) as u64, "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_a_blob_is_removed_after_a_grace_period() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = replica_set.open("orphans").await;
    let kept = put_blob(&store, b"kept").await.unwrap();
    let database = replica_set.client().database("orphans");
    let (files, chunks) = (
        database.collection::<Document>("fs.files"),
        database.collection::<Document>("fs.chunks"),
    );
    let (orphan, hash) = (ObjectId::new(), hash_of(b"orphan"));
    let name = hash.to_string();
    files
        .insert_one(doc! { "_id": orphan, "filename": &name, "length": 6_i64 })
        .await
        .unwrap();
    let chunk = doc! { "files_id": orphan, "n": 0, "data": "orphan" };
    chunks.insert_one(chunk).await.unwrap();
    let scan = async || {
        let mut orphans = 0;
        for first_byte in [hash.0[0], kept.0[0]] {
            orphans += store.scan_blobs(first_byte).await.unwrap().orphans_removed;
        }
        orphans
    };
    // The first scan only stamps the file.
    assert_eq!(scan().await, 0);
    advance_age(&store, Duration::from_secs(1800)).await;
    assert_eq!(scan().await, 0);
    advance_age(&store, Duration::from_secs(3600)).await;
    assert_eq!(scan().await, 1);
    assert_eq!(scan().await, 0, "it is scheduled for deletion already");
    store.apply_retention(StoreAge(0), StoreAge(0), 10).await.unwrap();
    assert_eq!(files.count_documents(doc! {}).await.unwrap(), 1);
    assert_eq!(chunks.count_documents(doc! {}).await.unwrap(), 1);
    assert_eq!(read_blob(&store, kept).await.as_deref(), Some(&b"kept"[..]));
}
