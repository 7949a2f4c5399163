//! Retries: a task that repeats another one, and all tasks of a group that did not succeed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::SingleNode;

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

async fn retry(node: &SingleNode, id: &str) -> cluster_tests::HttpResponse {
    let request = node.web.request("POST", &format!("/api/v1/tasks/{id}/retry"));
    cluster_tests::HttpResponse::of(request).await
}

async fn when_done(node: &SingleNode, id: &str) -> Value {
    let task = node.web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(task["done"], true, "{task:#}");
    task
}

fn id(task: &Value) -> &str {
    task["id"].as_str().expect("an id")
}

#[tokio::test]
async fn a_retried_task_is_the_same_and_names_the_one_it_repeats() {
    let node = SingleNode::up(&["--slots", "1"]);
    let gate = node.gate("gate");
    // It succeeds the second time.
    let first = json!({
        "user": "ada",
        "priority": 7,
        "labels": {"k": "v"},
        "group": "g",
        "keep": ["out"],
        "attempts": 9,
        "source": {"main.sh": {"text": "#!/bin/sh\ncat big; echo $1 > out; [ -e \"$GATE\" ]", "executable": true}},
        "data": {"big": "x".repeat(100_000)},
        "compile": {"command": "cp data/big ."},
        "execute": {
            "command": ["./main.sh", "arg"],
            "env": {"GATE": node.system.folder.path().join("gate")},
            "limits": {"wall": "20s"},
            "input": "typed",
        },
    });
    let first = node.web.run(&first).await;
    assert_eq!(first["status"], "run_failed", "{first:#}");
    gate.open();
    let answer = retry(&node, id(&first)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let second = answer.json();
    assert_ne!(second["id"], first["id"]);
    assert_eq!(
        answer.header("location"),
        format!("/api/v1/tasks/{}", id(&second))
    );
    assert_eq!(second["retry_of"], first["id"]);
    let second = when_done(&node, id(&second)).await;
    assert_eq!(
        (&second["status"], &second["attempt"]),
        (&json!("success"), &json!(1))
    );
    for same in [
        "user", "priority", "labels", "group", "keep", "attempts", "source", "data", "compile", "execute",
    ] {
        assert_eq!(second[same], first[same], "{same}");
    }
    assert_eq!(second["result"]["files"], first["result"]["files"]);
    // The first stays as it was.
    let kept = node
        .web
        .get(&format!("/api/v1/tasks/{}", id(&first)))
        .await
        .json();
    assert_eq!(
        (&kept["status"], &kept["retry_of"]),
        (&json!("run_failed"), &Value::Null)
    );
    // A success may be retried, too, and a retry retried.
    let third = retry(&node, id(&second)).await.json();
    assert_eq!(third["retry_of"], second["id"]);
    when_done(&node, id(&third)).await;
    // The group counts only the newest.
    let group = node.web.get("/api/v1/groups/g?user=ada").await.json();
    assert_eq!(
        (&group["total"], &group["counts"]["success"]),
        (&json!(1), &json!(1)),
        "{group:#}"
    );

    let waits = json!({"execute": {"command": "sleep 600"}});
    let waits = node.web.post("/api/v1/tasks", &waits).await.json();
    let problem = retry(&node, id(&waits)).await.assert_problem(409);
    assert!(
        problem["detail"].as_str().expect("a detail").contains("done"),
        "{problem}"
    );
    node.web.delete(&format!("/api/v1/tasks/{}", id(&waits))).await;
    assert_eq!(retry(&node, id(&waits)).await.status, 201);
    retry(&node, UNKNOWN).await.assert_problem(404);
    let request = node.web.request("POST", "/api/v1/tasks/7/retry");
    let answer = cluster_tests::HttpResponse::of(request).await;
    assert!([404, 422].contains(&answer.status), "{}", answer.text());
}

#[tokio::test]
async fn a_group_retries_what_did_not_succeed() {
    let node = SingleNode::up(&["--slots", "2"]);
    let gate = node.gate("gate");
    let flaky = format!("[ -e {} ]", node.system.folder.path().join("gate").display());
    let commands = ["true", "true", &flaky, &flaky, &flaky, "exit 9"];
    let mut tasks: Vec<_> = commands
        .iter()
        .map(|command| json!({"user": "ada", "group": "g", "execute": {"command": command}}))
        .collect();
    // This one is cancelled, which is no success either.
    tasks.push(
        json!({"user": "ada", "group": "g", "priority": -1, "execute": {"command": "true"}, "id": UNKNOWN}),
    );
    let added = node
        .web
        .post("/api/v1/tasks/batch", &json!({"tasks": tasks}))
        .await;
    assert_eq!(added.status, 201, "{}", added.text());
    node.web.delete(&format!("/api/v1/tasks/{UNKNOWN}")).await;
    let wait = async || {
        let group = node.web.get("/api/v1/groups/g?user=ada&wait=60").await.json();
        assert_eq!(group["done"], 7, "{group:#}");
        group
    };
    let before = wait().await;
    let cancelled = before["counts"]["cancelled"].as_u64().unwrap_or(0);
    gate.open();
    let retry = async || {
        let request = node.web.request("POST", "/api/v1/groups/g/retry?user=ada");
        let answer = cluster_tests::HttpResponse::of(request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let ids = answer.json()["tasks"].as_array().expect("ids").clone();
        ids.iter()
            .map(|id| id.as_str().expect("an id").to_string())
            .collect::<Vec<_>>()
    };
    // Two at once retry each task only once.
    let (one, other) = tokio::join!(retry(), retry());
    let retried: BTreeSet<_> = one.into_iter().chain(other).collect();
    assert_eq!(retried.len() as u64, 4 + cancelled);
    for id in &retried {
        let task = when_done(&node, id).await;
        assert!(task["retry_of"].is_string(), "{task:#}");
        assert_eq!(task["group"], "g");
    }
    let after = wait().await;
    assert_eq!(
        (&after["counts"]["success"], &after["counts"]["run_failed"]),
        (&json!(6), &json!(1)),
        "{after:#}"
    );
    assert_eq!(after["reasons"], json!({"exited": 1}));
    // Only what failed again is retried again.
    let again = retry().await;
    assert_eq!(again.len(), 1);
    assert_eq!(when_done(&node, &again[0]).await["status"], "run_failed");
    let all = node.web.get("/api/v1/tasks?group=g&limit=100").await.json();
    assert_eq!(
        all["tasks"].as_array().expect("tasks").len(),
        7 + retried.len() + 1
    );
    let request = node.web.request("POST", "/api/v1/groups/unknown/retry?user=ada");
    cluster_tests::HttpResponse::of(request).await.assert_problem(404);
}
