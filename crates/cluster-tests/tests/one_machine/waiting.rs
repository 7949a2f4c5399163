//! Why a task waits, through the API, the command line and the task's page.

use std::time::Duration;

use cluster_tests::wait_until;
use serde_json::{Value, json};

use crate::harness::SingleNode;

async fn add(node: &SingleNode, task: Value) -> String {
    let answer = node.web.post("/api/v1/tasks", &task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

async fn waiting(node: &SingleNode, id: &str) -> Value {
    let answer = node.web.get(&format!("/api/v1/tasks/{id}/waiting")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Waits until the first reason is this one.
async fn waiting_for(node: &SingleNode, id: &str, reason: &str) -> Value {
    wait_until(reason, Duration::from_secs(60), async || {
        let found = waiting(node, id).await;
        (found["reasons"][0]["reason"] == reason).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_task_tells_that_all_slots_are_busy_and_how_many_are_before_it() {
    let node = SingleNode::up(&["--slots", "1"]);
    let gate = node.gate("gate");
    let running = add(&node, json!({"execute": {"command": gate.wait()}})).await;
    wait_until("the task runs", Duration::from_secs(60), async || {
        let task = node.web.get(&format!("/api/v1/tasks/{running}")).await.json();
        (task["status"] == "running").then_some(())
    })
    .await;
    let found = waiting(&node, &running).await;
    assert_eq!(
        found,
        json!({"id": running, "status": "running", "reasons": [], "queued_before": null, "more_queued_before": false})
    );
    let mut queued = vec![];
    for priority in [0, 0, 5] {
        let task = json!({"priority": priority, "execute": {"command": "true"}});
        queued.push(add(&node, task).await);
    }
    // An executor may take tasks in advance and give them back when they have waited for a moment.
    for (index, before) in [(0, 1), (1, 2), (2, 0)] {
        let found = wait_until("the place in the queue", Duration::from_secs(60), async || {
            let found = waiting_for(&node, &queued[index], "slots_busy").await;
            (found["queued_before"] == before).then_some(found)
        })
        .await;
        assert_eq!(found["status"], "pending");
        assert_eq!(
            found["reasons"][0]["message"],
            "The only slot of the executor that could run it is busy."
        );
    }
    let printed = node.cli.run(&["get", &queued[1]]).await;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        printed.contains("2 tasks are before it in the queue."),
        "{printed}"
    );
    gate.open();
    for id in &queued {
        node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await;
        let found = waiting(&node, id).await;
        assert_eq!(
            (&found["status"], &found["reasons"]),
            (&json!("success"), &json!([]))
        );
    }
}

#[tokio::test]
async fn a_task_tells_that_no_executor_has_its_language() {
    let node = SingleNode::up(&[]);
    let task =
        json!({"language": "python", "root": "nowhere", "source_code": "1", "wait_for_executor": true});
    let mut ids = vec![];
    for _ in 0..2 {
        ids.push(add(&node, task.clone()).await);
    }
    let found = waiting_for(&node, &ids[1], "no_tools").await;
    let message = found["reasons"][0]["message"].as_str().expect("a message");
    assert!(message.contains("python in the root nowhere"), "{message}");
    assert_eq!(found["queued_before"], 1);
    let unknown = "/api/v1/tasks/01890a5d-ac96-774b-bcce-b302099a8057/waiting";
    assert_eq!(node.web.get(unknown).await.status, 404);
    assert_eq!(node.web.get("/api/v1/tasks/7/waiting").await.status, 422);
}

#[tokio::test]
async fn a_task_tells_that_all_executors_are_drained() {
    let node = SingleNode::up(&["--slots", "1"]);
    let name = wait_until("an executor", Duration::from_secs(60), async || {
        let list = node.web.get("/api/v1/executors").await.json();
        let name = list["executors"][0]["name"].as_str();
        name.map(str::to_string)
    })
    .await;
    let drained = node
        .web
        .post(
            &format!("/api/v1/executors/{name}/drain"),
            &json!({"reason": "a new disk"}),
        )
        .await;
    assert_eq!(drained.status, 200, "{}", drained.text());
    let id = add(&node, json!({"execute": {"command": "true"}})).await;
    let found = waiting_for(&node, &id, "all_drained").await;
    assert_eq!(found["queued_before"], 0);
    let page = node.web.get(&format!("/tasks/{id}")).await.text();
    assert!(
        page.contains("is drained. The task waits until it is resumed."),
        "{page}"
    );
    let resumed = node
        .web
        .post(&format!("/api/v1/executors/{name}/resume"), &json!(null))
        .await;
    assert_eq!(resumed.status, 200, "{}", resumed.text());
    let done = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(done["status"], "success");
}
