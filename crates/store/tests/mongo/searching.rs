//! Searches that take long, and their load on the server.

use std::sync::Arc;
use std::time::Duration;

use model::{Command, Order, Page, Query, TaskId};
use mongodb::bson::{Document, doc};
use store::contract::WINDOW;
use store::contract::sample::{new, spec};
use store::mongo::MongoStore;
use store::{StoreError, TaskStore};

use super::set::{Guard, Set, try_open};

/// The server's answer to a command that took longer than it may.
const TOO_LONG: i32 = 50;

/// What the server does with the finds of a store, until `mode` is over or it is told otherwise. Answers how often it
/// has done what it was told before.
async fn fail_finds(set: &Set, mode: impl Into<mongodb::bson::Bson>, mut how: Document) -> i64 {
    how.extend(doc! { "failCommands": ["find"], "appName": "conclave" });
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": how };
    let before = set.client().database("admin").run_command(command).await.unwrap();
    let count = before.get("count").unwrap();
    count.as_i64().or(count.as_i32().map(i64::from)).unwrap()
}

async fn add(store: &MongoStore, count: usize, command: &str) -> Vec<TaskId> {
    let tasks = (0..count).map(|_| {
        let mut spec = spec();
        spec.execute.command = Command::Shell(command.into());
        new(spec)
    });
    let added = store.add(tasks.collect()).await.unwrap();
    added.iter().map(|added| added.id).collect()
}

fn list() -> Query {
    Query {
        order: Order::Oldest,
        limit: 1000,
        ..Query::default()
    }
}

fn text(text: &str) -> Query {
    Query {
        text: Some(text.into()),
        ..list()
    }
}

fn ids(page: &Page) -> Vec<TaskId> {
    page.tasks.iter().map(|brief| brief.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_was_stopped_goes_on_in_smaller_steps() {
    let set = Set::start(1, Guard::Open).await;
    let store = set.open("stopped").await;
    let tasks = add(&store, WINDOW - 10, "needle").await;
    for query in [list(), text("needle")] {
        fail_finds(&set, doc! { "times": 1 }, doc! { "errorCode": TOO_LONG }).await;
        let page = store.search(query.clone()).await.unwrap();
        assert_eq!(
            (ids(&page), page.complete, page.next),
            (tasks.clone(), true, None)
        );
    }
    // Where not even one task can be looked at, the server is to be asked later.
    fail_finds(&set, "alwaysOn", doc! { "errorCode": TOO_LONG }).await;
    for query in [list(), text("needle")] {
        let stopped = store.search(query).await;
        assert!(
            matches!(stopped, Err(StoreError::SearchTooLong { .. })),
            "{stopped:?}"
        );
    }
}

/// It nearly matches everywhere in `hay`: the server's own matcher takes 0.4 s for each task.
fn needle() -> String {
    format!("{}b", "a".repeat(1023))
}

fn hay() -> String {
    "a".repeat(60_000)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_nearly_matches_everywhere_is_found_at_once() {
    let set = Set::start(1, Guard::Open).await;
    let options = store::mongo::Options {
        search_window: 10_000,
        ..set.options("near")
    };
    let store = try_open(options).await.unwrap();
    for _ in 0..8 {
        add(&store, 20, &hay()).await;
    }
    let wanted = add(&store, 1, &needle()).await;
    let page = store.search(text(&needle())).await.unwrap();
    assert_eq!((ids(&page), page.complete, page.next), (wanted, true, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_searches_whose_callers_left_keep_their_places() {
    const AT_ONCE: i64 = 4;
    let set = Set::start(1, Guard::Open).await;
    let store = Arc::new(set.open("given-up").await);
    let tasks = add(&store, 3, "true").await;
    let slow = doc! { "blockConnection": true, "blockTimeMS": 20_000, "namespace": "given-up.tasks" };
    let before = fail_finds(&set, "alwaysOn", slow).await;
    // Each is given up by its caller, and goes on all the same.
    for _ in 0..40 {
        let (store, query) = (store.clone(), text("true"));
        let search = tokio::spawn(async move { store.search(query).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        search.abort();
    }
    let after = fail_finds(&set, "off", doc! {}).await;
    assert_eq!(after - before, AT_ONCE, "searches for a text at once");
    // They are still running; lists are answered beside them.
    let page = tokio::time::timeout(Duration::from_secs(10), store.search(list())).await;
    assert_eq!(ids(&page.expect("no answer to a list").unwrap()), tasks);
}
