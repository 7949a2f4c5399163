//! Labels of tasks: shown with the task and in lists, and searched by.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{SingleNode, percent_encoded};

async fn add(node: &SingleNode, task: &Value) -> String {
    let answer = node.web.post("/api/v1/tasks", task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

async fn found(node: &SingleNode, query: &str) -> Vec<Value> {
    let answer = node.web.get(&format!("/api/v1/tasks?order=oldest&{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    answer.json()["tasks"].as_array().expect("tasks").clone()
}

async fn commands(node: &SingleNode, query: &str) -> Vec<String> {
    let tasks = found(node, query).await;
    let command = |task: &Value| task["command"].as_str().expect("a command").to_string();
    tasks.iter().map(command).collect()
}

#[tokio::test]
async fn tasks_are_found_by_labels_and_group() {
    let node = SingleNode::up(&["--slots", "0"]);
    for (command, labels, group) in [
        (
            "one",
            json!({"assignment": "hw3", "course/term": "å 2026: b"}),
            json!("sweep-17"),
        ),
        (
            "two",
            json!({"assignment": "hw3", "empty": ""}),
            json!("sweep 18"),
        ),
        ("three", json!({"assignment": "hw33"}), Value::Null),
        ("four", json!({}), json!("sweep-17")),
    ] {
        let task = json!({"labels": labels, "group": group, "execute": {"command": command}});
        let id = add(&node, &task).await;
        let shown = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
        assert_eq!((&shown["labels"], &shown["group"]), (&labels, &group));
        let listed = &found(&node, &format!("id={id}")).await[0];
        assert_eq!((&listed["labels"], &listed["group"]), (&labels, &group));
    }
    // A task without them shows that it has none.
    let id = add(&node, &json!({"execute": {"command": "five"}})).await;
    let shown = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
    assert_eq!(
        (&shown["labels"], &shown["group"], &shown["retry_of"]),
        (&json!({}), &Value::Null, &Value::Null)
    );

    let wide = format!("label={}", percent_encoded("course/term:å 2026: b"));
    for (query, expected) in [
        ("label=assignment:hw3", &["one", "two"][..]),
        ("label=assignment:hw33", &["three"]),
        ("label=assignment:hw", &[]),
        ("label=assignment:", &[]),
        ("label=empty:", &["two"]),
        (&wide, &["one"]),
        ("label=assignment:hw3&label=empty:", &["two"]),
        ("label=assignment:hw3&label=empty:x", &[]),
        ("group=sweep-17", &["one", "four"]),
        ("group=sweep%2018", &["two"]),
        ("group=sweep-17&label=assignment:hw3", &["one"]),
        ("group=nobody", &[]),
        ("label=assignment:hw3&status=pending&text=tw", &["two"]),
        ("label=assignment:hw3&status=running", &[]),
    ] {
        assert_eq!(commands(&node, query).await, expected, "{query}");
    }
    // Pages of a filtered list.
    let page = node
        .web
        .get("/api/v1/tasks?label=assignment:hw3&limit=1")
        .await
        .json();
    let next = page["next"].as_str().expect("a next page");
    let rest = format!("/api/v1/tasks?label=assignment:hw3&limit=1&after={next}");
    let rest = node.web.get(&rest).await.json();
    assert_eq!(page["tasks"][0]["command"], "two");
    assert_eq!(rest["tasks"][0]["command"], "one");

    // An empty parameter is the same as none, as forms send it.
    assert_eq!(commands(&node, "label=&group=").await.len(), 5);
    for query in ["label=assignment", "label=a%0Ab:x", "group=a%2Fb"] {
        let answer = node.web.get(&format!("/api/v1/tasks?{query}")).await;
        answer.assert_problem(422);
    }
}

#[tokio::test]
async fn invalid_labels_and_groups_are_refused() {
    let node = SingleNode::up(&["--slots", "0"]);
    let many: BTreeMap<String, String> = (0..17).map(|n| (format!("k{n}"), String::new())).collect();
    for part in [
        json!(many),
        json!({"": "x"}),
        json!({"k".repeat(65): "x"}),
        json!({"a:b": "x"}),
        json!({"a=b": "x"}),
        json!({"a": "x\n"}),
        json!({"a": "x".repeat(257)}),
    ] {
        let task = json!({"labels": part, "execute": {"command": "true"}});
        let problem = node.web.post("/api/v1/tasks", &task).await.assert_problem(422);
        let named = problem["field"].as_str().expect("a field");
        assert!(named.starts_with("labels"), "{part}: {problem}");
    }
    for labels in [json!({"a": 1}), json!(["a"]), json!("a"), json!({"a": null})] {
        let task = json!({"labels": labels, "execute": {"command": "true"}});
        node.web.post("/api/v1/tasks", &task).await.assert_problem(422);
    }
    for group in ["", "a/b", "..", ".", "a\nb", &"g".repeat(1000)] {
        let task = json!({"group": group, "execute": {"command": "true"}});
        let problem = node.web.post("/api/v1/tasks", &task).await.assert_problem(422);
        assert_eq!(problem["field"], "group", "{group:?}: {problem}");
    }
    let sixteen: BTreeMap<_, _> = many.into_iter().take(16).collect();
    add(&node, &json!({"labels": sixteen, "execute": {"command": "true"}})).await;
    assert_eq!(found(&node, "").await.len(), 1);
}

#[tokio::test]
async fn lists_show_why_a_task_ended() {
    let node = SingleNode::up(&["--slots", "1"]);
    let gate = node.gate("gate");
    for (task, reason) in [
        (json!({"execute": {"command": "true"}}), json!("exited")),
        (json!({"execute": {"command": "exit 3"}}), json!("exited")),
        (json!({"execute": {"command": "kill -9 $$"}}), json!("signalled")),
        (
            json!({"execute": {"command": "sleep 600", "limits": {"wall": "100ms"}}}),
            json!("wall_limit"),
        ),
        (
            json!({"compile": {"command": "yes", "limits": {"output": 10}}, "execute": {"command": "true"}}),
            json!("output_limit"),
        ),
    ] {
        let done = node.web.run(&task).await;
        let id = done["id"].as_str().expect("an id");
        let listed = &found(&node, &format!("id={id}")).await[0];
        assert_eq!(listed["reason"], reason, "{task}");
    }
    let waits = add(&node, &json!({"execute": {"command": gate.wait()}})).await;
    let cancelled = add(&node, &json!({"execute": {"command": "true"}})).await;
    node.web.delete(&format!("/api/v1/tasks/{cancelled}")).await;
    for id in [waits, cancelled] {
        let listed = &found(&node, &format!("id={id}")).await[0];
        assert_eq!(listed["reason"], Value::Null, "{listed}");
    }
    for (reason, count) in [("exited", 2), ("wall_limit", 1), ("memory_limit", 0)] {
        assert_eq!(
            found(&node, &format!("reason={reason}")).await.len(),
            count,
            "{reason}"
        );
    }
    gate.open();
}
