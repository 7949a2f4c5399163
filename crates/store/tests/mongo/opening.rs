//! Opening a store, and being told what is wrong.

use std::sync::Arc;

use futures::future::join_all;
use model::{Capacity, Status};
use mongodb::bson::{Document, doc};
use store::contract::losing::report_platform_failures;
use store::contract::sample::{add_one, get, success};
use store::contract::worker::{CAPACITY, Worker};
use store::mongo::{Login, MongoStore, Options};
use store::{StoreError, TaskStore};

use super::set::{Guard, Set, try_open};

async fn refused(options: Options) -> StoreError {
    let Err(error) = try_open(options).await else {
        panic!("it was opened");
    };
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_the_login_and_the_names_right_gets_in() {
    let set = Set::start(1, Guard::Login).await;

    // All three judicators of a new cluster at once.
    let stores = join_all((0..3).map(|_| set.open("conclave"))).await;
    let id = add_one(&stores[0]).await;
    let store: Arc<dyn TaskStore> = Arc::new(stores.into_iter().nth(2).unwrap());
    let mut worker = Worker::new(&store, "e");
    let handout = worker.claim_one().await;
    worker.finish(handout, success()).await;
    assert_eq!(get(&*store, id).await.status, Status::Success);
    drop((store, worker));

    let wrong_password = Options {
        login: Some(Login {
            user: "conclave".into(),
            password: "another".into(),
        }),
        ..set.options("conclave")
    };
    let error = refused(wrong_password).await;
    assert!(matches!(&error, StoreError::Login { .. }), "{error:?}");
    assert!(
        !error.is_transient() && error.to_string().contains("'conclave'"),
        "{error}"
    );

    let nobody = Options {
        login: None,
        ..set.options("conclave")
    };
    let error = refused(nobody).await;
    assert!(matches!(error, StoreError::Login { .. }), "{error:?}");

    let other_set = Options {
        set: "other".into(),
        ..set.options("conclave")
    };
    let error = refused(other_set).await;
    assert!(
        matches!(&error, StoreError::OtherSet { expected, found, .. } if expected == "other" && found == "test"),
        "{error:?}"
    );

    let nowhere = Options {
        addresses: vec!["127.0.0.1:1".into()],
        ..set.options("conclave")
    };
    let error = MongoStore::open(nowhere).await.err().unwrap();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    assert!(
        error.is_transient() && error.to_string().contains("127.0.0.1:1"),
        "{error}"
    );

    let no_address = Options {
        addresses: vec!["127.0.0.1:port".into()],
        ..set.options("conclave")
    };
    let error = refused(no_address).await;
    assert!(matches!(error, StoreError::Address { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_left_alone() {
    let set = Set::start(1, Guard::Open).await;
    let store = set.open("conclave").await;
    let id = add_one(&store).await;
    drop(store);
    let meta = set.client().database("conclave").collection::<Document>("meta");
    let change = doc! { "$set": { "version": 7_i64 } };
    meta.update_one(doc! { "_id": "schema" }, change).await.unwrap();
    let error = refused(set.options("conclave")).await;
    assert!(matches!(error, StoreError::TooNew { found: 7, .. }), "{error:?}");
    let change = doc! { "$set": { "version": 1_i64 } };
    meta.update_one(doc! { "_id": "schema" }, change).await.unwrap();
    assert_eq!(get(&set.open("conclave").await, id).await.status, Status::Pending);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn platform_losses_are_counted_on_by_another_judicator() {
    let set = Set::start(1, Guard::Open).await;
    let store: Arc<dyn TaskStore> = Arc::new(set.open("conclave").await);
    let id = add_one(&*store).await;
    let mut worker = Worker::new(&store, "e");
    report_platform_failures(&mut worker, 0..4).await;
    worker.die().await;
    drop((worker, store));
    let store: Arc<dyn TaskStore> = Arc::new(set.open("conclave").await);
    report_platform_failures(&mut Worker::new(&store, "e"), 4..10).await;
    assert_eq!(get(&*store, id).await.status, Status::SystemError);
}

/// One that a judicator of an older version has added does not say what it needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_without_a_need_is_handed_to_any_executor() {
    let set = Set::start(1, Guard::Open).await;
    let store: Arc<dyn TaskStore> = Arc::new(set.open("conclave").await);
    let mut large = Worker::new(&store, "large");
    large.claim(0).await;
    let mut small = Worker::new(&store, "small");
    small.capacity = Some(Capacity {
        memory: 2 << 30,
        ..CAPACITY
    });
    let id = add_one(&*store).await;
    assert_eq!(small.claim(1).await.len(), 0);
    let tasks = set.client().database("conclave").collection::<Document>("tasks");
    let change = doc! { "$unset": { "need_memory": "", "need_processes": "" } };
    tasks.update_one(doc! {}, change).await.unwrap();
    assert_eq!(small.claim_one().await.task, id);
}
