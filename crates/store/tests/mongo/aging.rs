//! The store's age, the stamps, and what was written before there were any.

use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Status};
use mongodb::bson::{Document, doc};
use store::contract::sample::{add_one, get, grow_older, put, success};
use store::contract::worker::Worker;
use store::{Retired, TaskStore};

use super::set::{Guard, Set};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_first_version_kept_counts_from_the_upgrade_on() {
    let set = Set::start(1, Guard::Open).await;
    let store: Arc<dyn TaskStore> = Arc::new(set.open("conclave").await);
    let mut worker = Worker::new(&store, "gone");
    worker.claim(0).await;
    store.expire(worker.seen()).await.unwrap();
    let (done, waiting) = (add_one(&*store).await, add_one(&*store).await);
    store.cancel(done).await.unwrap();
    put(&*store, b"idle").await.unwrap();
    drop((worker, store));

    // As the first version leaves it: no stamps, no age, its own indexes.
    let database = set.client().database("conclave");
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

    let store = set.open("conclave").await;
    grow_older(&store, SECOND).await;
    let age = store.age().await.unwrap();
    assert_eq!(store.retire(age, age, 10).await.unwrap(), Retired::default());
    assert_eq!(store.forget_executors(age).await.unwrap(), 0);
    let later = grow_older(&store, SECOND).await;
    let all = Retired { tasks: 1, blobs: 1 };
    assert_eq!(store.retire(later, later, 10).await.unwrap(), all);
    assert_eq!(store.forget_executors(later).await.unwrap(), 1);
    assert_eq!(get(&store, waiting).await.status, Status::Pending);
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

/// As if the task had been added and handed out by judicators whose clocks were ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_a_task_do_not_run_backwards() {
    const FUTURE: i64 = 4_000_000_000_000_000;
    let set = Set::start(1, Guard::Open).await;
    let store: Arc<dyn TaskStore> = Arc::new(set.open("conclave").await);
    let tasks = set.client().database("conclave").collection::<Document>("tasks");
    let later = async |time: &str, by: i64| {
        let change = doc! { "$set": { time: FUTURE + by } };
        tasks.update_one(doc! {}, change).await.unwrap();
    };
    let mut worker = Worker::new(&store, "e");
    let id = add_one(&*store).await;
    later("add_time", 0).await;
    let handout = worker.claim_one().await;
    assert!(get(&*store, id).await.start_time >= Some(Moment(FUTURE)));
    later("start_time", 1).await;
    worker.progress(id, Status::Running).await;
    later("report_time", 2).await;
    worker.finish(handout, success()).await;
    let task = get(&*store, id).await;
    let times = [
        Some(task.add_time),
        task.start_time,
        task.report_time,
        task.finish_time,
    ];
    assert!(times.is_sorted(), "{times:?}");
    assert!(task.finish_time >= Some(Moment(FUTURE + 2)), "{times:?}");
}
