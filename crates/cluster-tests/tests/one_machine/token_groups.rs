//! With tokens, users see and change only their own groups, files and live output.

use cluster_tests::{HttpResponse, TestSystem};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";

fn node(flags: &[&str]) -> SingleNode {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{ADA} ada\n{BOB} bob\n")).expect("a file");
    SingleNode::on(system, &[&["--tokens-file", text(&tokens)], flags].concat())
}

async fn call(node: &SingleNode, token: &str, method: &str, path: &str) -> HttpResponse {
    HttpResponse::of(node.web.request(method, path).bearer_auth(token)).await
}

async fn add(node: &SingleNode, token: &str, task: &Value) -> String {
    let request = node.web.request("POST", "/api/v1/tasks").json(task);
    let answer = HttpResponse::of(request.bearer_auth(token)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

#[tokio::test]
async fn users_see_only_their_own_groups() {
    let node = node(&["--slots", "0"]);
    let task = |group: &str| json!({"group": group, "labels": {"k": "v"}, "execute": {"command": "true"}});
    for group in ["shared", "of-ada"] {
        add(&node, ADA, &task(group)).await;
        add(&node, ADA, &task(group)).await;
    }
    add(&node, BOB, &task("shared")).await;
    let names = async |token: &str| -> Vec<Value> {
        let list = call(&node, token, "GET", "/api/v1/groups").await.json();
        let groups = list["groups"].as_array().expect("groups").clone();
        groups
            .iter()
            .map(|group| json!([group["user"], group["group"], group["total"]]))
            .collect()
    };
    assert_eq!(
        names(ADA).await,
        [json!(["ada", "of-ada", 2]), json!(["ada", "shared", 2])]
    );
    assert_eq!(names(BOB).await, [json!(["bob", "shared", 1])]);
    // A group without `?user=` is the caller's own.
    let own = call(&node, BOB, "GET", "/api/v1/groups/shared").await.json();
    assert_eq!((&own["user"], &own["total"]), (&json!("bob"), &json!(1)));
    for (method, path) in [
        ("GET", "/api/v1/groups/of-ada"),
        ("GET", "/api/v1/groups/of-ada?wait=1"),
        ("GET", "/api/v1/groups/of-ada/events"),
        ("DELETE", "/api/v1/groups/of-ada"),
        ("POST", "/api/v1/groups/of-ada/retry"),
    ] {
        let foreign = call(&node, BOB, method, path).await;
        let unknown = call(&node, BOB, method, &path.replace("of-ada", "of-nobody")).await;
        assert_eq!(foreign.assert_problem(404)["status"], 404, "{method} {path}");
        // Whether somebody else has such a group is not told.
        assert_eq!(foreign.text().replace("of-ada", "of-nobody"), unknown.text());
    }
    for (method, path) in [
        ("GET", "/api/v1/groups?user=ada"),
        ("GET", "/api/v1/groups/shared?user=ada"),
        ("DELETE", "/api/v1/groups/shared?user=ada"),
        ("POST", "/api/v1/groups/shared/retry?user=ada"),
        ("DELETE", "/api/v1/tasks?user=ada"),
    ] {
        let status = call(&node, BOB, method, path).await.status;
        assert!([404, 422].contains(&status), "{method} {path}: {status}");
    }
    // A filter of bob's matches only what is his.
    let cancelled = call(&node, BOB, "DELETE", "/api/v1/tasks?label=k:v").await;
    assert_eq!(
        (cancelled.status, cancelled.json()),
        (200, json!({"cancelled": 1}))
    );
    let cancelled = call(&node, BOB, "DELETE", "/api/v1/groups/shared").await;
    assert_eq!(cancelled.json(), json!({"cancelled": 0}));
    for group in ["shared", "of-ada"] {
        let state = call(&node, ADA, "GET", &format!("/api/v1/groups/{group}"))
            .await
            .json();
        assert_eq!(state["counts"]["pending"], 2, "{state:#}");
    }
}

#[tokio::test]
async fn users_see_only_their_own_files_and_output() {
    let node = node(&[]);
    let task = json!({"keep": ["*"], "execute": {"command": "echo secret | tee file"}});
    let id = add(&node, ADA, &task).await;
    call(&node, ADA, "GET", &format!("/api/v1/tasks/{id}?wait=60")).await;
    for path in [
        "files/file",
        "files.zip",
        "files.tar",
        "execute/stdout?follow=true",
        "events?output=true",
    ] {
        let path = format!("/api/v1/tasks/{id}/{path}");
        assert_eq!(call(&node, ADA, "GET", &path).await.status, 200, "{path}");
        let answer = call(&node, BOB, "GET", &path).await;
        assert_eq!(answer.assert_problem(404)["status"], 404, "{path}");
        assert_eq!(call(&node, BOB, "HEAD", &path).await.status, 404, "{path}");
    }
    call(&node, BOB, "POST", &format!("/api/v1/tasks/{id}/retry"))
        .await
        .assert_problem(404);
    // The owner's retry belongs to the owner.
    let retried = call(&node, ADA, "POST", &format!("/api/v1/tasks/{id}/retry")).await;
    assert_eq!((retried.status, &retried.json()["user"]), (201, &json!("ada")));
}
