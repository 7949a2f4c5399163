//! The change stream, when the server refuses to read it.

use std::time::Duration;

use model::TaskId;
use mongodb::bson::{Document, doc};
use store::contract::fixtures::add_task;
use store::{ChangeEvent, TaskStore};
use tokio::sync::broadcast::Receiver;

use super::replica_set::{TestAuthentication, TestReplicaSet};

/// Makes the server fail the commands of the change stream this many times, by a fail point.
async fn fail_stream_commands(replica_set: &TestReplicaSet, times: i32) {
    let admin = replica_set.client().database("admin");
    let command = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": times },
        "data": { "failCommands": ["aggregate", "getMore"], "errorCode": 96, "appName": "conclave" },
    };
    let before = admin.run_command(command).await.unwrap();
    // A command that was sent earlier may still succeed, so wait for the first failure.
    let refused = doc! {
        "waitForFailPoint": "failCommand",
        "timesEntered": times_entered(&before) + 1,
        "maxTimeMS": 60_000,
    };
    admin.run_command(refused).await.unwrap();
}

pub(crate) fn times_entered(answer: &Document) -> i64 {
    let count = answer.get("count").unwrap();
    count.as_i64().or(count.as_i32().map(i64::from)).unwrap()
}

/// Waits for an event about the task, or for the event that some were lost. Returns whether it was the former.
async fn receives_status_of(task: TaskId, changes: &mut Receiver<ChangeEvent>) -> bool {
    let received = async {
        loop {
            match changes.recv().await.unwrap() {
                ChangeEvent::StatusChanged { id, .. } if id == task => return true,
                ChangeEvent::EventsLost => return false,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), received)
        .await
        .expect("no event was received")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_resumes_where_it_ended_or_reports_lost_events() {
    let replica_set = TestReplicaSet::start(1, TestAuthentication::Disabled).await;
    let store = replica_set.open("stream").await;
    let mut changes = store.subscribe();

    fail_stream_commands(&replica_set, 3).await;
    let task = add_task(&store).await;
    assert!(
        receives_status_of(task, &mut changes).await,
        "the stream was not resumed"
    );

    fail_stream_commands(&replica_set, 8).await;
    let task = add_task(&store).await;
    assert!(
        !receives_status_of(task, &mut changes).await,
        "the stream was resumed although it failed too often"
    );
    let task = add_task(&store).await;
    assert!(receives_status_of(task, &mut changes).await);
}
