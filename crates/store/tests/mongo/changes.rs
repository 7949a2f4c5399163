//! The stream of changes, when the server does not let it be read.

use std::time::Duration;

use model::TaskId;
use mongodb::bson::{Document, doc};
use store::contract::sample::add_one;
use store::{Change, TaskStore};
use tokio::sync::broadcast::Receiver;

use super::set::{Guard, Set};

/// The server refuses to open the stream and to read on so many times, as it does it on no account of its own.
async fn refuse(set: &Set, times: i32) {
    let admin = set.client().database("admin");
    let command = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": times },
        "data": { "failCommands": ["aggregate", "getMore"], "errorCode": 96, "appName": "conclave" },
    };
    let before = admin.run_command(command).await.unwrap();
    // A question that was asked earlier may still be answered.
    let refused = doc! {
        "waitForFailPoint": "failCommand",
        "timesEntered": entered(&before) + 1,
        "maxTimeMS": 60_000,
    };
    admin.run_command(refused).await.unwrap();
}

fn entered(answer: &Document) -> i64 {
    let count = answer.get("count").unwrap();
    count.as_i64().or(count.as_i32().map(i64::from)).unwrap()
}

/// Whether it was told of the task, or that something was lost.
async fn is_told_of(task: TaskId, changes: &mut Receiver<Change>) -> bool {
    let told = async {
        loop {
            match changes.recv().await.unwrap() {
                Change::Moved { id, .. } if id == task => return true,
                Change::Lost => return false,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told)
        .await
        .expect("nothing was told")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_it_ended_or_says_that_it_cannot() {
    let set = Set::start(1, Guard::Open).await;
    let store = set.open("stream").await;
    let mut changes = store.changes();

    refuse(&set, 3).await;
    let task = add_one(&store).await;
    assert!(is_told_of(task, &mut changes).await, "its place was given up");

    refuse(&set, 8).await;
    let task = add_one(&store).await;
    assert!(
        !is_told_of(task, &mut changes).await,
        "it never gave up its place"
    );
    let task = add_one(&store).await;
    assert!(is_told_of(task, &mut changes).await);
}
