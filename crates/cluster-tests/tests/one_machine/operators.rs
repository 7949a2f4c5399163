//! With tokens, only operators drain executors and see the tasks of all users.

use cluster_tests::{HttpResponse, TestSystem};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";
const EVE: &str = "eve-operates-with-it";

fn node() -> SingleNode {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{ADA} ada\n{BOB} bob\n{EVE} eve\n")).expect("a file");
    let flags = ["--name", "exec-1", "--tokens-file", text(&tokens)];
    SingleNode::on(
        system,
        &[&flags[..], &["--set", "gateway.operators=eve, root"]].concat(),
    )
}

async fn send(node: &SingleNode, token: &str, method: &str, path: &str, body: Option<Value>) -> HttpResponse {
    let request = node.web.request(method, path).bearer_auth(token);
    HttpResponse::of(match &body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

async fn run(node: &SingleNode, token: &str, task: Value) -> Value {
    let added = send(node, token, "POST", "/api/v1/tasks?wait=60", Some(task)).await;
    assert_eq!(added.status, 201, "{}", added.text());
    added.json()
}

#[tokio::test]
async fn only_operators_drain_and_resume() {
    let node = node();
    run(&node, ADA, json!({"execute": {"command": "true"}})).await;
    let (drain, resume) = (
        "/api/v1/executors/exec-1/drain",
        "/api/v1/executors/exec-1/resume",
    );
    let reason = || Some(json!({"reason": "new disk"}));
    for (path, body) in [(drain, reason()), (resume, None), (drain, Some(json!({})))] {
        let refused = send(&node, ADA, "POST", path, body.clone())
            .await
            .assert_problem(403);
        let detail = refused["detail"].as_str().unwrap();
        assert!(
            detail.contains("'ada' may not") && detail.contains("gateway.operators"),
            "{detail}"
        );
        assert_eq!(refused["type"], "/api/docs#not-operator");
        send(&node, "wrong-token-of-ours", "POST", path, body)
            .await
            .assert_problem(401);
    }
    let drained = send(&node, EVE, "POST", drain, reason()).await;
    assert_eq!(drained.status, 200, "{}", drained.text());
    assert_eq!(drained.json()["drain"]["by"], "eve");
    let listed = send(&node, ADA, "GET", "/api/v1/executors", None).await.json();
    assert_eq!(listed["executors"][0]["drain"]["by"], "eve");
    let resumed = send(&node, EVE, "POST", resume, None).await;
    assert_eq!((resumed.status, &resumed.json()["drain"]), (200, &Value::Null));
}

#[tokio::test]
async fn operators_see_and_change_the_tasks_of_all_users() {
    let node = node();
    let task = json!({"execute": {"command": "echo secret; exit 3"}, "group": "g", "keep": ["*"]});
    let of_ada = run(&node, ADA, task.clone()).await;
    let of_eve = run(&node, EVE, task).await;
    assert_eq!((&of_ada["user"], &of_eve["user"]), (&json!("ada"), &json!("eve")));
    let id = of_ada["id"].as_str().unwrap();
    for path in [
        format!("/api/v1/tasks/{id}"),
        format!("/api/v1/tasks/{id}?wait=1"),
        format!("/api/v1/tasks/{id}/events"),
        format!("/api/v1/tasks/{id}/execute/stdout"),
        format!("/api/v1/tasks/{id}/files.zip"),
        "/api/v1/groups/g?user=ada".to_string(),
        "/api/v1/groups?user=ada".to_string(),
        format!("/tasks/{id}"),
    ] {
        assert_eq!(send(&node, EVE, "GET", &path, None).await.status, 200, "{path}");
        assert_ne!(send(&node, BOB, "GET", &path, None).await.status, 200, "{path}");
    }
    let users = async |token: &str, query: &str| -> Vec<String> {
        let page = send(&node, token, "GET", &format!("/api/v1/tasks{query}"), None)
            .await
            .json();
        let tasks = page["tasks"]
            .as_array()
            .unwrap_or_else(|| panic!("{page}"))
            .iter();
        tasks
            .map(|task| task["user"].as_str().unwrap().to_string())
            .collect()
    };
    assert_eq!(users(EVE, "?order=oldest").await, ["ada", "eve"]);
    assert_eq!(users(EVE, "?user=ada").await, ["ada"]);
    assert_eq!(users(BOB, "").await, [""; 0]);
    let own_group = send(&node, EVE, "GET", "/api/v1/groups/g", None).await.json();
    assert_eq!(own_group["user"], "eve", "without a name, it is the caller's");

    // A retry repeats the task for its owner. What an operator adds is its own.
    let retried = send(&node, EVE, "POST", &format!("/api/v1/tasks/{id}/retry"), None).await;
    assert_eq!((retried.status, &retried.json()["user"]), (201, &json!("ada")));
    let foreign = json!({"user": "ada", "execute": {"command": "true"}});
    send(&node, EVE, "POST", "/api/v1/tasks", Some(foreign))
        .await
        .assert_problem_at(422, "user", "eve");
    let waits = json!({"execute": {"command": "sleep 600"}});
    let added = send(&node, ADA, "POST", "/api/v1/tasks", Some(waits))
        .await
        .json();
    let path = format!("/api/v1/tasks/{}", added["id"].as_str().unwrap());
    send(&node, BOB, "DELETE", &path, None).await.assert_problem(404);
    assert_eq!(
        send(&node, EVE, "DELETE", &path, None).await.json()["status"],
        "cancelled"
    );
}

#[tokio::test]
async fn a_list_of_operators_in_json_is_refused() {
    let node = SingleNode::up(&[]);
    let config = node
        .cli
        .command(&["config", "--set", r#"gateway.operators=["ada","bob"]"#]);
    let mut config = config;
    let output = cluster_tests::CommandOutput::of(config.spawn().expect("conclave starts")).await;
    output.assert_failure(1, &["gateway.operators", "leave out quotes and brackets"]);
}
