//! The store's age, the documents that it stamps, and documents from before there was an age.

use std::sync::Arc;
use std::time::Duration;

use model::{TaskStatus, UnixTime};
use mongodb::bson::{Document, doc};
use store::contract::fake_executor::FakeExecutor;
use store::contract::fixtures::{add_task, advance_age, get_task, put_blob, success};
use store::{RetentionSummary, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_schema_version_1_count_from_the_upgrade_on() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let mut executor = FakeExecutor::new(&store, "gone");
    executor.claim(0).await;
    store.expire(executor.observed()).await.unwrap();
    let (done, waiting) = (add_task(&*store).await, add_task(&*store).await);
    store.cancel(done).await.unwrap();
    put_blob(&*store, b"idle").await.unwrap();
    drop((executor, store));

    // The state that schema version 1 leaves: no stamps, no age, other indexes.
    let database = replica_set.client().database("conclave");
    for (collection, stamp) in [
        ("tasks", "finish_age"),
        ("blobs", "used_age"),
        ("executors", "end_age"),
    ] {
        let unset = doc! { "$unset": { stamp: "" } };
        let collection = database.collection::<Document>(collection);
        collection.update_many(doc! {}, unset).await.unwrap();
    }
    let meta = database.collection::<Document>("meta");
    meta.delete_one(doc! { "_id": "age" }).await.unwrap();
    let first = doc! { "$set": { "version": 1_i64 } };
    meta.update_one(doc! { "_id": "schema" }, first).await.unwrap();
    for (collection, new) in [("tasks", "done_by_age"), ("blobs", "idle_by_age")] {
        let collection = database.collection::<Document>(collection);
        collection.drop_index(new).await.unwrap();
    }
    let done_index = doc! {
        "createIndexes": "tasks",
        "indexes": [{
            "name": "done",
            "key": { "finish_time": 1 },
            "partialFilterExpression": { "finish_time": { "$exists": true } },
        }],
    };
    database.run_command(done_index).await.unwrap();

    let store = replica_set.open("conclave").await;
    advance_age(&store, SECOND).await;
    let age = store.age().await.unwrap();
    assert_eq!(
        store.apply_retention(age, age, 10).await.unwrap(),
        RetentionSummary::default()
    );
    assert_eq!(store.remove_ended_executors(age).await.unwrap(), 0);
    let later = advance_age(&store, SECOND).await;
    let all = RetentionSummary {
        tasks: 1,
        blobs: 1,
        more: false,
    };
    assert_eq!(store.apply_retention(later, later, 10).await.unwrap(), all);
    assert_eq!(store.remove_ended_executors(later).await.unwrap(), 1);
    assert_eq!(get_task(&store, waiting).await.status, TaskStatus::Pending);
    let names = database
        .collection::<Document>("tasks")
        .list_index_names()
        .await
        .unwrap();
    assert!(
        names.contains(&"done_by_age".to_string()) && !names.contains(&"done".to_string()),
        "{names:?}"
    );
}

/// Simulates judicators whose clocks are ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_a_task_never_decrease() {
    const FUTURE: i64 = 4_000_000_000_000_000;
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let tasks = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("tasks");
    let set_to_future = async |time: &str, by: i64| {
        let change = doc! { "$set": { time: FUTURE + by } };
        tasks.update_one(doc! {}, change).await.unwrap();
    };
    let mut executor = FakeExecutor::new(&store, "e");
    let id = add_task(&*store).await;
    set_to_future("add_time", 0).await;
    let attempt_id = executor.claim_one().await;
    assert!(get_task(&*store, id).await.start_time >= Some(UnixTime(FUTURE)));
    set_to_future("start_time", 1).await;
    executor.report_status(id, TaskStatus::Running).await;
    set_to_future("report_time", 2).await;
    executor.finish(attempt_id, success()).await;
    let task = get_task(&*store, id).await;
    let times = [
        Some(task.add_time),
        task.start_time,
        task.report_time,
        task.finish_time,
    ];
    assert!(times.is_sorted(), "{times:?}");
    assert!(task.finish_time >= Some(UnixTime(FUTURE + 2)), "{times:?}");
}
