//! Event streams of tasks: every status in order, until the end.

use std::time::Duration;

use api::{HttpClientError, TaskEvent};
use cluster_tests::{TestSystem, wait_until};
use futures::future::join_all;
use futures::{Stream, StreamExt, TryStreamExt};
use model::{TaskId, TaskStatus};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(30);

async fn next(
    events: &mut (impl Stream<Item = Result<TaskEvent, HttpClientError>> + Unpin),
) -> Option<TaskEvent> {
    let next = timeout(TIMEOUT, events.next()).await.expect("an event in time");
    next.map(|event| event.expect("a good event"))
}

async fn all(system: &TestSystem, id: TaskId) -> Vec<TaskEvent> {
    let events = system.client.events(id).await.expect("events");
    let all = timeout(TIMEOUT, events.try_collect()).await;
    all.expect("an end in time").expect("good events")
}

fn assert_legal(events: &[TaskEvent]) {
    for pair in events.windows(2) {
        assert!(pair[0].status.may_become(pair[1].status), "{events:?}");
        assert!(pair[0].time <= pair[1].time, "{events:?}");
    }
    let done: Vec<_> = events.iter().map(|event| event.done).collect();
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{events:?}");
    assert_eq!(done.last(), Some(&true), "{events:?}");
}

#[tokio::test]
async fn every_status_is_sent_in_order() {
    let node = SingleNode::up(&["--slots", "1"]);
    let (before, compile, run) = (node.gate("before"), node.gate("compile"), node.gate("run"));
    let system = &node.system;
    system.add(json!({"execute": {"command": before.wait()}})).await;
    let task = system
        .add(json!({
            "compile": {"command": compile.wait()},
            "execute": {"command": run.wait()},
        }))
        .await;
    let mut events = system.client.events(task.id).await.unwrap();
    let mut seen = Vec::new();
    for (status, gate) in [
        (TaskStatus::Pending, &before),
        (TaskStatus::Compiling, &compile),
        (TaskStatus::Running, &run),
    ] {
        let event = next(&mut events).await.expect("the task goes on");
        assert_eq!((event.id, event.status, event.done), (task.id, status, false));
        assert_eq!(
            event.executor.is_some(),
            status != TaskStatus::Pending,
            "{event:?}"
        );
        seen.push(event);
        gate.open();
    }
    seen.push(next(&mut events).await.expect("the end"));
    assert_eq!(seen[3].status, TaskStatus::Success);
    assert_eq!(seen[3].executor, None);
    assert!(next(&mut events).await.is_none(), "something came after the end");
    assert_legal(&seen);

    // A stream of a done task has one event.
    let later = all(system, task.id).await;
    assert_eq!(later.len(), 1);
    assert_eq!((later[0].status, later[0].time), (seen[3].status, seen[3].time));
}

#[tokio::test]
async fn many_streams_of_many_tasks_end_with_the_final_status() {
    let node = SingleNode::up(&[]);
    let gate = node.gate("gate");
    let system = &node.system;
    let blockers = [0, 1].map(|_| json!({"execute": {"command": gate.wait()}}));
    for blocker in blockers {
        system.add(blocker).await;
    }
    let mut followers = Vec::new();
    for (command, end) in [("true", TaskStatus::Success), ("false", TaskStatus::RunFailed)] {
        for _ in 0..10 {
            let task = system
                .add(json!({"compile": {"command": "true"}, "execute": {"command": command}}))
                .await;
            let follow = async move |system: &TestSystem| {
                let events = all(system, task.id).await;
                assert_legal(&events);
                assert_eq!(events.last().unwrap().status, end);
            };
            followers.push(follow);
        }
    }
    let following = join_all(
        followers
            .iter()
            .flat_map(|follow| [follow(system), follow(system)]),
    );
    let (_, ()) = tokio::join!(following, async { gate.open() });
}

#[tokio::test]
async fn the_stream_has_the_format_of_server_sent_events() {
    let node = SingleNode::up(&["--slots", "1"]);
    let web = &node.web;
    let gate = node.gate("gate");
    let task = web
        .post("/api/v1/tasks", &json!({"execute": {"command": gate.wait()}}))
        .await
        .json();
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    wait_until("the task to run", TIMEOUT, async || {
        (web.get(&path).await.json()["status"] == "running").then_some(())
    })
    .await;
    let mut stream = web
        .request("GET", &format!("{path}/events"))
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), 200);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    assert_eq!(stream.headers()["cache-control"], "no-cache");
    // The first event is sent at once, with the current status.
    let first = stream.chunk().await.unwrap().unwrap();
    let mut text = String::from_utf8(first.to_vec()).unwrap();
    assert!(text.starts_with("event: status\ndata: {"), "{text}");
    web.delete(&path).await;
    text.push_str(&stream.text().await.unwrap());
    let blocks: Vec<Value> = text
        .split_terminator("\n\n")
        .filter_map(|block| block.strip_prefix("event: status\ndata: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let statuses: Vec<_> = blocks
        .iter()
        .map(|event| event["status"].as_str().unwrap())
        .collect();
    assert_eq!(statuses, ["running", "cancelled"]);
    let event = &blocks[1];
    assert_eq!((&event["id"], &event["done"]), (&task["id"], &json!(true)));
    assert!(
        event["time"].as_str().unwrap().ends_with('Z') && event["executor"].is_null(),
        "{event}"
    );

    web.get("/api/v1/tasks/01890a5d-ac96-774b-bcce-b302099a8057/events")
        .await
        .assert_problem(404);
    web.get("/api/v1/tasks/x/events")
        .await
        .assert_problem_at(422, "id", "UUID");
    // A client that disconnects affects no other.
    let gone = web
        .request("GET", &format!("{path}/events"))
        .send()
        .await
        .unwrap();
    drop(gone);
    assert_eq!(
        web.run(&json!({"execute": {"command": "true"}})).await["status"],
        "success"
    );
}
