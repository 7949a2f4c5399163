//! Slow searches, and their load on the server.

use std::sync::Arc;
use std::time::Duration;

use model::{Page, SortOrder, StepCommand, TaskId, TaskQuery};
use mongodb::bson::{Document, doc};
use store::contract::SCAN_LIMIT;
use store::contract::fixtures::{new_task, task_spec};
use store::mongo::MongoStore;
use store::{StoreError, TaskStore};

use super::replica_set::{TestAuthentication, TestReplicaSet, try_open};

/// The server's error code for a command that exceeded its time limit.
const MAX_TIME_EXPIRED: i32 = 50;

/// Sets a fail point for the `find` commands of a store. Returns how often the fail point was entered before.
async fn fail_finds(
    replica_set: &TestReplicaSet,
    mode: impl Into<mongodb::bson::Bson>,
    mut data: Document,
) -> i64 {
    data.extend(doc! { "failCommands": ["find"], "appName": "conclave" });
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
    let before = replica_set
        .client()
        .database("admin")
        .run_command(command)
        .await
        .unwrap();
    let count = before.get("count").unwrap();
    count.as_i64().or(count.as_i32().map(i64::from)).unwrap()
}

async fn add(store: &MongoStore, count: usize, command: &str) -> Vec<TaskId> {
    let tasks = (0..count).map(|_| {
        let mut spec = task_spec();
        spec.execute.command = StepCommand::Shell(command.into());
        new_task(spec)
    });
    let added = store.add(tasks.collect()).await.unwrap();
    added.iter().map(|added| added.id).collect()
}

fn list() -> TaskQuery {
    TaskQuery {
        order: SortOrder::Oldest,
        limit: 1000,
        ..TaskQuery::default()
    }
}

fn text(text: &str) -> TaskQuery {
    TaskQuery {
        text: Some(text.into()),
        ..list()
    }
}

fn ids(page: &Page) -> Vec<TaskId> {
    page.tasks.iter().map(|brief| brief.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_runs_out_of_time_continues_in_smaller_steps() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = replica_set.open("stopped").await;
    let tasks = add(&store, SCAN_LIMIT - 10, "needle").await;
    for query in [list(), text("needle")] {
        fail_finds(
            &replica_set,
            doc! { "times": 1 },
            doc! { "errorCode": MAX_TIME_EXPIRED },
        )
        .await;
        let page = store.search(query.clone()).await.unwrap();
        assert_eq!(
            (ids(&page), page.complete, page.next),
            (tasks.clone(), true, None)
        );
    }
    // If the server cannot examine even one task in time, the search fails.
    fail_finds(&replica_set, "alwaysOn", doc! { "errorCode": MAX_TIME_EXPIRED }).await;
    for query in [list(), text("needle")] {
        let result = store.search(query).await;
        assert!(
            matches!(result, Err(StoreError::SearchTimeout { .. })),
            "{result:?}"
        );
    }
}

/// A text that nearly matches at every position of `hay`: the server's own matcher takes 0.4 s for each task.
fn needle() -> String {
    format!("{}b", "a".repeat(1023))
}

fn hay() -> String {
    "a".repeat(60_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_nearly_matches_everywhere_is_found_fast() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let options = store::mongo::MongoStoreOptions {
        search_scan_limit: 10_000,
        ..replica_set.options("near")
    };
    let store = try_open(options).await.unwrap();
    for _ in 0..8 {
        add(&store, 20, &hay()).await;
    }
    let expected = add(&store, 1, &needle()).await;
    let page = store.search(text(&needle())).await.unwrap();
    assert_eq!((ids(&page), page.complete, page.next), (expected, true, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_text_searches_keep_their_permits() {
    const MAX_CONCURRENT_TEXT_SEARCHES: i64 = 4;
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = Arc::new(replica_set.open("given-up").await);
    let tasks = add(&store, 3, "true").await;
    let slow = doc! { "blockConnection": true, "blockTimeMS": 20_000, "namespace": "given-up.tasks" };
    let before = fail_finds(&replica_set, "alwaysOn", slow).await;
    // Each search continues although its caller has gone.
    for _ in 0..40 {
        let (store, query) = (store.clone(), text("true"));
        let search = tokio::spawn(async move { store.search(query).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        search.abort();
    }
    let after = fail_finds(&replica_set, "off", doc! {}).await;
    assert_eq!(
        after - before,
        MAX_CONCURRENT_TEXT_SEARCHES,
        "text searches at the same time"
    );
    // They are still running, and other searches are answered.
    let page = tokio::time::timeout(Duration::from_secs(10), store.search(list())).await;
    assert_eq!(ids(&page.expect("no answer to a list").unwrap()), tasks);
}
