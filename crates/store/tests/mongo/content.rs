//! Content that does not fit a document, and files that are nobody's.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::{Age, Content, TaskId};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use store::contract::sample::{add_with, blob, file, get, new, put, success};
use store::contract::worker::Worker;
use store::{Retired, TaskStore};

use super::set::{Guard, Set};

const EVER: Age = Age(i64::MAX);

fn bytes(count: usize) -> Bytes {
    (0..count).map(|index| (index % 251) as u8).collect()
}

async fn count(set: &Set, collection: &str) -> u64 {
    let database = set.client().database("content");
    database
        .collection::<Document>(collection)
        .count_documents(doc! {})
        .await
        .unwrap()
}

async fn until_empty(set: &Set, collection: &str) {
    let begun = Instant::now();
    while count(set, collection).await > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{collection}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_large_comes_back_whole_and_leaves_nothing_behind() {
    let set = Set::start(1, Guard::Open).await;
    let store: Arc<dyn TaskStore> = Arc::new(set.open("content").await);
    let incoming = std::fs::metadata(store.incoming()).unwrap();
    assert_eq!(incoming.permissions().mode() & 0o777, 0o700);

    // More than a document holds, in both directions.
    let id = add_with(&*store, |spec| {
        spec.data = [file("data", Content::Inline(bytes(20 << 20)))].into();
    })
    .await;
    let mut worker = Worker::new(&store, "e");
    let assigned = worker.claim(1).await.remove(0);
    assert_eq!(assigned.spec, get(&*store, id).await.spec);
    let mut result = success();
    for outcome in [&mut result.compile, &mut result.execute] {
        let outcome = outcome.as_mut().unwrap();
        outcome.stdout.bytes = bytes(8 << 20);
        outcome.stderr.bytes = bytes(8 << 20);
    }
    worker.finish(assigned.handout, result.clone()).await;
    assert_eq!(get(&*store, id).await.result, Some(result));
    assert!(count(&set, "fs.chunks").await > 200, "it lies in files");

    // Too large for the task's own document, and small enough for one.
    let id = add_with(&*store, |spec| {
        spec.data = [file("data", Content::Inline(bytes(100 << 10)))].into();
    })
    .await;
    let assigned = worker.claim(1).await.remove(0);
    assert_eq!(assigned.spec, get(&*store, id).await.spec);
    assert_eq!(count(&set, "parts").await, 1);

    // Handed out in an answer that did not arrive, so handed out again; added again, and refused.
    worker.running.clear();
    worker.acked = model::Seq(0);
    let again = worker.claim(1).await.remove(0);
    assert_eq!((again.handout, again.spec), (assigned.handout, assigned.spec));
    worker.finish(again.handout, success()).await;
    let chunks = count(&set, "fs.chunks").await;
    let mut large = new(get(&*store, id).await.spec);
    large.spec.data = [file("data", Content::Inline(bytes(2 << 20)))].into();
    large.id = id;
    assert!(store.add(vec![large.clone()]).await.unwrap()[0].existed);
    large.digest = [9; 32];
    assert!(store.add(vec![large]).await.is_err());
    // Nothing is kept of it, though nobody waits for that.
    until_empty(&set, "uploads").await;
    assert_eq!(count(&set, "fs.chunks").await, chunks);

    // A blob in several writes, put by two at once.
    let content = bytes((9 << 20) + 1);
    let (first, second) = tokio::join!(put(&*store, &content), put(&*store, &content));
    let hash = first.unwrap();
    assert_eq!(second.unwrap(), hash);
    assert!(
        blob(&*store, hash).await.as_deref() == Some(&content[..]),
        "it came back changed"
    );
    assert_eq!(count(&set, "fs.files").await, 1);
    assert_eq!(count(&set, "uploads").await, 0, "the second copy is gone");

    // One who died in the middle of it, long ago.
    let (half, database) = (ObjectId::new(), set.client().database("content"));
    let chunk = doc! { "files_id": half, "n": 0, "data": "half of it" };
    database
        .collection::<Document>("fs.chunks")
        .insert_one(chunk)
        .await
        .unwrap();
    let mark = doc! { "_id": half, "age": i64::MIN };
    database
        .collection::<Document>("uploads")
        .insert_one(mark)
        .await
        .unwrap();

    // And a part that is lost: the task can be retired all the same.
    let id = add_with(&*store, |spec| {
        spec.data = [file("data", Content::Inline(bytes(100 << 10)))].into();
    })
    .await;
    store.cancel(id).await.unwrap();
    let parts = database.collection::<Document>("parts");
    assert_eq!(parts.delete_one(doc! {}).await.unwrap().deleted_count, 1);
    assert_eq!(count(&set, "parts").await, 1);

    let retired = store.retire(EVER, EVER, 10).await.unwrap();
    assert_eq!(retired, Retired { tasks: 3, blobs: 1 });
    for collection in ["tasks", "parts", "blobs", "fs.files", "fs.chunks", "uploads"] {
        assert_eq!(count(&set, collection).await, 0, "{collection}");
    }
    assert_eq!(store.get(TaskId::generate()).await.unwrap(), None);
}
