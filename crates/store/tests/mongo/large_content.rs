//! Content that is too large for a document, and files that no document refers to.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::{CapturedOutput, Content, StoreAge, TaskId};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task_with, get_task, new_task, put_blob, read_blob, success, task_file};
use store::{RetentionSummary, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet};

const END_OF_TIME: StoreAge = StoreAge(i64::MAX);

fn bytes(count: usize) -> Bytes {
    (0..count).map(|index| (index % 251) as u8).collect()
}

async fn count(replica_set: &TestReplicaSet, collection: &str) -> u64 {
    let database = replica_set.client().database("content");
    database
        .collection::<Document>(collection)
        .count_documents(doc! {})
        .await
        .unwrap()
}

async fn wait_until_empty(replica_set: &TestReplicaSet, collection: &str) {
    let started = Instant::now();
    while count(replica_set, collection).await > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "{collection}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_content_is_read_back_whole_and_removed_completely() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("content").await);
    let incoming = std::fs::metadata(store.incoming_folder()).unwrap();
    assert_eq!(incoming.permissions().mode() & 0o777, 0o700);

    // A spec and a result that are larger than a document can be.
    let id = add_task_with(&*store, |spec| {
        spec.data = [task_file("data", Content::Inline(bytes(20 << 20)))].into();
    })
    .await;
    let mut executor = FakeExecutor::new(&store, "e");
    let assigned = executor.claim(1).await.remove(0);
    assert_eq!(assigned.spec, get_task(&*store, id).await.spec);
    let mut result = success();
    for outcome in [&mut result.compile, &mut result.execute] {
        let outcome = outcome.as_mut().unwrap();
        outcome.stdout = CapturedOutput::small(bytes(8 << 20));
        outcome.stderr = CapturedOutput::small(bytes(8 << 20));
    }
    executor.finish(assigned.attempt_id, result.clone()).await;
    assert_eq!(get_task(&*store, id).await.result, Some(result));
    assert!(
        count(&replica_set, "fs.chunks").await > 200,
        "the content is in files"
    );

    // Too large for the document of the task, and small enough for a document of its own.
    let id = add_task_with(&*store, |spec| {
        spec.data = [task_file("data", Content::Inline(bytes(100 << 10)))].into();
    })
    .await;
    let assigned = executor.claim(1).await.remove(0);
    assert_eq!(assigned.spec, get_task(&*store, id).await.spec);
    assert_eq!(count(&replica_set, "parts").await, 1);

    // The task is assigned again after a lost answer, added again, and refused with another digest.
    executor.running.clear();
    executor.acked = model::ReportSeq(0);
    let again = executor.claim(1).await.remove(0);
    assert_eq!(
        (again.attempt_id, again.spec),
        (assigned.attempt_id, assigned.spec)
    );
    executor.finish(again.attempt_id, success()).await;
    let chunks = count(&replica_set, "fs.chunks").await;
    let mut large = new_task(get_task(&*store, id).await.spec);
    large.spec.data = [task_file("data", Content::Inline(bytes(2 << 20)))].into();
    large.id = id;
    assert!(store.add(vec![large.clone()]).await.unwrap()[0].existed);
    large.digest = [9; 32];
    assert!(store.add(vec![large]).await.is_err());
    // The uploads of both calls are deleted in the background.
    wait_until_empty(&replica_set, "uploads").await;
    assert_eq!(count(&replica_set, "fs.chunks").await, chunks);

    // Two callers put the same blob at once, in several writes.
    let content = bytes((9 << 20) + 1);
    let (first, second) = tokio::join!(put_blob(&*store, &content), put_blob(&*store, &content));
    let hash = first.unwrap();
    assert_eq!(second.unwrap(), hash);
    assert!(
        read_blob(&*store, hash).await.as_deref() == Some(&content[..]),
        "the bytes differ"
    );
    assert_eq!(count(&replica_set, "fs.files").await, 1);
    assert_eq!(
        count(&replica_set, "uploads").await,
        0,
        "the second copy was not deleted"
    );

    // An upload whose writer died long ago.
    let (half, database) = (ObjectId::new(), replica_set.client().database("content"));
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

    // A task whose content is lost can be removed nevertheless.
    let id = add_task_with(&*store, |spec| {
        spec.data = [task_file("data", Content::Inline(bytes(100 << 10)))].into();
    })
    .await;
    store.cancel(id).await.unwrap();
    let parts = database.collection::<Document>("parts");
    assert_eq!(parts.delete_one(doc! {}).await.unwrap().deleted_count, 1);
    assert_eq!(count(&replica_set, "parts").await, 1);

    let retired = store.apply_retention(END_OF_TIME, END_OF_TIME, 10).await.unwrap();
    assert_eq!(
        retired,
        RetentionSummary {
            tasks: 3,
            blobs: 1,
            more: false
        }
    );
    for collection in ["tasks", "parts", "blobs", "fs.files", "fs.chunks", "uploads"] {
        assert_eq!(count(&replica_set, collection).await, 0, "{collection}");
    }
    assert_eq!(store.get(TaskId(uuid::Uuid::now_v7())).await.unwrap(), None);
}
