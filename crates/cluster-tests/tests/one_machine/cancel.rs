//! Cancelling tasks in every status.

use std::time::Duration;

use cluster_tests::{RawHttpClient, wait_until};
use serde_json::{Value, json};

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(30);

async fn add(web: &RawHttpClient, task: &Value) -> String {
    let answer = web.post("/api/v1/tasks", task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let id = answer.json()["id"].as_str().expect("an id").to_string();
    format!("/api/v1/tasks/{id}")
}

async fn wait_for_status(web: &RawHttpClient, path: &str, status: &str) -> Value {
    wait_until(&format!("{path} to be {status}"), TIMEOUT, async || {
        let task = web.get(path).await.json();
        (task["status"] == status).then_some(task)
    })
    .await
}

fn assert_cancelled(task: &Value) {
    assert_eq!(
        (&task["status"], &task["done"]),
        (&json!("cancelled"), &json!(true)),
        "{task:#}"
    );
    assert_eq!(
        (&task["executor"], &task["result"]),
        (&Value::Null, &Value::Null),
        "{task:#}"
    );
    assert!(task["finish_time"].is_string(), "{task:#}");
}

#[tokio::test]
async fn a_task_is_cancelled_in_any_status() {
    let node = SingleNode::up(&["--slots", "1"]);
    let web = &node.web;
    let (ran, gate) = (node.gate("ran"), node.gate("gate"));
    let running = add(web, &json!({"execute": {"command": gate.wait()}})).await;
    let held = wait_for_status(web, &running, "running").await;
    assert!(held["executor"].is_string() && held["attempt"] == 1, "{held:#}");
    let pending = add(web, &json!({"execute": {"command": ran.opening()}})).await;

    for _ in 0..2 {
        let answer = web.delete(&pending).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_cancelled(&answer.json());
        assert_eq!(answer.json()["start_time"], Value::Null);
    }
    for _ in 0..2 {
        let answer = web.delete(&running).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_cancelled(&answer.json());
    }
    // The slot is free again, also after a cancelled compile step.
    let compiling = json!({"compile": {"command": gate.wait()}, "execute": {"command": ran.opening()}});
    let compiling = add(web, &compiling).await;
    wait_for_status(web, &compiling, "compiling").await;
    assert_eq!(web.delete(&compiling).await.status, 200);
    let after = web.run(&json!({"execute": {"command": "echo next"}})).await;
    assert_eq!(after["status"], "success");
    gate.open();

    // A cancelled task stays cancelled.
    for path in [&pending, &running, &compiling] {
        assert_cancelled(&web.get(path).await.json());
    }
    assert!(!ran.is_open(), "a cancelled task ran");
}

#[tokio::test]
async fn a_done_task_cannot_be_cancelled() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for (command, status) in [("true", "success"), ("false", "run_failed")] {
        let task = web.run(&json!({"execute": {"command": command}})).await;
        let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
        for _ in 0..2 {
            let problem = web.delete(&path).await.assert_problem(409);
            assert!(problem["detail"].as_str().unwrap().contains(status), "{problem}");
        }
        assert_eq!(web.get(&path).await.json(), task);
    }
    let unknown = "/api/v1/tasks/01890a5d-ac96-774b-bcce-b302099a8057";
    web.delete(unknown).await.assert_problem(404);
    web.delete("/api/v1/tasks/7")
        .await
        .assert_problem_at(422, "id", "UUID");
}

#[tokio::test]
async fn a_cancel_that_races_with_the_end_has_one_outcome() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    // Each is cancelled at another moment, from before its claim to after its end.
    for round in 0..60 {
        let path = add(web, &json!({"execute": {"command": format!("echo {round}")}})).await;
        for _ in 0..round % 6 {
            web.get("/healthz").await;
        }
        let answer = web.delete(&path).await;
        let told = match answer.status {
            200 => "cancelled",
            409 => "success",
            other => panic!("{other}: {}", answer.text()),
        };
        let task = web.get(&format!("{path}?wait=60")).await.json();
        assert_eq!(task["status"], told, "{task:#}");
        assert_eq!(task["result"].is_object(), told == "success");
    }
    let counts = web.get("/api/v1/stats").await.json()["counts"].clone();
    let done = counts["cancelled"].as_u64().unwrap() + counts["success"].as_u64().unwrap();
    assert_eq!(done, 60, "{counts}");
}
