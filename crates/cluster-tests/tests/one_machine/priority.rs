//! The order in which tasks run: higher priority first, then older.

use serde_json::json;

use crate::harness::SingleNode;

#[tokio::test]
async fn higher_priority_runs_first_then_older() {
    let node = SingleNode::up(&["--slots", "1"]);
    let web = &node.web;
    let gate = node.gate("gate");
    let list = node.system.folder.path().join("list");
    let first = web
        .post("/api/v1/tasks", &json!({"execute": {"command": gate.wait()}}))
        .await;
    assert_eq!(first.status, 201);
    let task = |(name, priority): (&str, i32)| {
        let command = format!("echo {name} >> {}", list.display());
        json!({"priority": priority, "execute": {"command": command}})
    };
    let wanted = [
        ("e", 0),
        ("h", -5),
        ("c", 7),
        ("f", 0),
        ("a", i32::MAX),
        ("d", 7),
        ("i", i32::MIN),
        ("g", -1),
        ("b", 8),
    ];
    let batch = json!({"tasks": wanted.map(task)});
    let added = web.post("/api/v1/tasks/batch", &batch).await.json();
    gate.open();
    for task in added["tasks"].as_array().unwrap() {
        let path = format!("/api/v1/tasks/{}?wait=60", task["id"].as_str().unwrap());
        assert_eq!(web.get(&path).await.json()["status"], "success");
    }
    let order = std::fs::read_to_string(&list).unwrap();
    assert_eq!(order.split_whitespace().collect::<String>(), "abcdefghi");
}
