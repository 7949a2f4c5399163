//! Opening a store, and the errors that name what is wrong.

use std::sync::Arc;

use futures::future::join_all;
use model::{Capacity, TaskStatus};
use mongodb::bson::{Document, doc};
use store::contract::fake_executor::{CAPACITY, FakeExecutor};
use store::contract::fixtures::{add_task, get_task, success};
use store::contract::lost_attempts::report_platform_failures;
use store::mongo::{MongoCredentials, MongoStore, MongoStoreOptions};
use store::{StoreError, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet, try_open};

async fn open_error(options: MongoStoreOptions) -> StoreError {
    let Err(error) = try_open(options).await else {
        panic!("the store was opened");
    };
    error
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opens_only_with_the_right_credentials_and_names() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Required).await;

    // All judicators of a new cluster open it at the same time.
    let stores = join_all((0..3).map(|_| replica_set.open("conclave"))).await;
    let id = add_task(&stores[0]).await;
    let store: Arc<dyn TaskStore> = Arc::new(stores.into_iter().nth(2).unwrap());
    let mut executor = FakeExecutor::new(&store, "e");
    let attempt_id = executor.claim_one().await;
    executor.finish(attempt_id, success()).await;
    assert_eq!(get_task(&*store, id).await.status, TaskStatus::Success);
    drop((store, executor));

    let wrong_password = MongoStoreOptions {
        credentials: Some(MongoCredentials {
            user: "conclave".into(),
            password: "another".into(),
        }),
        ..replica_set.options("conclave")
    };
    let error = open_error(wrong_password).await;
    assert!(
        matches!(&error, StoreError::AuthenticationFailed { .. }),
        "{error:?}"
    );
    assert!(
        !error.is_transient() && error.to_string().contains("'conclave'"),
        "{error}"
    );

    let no_credentials = MongoStoreOptions {
        credentials: None,
        ..replica_set.options("conclave")
    };
    let error = open_error(no_credentials).await;
    assert!(
        matches!(error, StoreError::AuthenticationFailed { .. }),
        "{error:?}"
    );

    let other_set = MongoStoreOptions {
        replica_set: "other".into(),
        ..replica_set.options("conclave")
    };
    let error = open_error(other_set).await;
    assert!(
        matches!(&error, StoreError::WrongReplicaSet { expected, found, .. } if expected == "other" && found == "test"),
        "{error:?}"
    );

    let no_server = MongoStoreOptions {
        addresses: vec!["127.0.0.1:1".into()],
        ..replica_set.options("conclave")
    };
    let error = MongoStore::open(no_server).await.err().unwrap();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    assert!(
        error.is_transient() && error.to_string().contains("127.0.0.1:1"),
        "{error}"
    );

    let invalid_address = MongoStoreOptions {
        addresses: vec!["127.0.0.1:port".into()],
        ..replica_set.options("conclave")
    };
    let error = open_error(invalid_address).await;
    assert!(matches!(error, StoreError::InvalidAddress { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_refused_and_unchanged() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = replica_set.open("conclave").await;
    let id = add_task(&store).await;
    drop(store);
    let meta = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("meta");
    // A newer version that this program can still use, during a rolling upgrade.
    let change = doc! { "$set": { "version": 7_i64 } };
    meta.update_one(doc! { "_id": "schema" }, change).await.unwrap();
    drop(replica_set.open("conclave").await);
    let schema = meta.find_one(doc! { "_id": "schema" }).await.unwrap().unwrap();
    assert_eq!(schema.get_i64("version").unwrap(), 7);
    assert_eq!(schema.get_i64("reader").unwrap(), 3);

    let change = doc! { "$set": { "reader": 7_i64 } };
    meta.update_one(doc! { "_id": "schema" }, change).await.unwrap();
    let error = open_error(replica_set.options("conclave")).await;
    assert!(
        matches!(error, StoreError::SchemaTooNew { found: 7, .. }),
        "{error:?}"
    );
    // Versions before 3 do not say what can use the database.
    let change = doc! { "$unset": { "reader": "" } };
    meta.update_one(doc! { "_id": "schema" }, change).await.unwrap();
    let error = open_error(replica_set.options("conclave")).await;
    assert!(
        matches!(error, StoreError::SchemaTooNew { found: 7, .. }),
        "{error:?}"
    );
    let change = doc! { "$set": { "version": 1_i64 } };
    meta.update_one(doc! { "_id": "schema" }, change).await.unwrap();
    assert_eq!(
        get_task(&replica_set.open("conclave").await, id).await.status,
        TaskStatus::Pending
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn platform_failures_add_up_across_judicators() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let id = add_task(&*store).await;
    let mut executor = FakeExecutor::new(&store, "e");
    report_platform_failures(&mut executor, 0..4).await;
    executor.expire().await;
    drop((executor, store));
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    report_platform_failures(&mut FakeExecutor::new(&store, "e"), 4..10).await;
    assert_eq!(get_task(&*store, id).await.status, TaskStatus::SystemError);
}

/// A judicator of an older version adds tasks without the fields of the resource request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_without_a_resource_request_is_assigned_to_any_executor() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store: Arc<dyn TaskStore> = Arc::new(replica_set.open("conclave").await);
    let mut large = FakeExecutor::new(&store, "large");
    large.claim(0).await;
    let mut small = FakeExecutor::new(&store, "small");
    small.capacity = Some(Capacity {
        memory: 2 << 30,
        ..CAPACITY
    });
    let id = add_task(&*store).await;
    assert_eq!(small.claim(1).await.len(), 0);
    let tasks = replica_set
        .client()
        .database("conclave")
        .collection::<Document>("tasks");
    let change = doc! { "$unset": { "need_memory": "", "need_processes": "" } };
    tasks.update_one(doc! {}, change).await.unwrap();
    assert_eq!(small.claim_one().await.task, id);
}
