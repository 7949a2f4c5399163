//! Blobs whose bytes are not as they should be.

use std::time::Duration;

use futures::TryStreamExt;
use model::{Age, BlobHash};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Document, doc};
use store::contract::sample::{blob, grow_older, hash_of, needing, put};
use store::{StoreError, TaskStore};

use super::set::{Guard, Set};

/// In several writes, and in one.
const SIZES: [usize; 2] = [9 << 20, 600_000];

async fn read(store: &dyn TaskStore, hash: BlobHash) -> Result<usize, StoreError> {
    let mut bytes = store.get_blob(hash).await?.unwrap();
    let mut read = 0;
    while let Some(piece) = bytes.try_next().await? {
        read += piece.len();
    }
    Ok(read)
}

/// A byte of the second chunk is another.
async fn flip(chunks: &Collection<Document>) {
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

async fn remove(chunks: &Collection<Document>) {
    let removed = chunks.delete_one(doc! { "n": 1 }).await.unwrap();
    assert_eq!(removed.deleted_count, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_found_by_reading_and_mended_by_putting() {
    let set = Set::start(1, Guard::Open).await;
    for (index, size) in SIZES.into_iter().enumerate() {
        for flipped in [true, false] {
            for met in [true, false] {
                let name = format!("blobs-{index}-{flipped}-{met}");
                let store = set.open(&name).await;
                let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
                let hash = put(&store, &bytes).await.unwrap();
                let chunks = set.client().database(&name).collection("fs.chunks");
                match flipped {
                    true => flip(&chunks).await,
                    false => remove(&chunks).await,
                }
                if met {
                    let found = read(&store, hash).await;
                    assert!(
                        matches!(found, Err(StoreError::DamagedBlob(_))),
                        "{name}: {found:?}"
                    );
                    assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [None]);
                    assert_eq!(store.damaged_blobs().await.unwrap(), 1);
                    let found = read(&store, hash).await;
                    assert!(
                        matches!(found, Err(StoreError::DamagedBlob(_))),
                        "{name}: {found:?}"
                    );
                    let refused = store.add(vec![needing(&[hash])]).await;
                    assert!(
                        matches!(refused, Err(StoreError::NoBlob(_))),
                        "{name}: {refused:?}"
                    );
                }
                put(&store, &bytes).await.unwrap();
                assert!(blob(&store, hash).await.as_deref() == Some(&bytes[..]), "{name}");
                assert_eq!(store.has_blobs(vec![hash]).await.unwrap(), [Some(size as u64)]);
                assert_eq!(store.damaged_blobs().await.unwrap(), 0);
                // The damaged file goes with the next round of retention.
                store.retire(Age(0), Age(0), 10).await.unwrap();
                let files = set.client().database(&name).collection::<Document>("fs.files");
                assert_eq!(files.count_documents(doc! {}).await.unwrap(), 1, "{name}");
                let left = chunks.count_documents(doc! {}).await.unwrap();
                assert_eq!(left, size.div_ceil(255 << 10) as u64, "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_a_blob_is_removed_in_time() {
    let set = Set::start(1, Guard::Open).await;
    let store = set.open("orphans").await;
    let kept = put(&store, b"kept").await.unwrap();
    let database = set.client().database("orphans");
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
            orphans += store.scan_blobs(first_byte).await.unwrap().orphans;
        }
        orphans
    };
    // Not at first sight.
    assert_eq!(scan().await, 0);
    grow_older(&store, Duration::from_secs(1800)).await;
    assert_eq!(scan().await, 0);
    grow_older(&store, Duration::from_secs(3600)).await;
    assert_eq!(scan().await, 1);
    assert_eq!(scan().await, 0, "it is given up already");
    store.retire(Age(0), Age(0), 10).await.unwrap();
    assert_eq!(files.count_documents(doc! {}).await.unwrap(), 1);
    assert_eq!(chunks.count_documents(doc! {}).await.unwrap(), 1);
    assert_eq!(blob(&store, kept).await.as_deref(), Some(&b"kept"[..]));
}
