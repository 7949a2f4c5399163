//! With tokens, users see and change only their own tasks.

use std::time::Duration;

use cluster_tests::{HttpResponse, TestSystem, wait_until};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";
const SOON: Duration = Duration::from_secs(30);

fn node() -> SingleNode {
    node_with(&[])
}

fn node_with(flags: &[&str]) -> SingleNode {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    let lines = format!("# who may call\n\n{ADA} ada\n{BOB} Bob Bobson\n");
    std::fs::write(&tokens, lines).expect("a file");
    SingleNode::on(system, &[&["--tokens-file", text(&tokens)], flags].concat())
}

async fn send(request: RequestBuilder, token: &str) -> HttpResponse {
    HttpResponse::of(request.bearer_auth(token)).await
}

async fn add(node: &SingleNode, token: &str, task: &Value) -> HttpResponse {
    send(
        node.web.request("POST", "/api/v1/tasks?wait=60").json(task),
        token,
    )
    .await
}

#[tokio::test]
async fn requests_without_a_valid_token_are_refused() {
    let node = node();
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let calls = [
        ("POST", "/api/v1/tasks".to_string()),
        ("POST", "/api/v1/tasks/batch".to_string()),
        ("GET", "/api/v1/tasks".to_string()),
        ("GET", format!("/api/v1/tasks/{id}")),
        ("DELETE", format!("/api/v1/tasks/{id}")),
        ("GET", format!("/api/v1/tasks/{id}/events")),
        ("GET", format!("/api/v1/tasks/{id}/execute/stdout")),
        ("GET", format!("/api/v1/tasks/{id}/execute/stdout?follow=true")),
        ("GET", format!("/api/v1/tasks/{id}/events?output=true")),
        ("GET", format!("/api/v1/tasks/{id}/files/x")),
        ("GET", format!("/api/v1/tasks/{id}/files.zip")),
        ("GET", format!("/api/v1/tasks/{id}/files.tar")),
        ("POST", format!("/api/v1/tasks/{id}/retry")),
        ("DELETE", "/api/v1/tasks?status=pending".to_string()),
        ("GET", "/api/v1/groups".to_string()),
        ("GET", "/api/v1/groups/g".to_string()),
        ("GET", "/api/v1/groups/g/events".to_string()),
        ("DELETE", "/api/v1/groups/g".to_string()),
        ("POST", "/api/v1/groups/g/retry".to_string()),
        ("PUT", format!("/api/v1/blobs/{}", "0".repeat(64))),
        ("GET", format!("/api/v1/blobs/{}", "0".repeat(64))),
        ("GET", "/api/v1/executors".to_string()),
        ("GET", "/api/v1/judicators".to_string()),
        ("GET", "/api/v1/stats".to_string()),
    ];
    for (method, path) in &calls {
        for header in [
            None,
            Some("Bearer wrong-token-of-ours"),
            Some("Bearer "),
            Some(ADA),
            Some("Basic !!"),
            Some("Bearer ada"),
        ] {
            let mut request = node.web.request(method, path);
            if let Some(header) = header {
                request = request.header("Authorization", header);
            }
            let answer = HttpResponse::of(request).await;
            let detail = answer.assert_problem(401)["detail"].to_string();
            // A malformed token counts as none.
            let expected = match header {
                Some("Bearer wrong-token-of-ours" | "Bearer ada") => "the token is not valid",
                _ => "a token is required",
            };
            assert!(detail.contains(expected), "{header:?}: {detail}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    // A page leads to the sign-in page, which is tested in `sign_in`.
    for path in ["/".to_string(), format!("/tasks/{id}")] {
        let answer = node.web.get(&path).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("name=\"token\""), "{}", answer.text());
        assert_eq!(answer.header("www-authenticate"), "");
    }
    let page = node.web.request("GET", "/").basic_auth("whoever", Some(ADA));
    assert_eq!(HttpResponse::of(page).await.status, 200);
    for open in ["/healthz", "/api/openapi.json", "/api/docs"] {
        assert_eq!(node.web.get(open).await.status, 200, "{open}");
    }
    wait_until("the node to be ready", SOON, async || {
        (node.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    let log = node.up.log();
    assert!(!log.contains(ADA) && !log.contains(BOB), "a token is in the log");
}

#[tokio::test]
async fn users_see_only_their_own_tasks() {
    let node = node();
    let task = json!({"execute": {"command": "echo secret"}});
    let of_ada = add(&node, ADA, &task).await.json();
    let of_bob = add(&node, BOB, &task).await.json();
    assert_eq!(
        (&of_ada["user"], &of_bob["user"]),
        (&json!("ada"), &json!("Bob Bobson"))
    );
    let named = |user: &str| json!({"user": user, "execute": {"command": "true"}});
    assert_eq!(add(&node, ADA, &named("ada")).await.status, 201);
    add(&node, ADA, &named("Bob Bobson"))
        .await
        .assert_problem_at(422, "user", "ada");
    let batch = json!({"tasks": [task, named("Bob Bobson")]});
    let request = node.web.request("POST", "/api/v1/tasks/batch").json(&batch);
    send(request, ADA)
        .await
        .assert_problem_at(422, "tasks[1].user", "ada");

    let id = of_ada["id"].as_str().unwrap();
    let get = |path: String| node.web.request("GET", &path);
    for path in [
        format!("/api/v1/tasks/{id}"),
        format!("/api/v1/tasks/{id}?wait=1"),
        format!("/api/v1/tasks/{id}/events"),
        format!("/api/v1/tasks/{id}/execute/stdout"),
    ] {
        assert_eq!(send(get(path.clone()), ADA).await.status, 200, "{path}");
        let problem = send(get(path), BOB).await.assert_problem(404);
        assert!(!problem.to_string().contains("ada"), "{problem}");
    }
    let page = get(format!("/tasks/{id}")).basic_auth("x", Some(BOB));
    assert_eq!(HttpResponse::of(page).await.status, 404);
    let cancel = |token| send(node.web.request("DELETE", &format!("/api/v1/tasks/{id}")), token);
    cancel(BOB).await.assert_problem(404);
    cancel(ADA).await.assert_problem(409);

    let users = async |query: &str, token: &str| -> Vec<Value> {
        let answer = send(get(format!("/api/v1/tasks{query}")), token).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let tasks = answer.json()["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["user"].clone()).collect()
    };
    assert_eq!(users("", ADA).await, ["ada", "ada"]);
    assert_eq!(users("", BOB).await, ["Bob Bobson"]);
    assert_eq!(users(&format!("?id={id}"), BOB).await, [""; 0]);
    assert_eq!(users("?user=ada&text=secret", ADA).await, ["ada"]);
    send(get("/api/v1/tasks?user=ada".into()), BOB)
        .await
        .assert_problem(422);
    let list = get("/".into()).basic_auth("x", Some(BOB));
    assert!(!HttpResponse::of(list).await.text().contains(id));

    // A conflict with another user's id looks like one with an own id.
    let taken = json!({"id": id, "execute": {"command": "echo secret"}});
    add(&node, BOB, &taken).await.assert_problem(409);
    assert_eq!(add(&node, ADA, &taken).await.status, 200);
    // Keys are scoped to the user.
    let keyed = |token| {
        let request = node
            .web
            .request("POST", "/api/v1/tasks")
            .header("Idempotency-Key", "1");
        send(request.json(&task), token)
    };
    let (one, other) = (keyed(ADA).await, keyed(BOB).await);
    assert_eq!((one.status, other.status), (201, 201));
    assert_ne!(one.json()["id"], other.json()["id"]);
}

#[tokio::test]
async fn another_users_id_is_answered_like_an_unknown_one() {
    let node = node_with(&["--slots", "0"]);
    let task = json!({"execute": {"command": "echo secret"}});
    let request = node.web.request("POST", "/api/v1/tasks").json(&task);
    let foreign = send(request, ADA).await.json()["id"]
        .as_str()
        .unwrap()
        .to_string();
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8057".to_string();
    for (method, path) in [
        ("GET", "/api/v1/tasks/ID"),
        ("GET", "/api/v1/tasks/ID?wait=1"),
        ("DELETE", "/api/v1/tasks/ID"),
        ("GET", "/api/v1/tasks/ID/events"),
        ("GET", "/api/v1/tasks/ID/execute/stdout"),
        ("GET", "/api/v1/tasks/ID/execute/stdout?follow=true"),
        ("GET", "/api/v1/tasks/ID/events?output=true"),
        ("GET", "/api/v1/tasks/ID/files/x"),
        ("GET", "/api/v1/tasks/ID/files.zip"),
        ("GET", "/api/v1/tasks/ID/files.tar"),
        ("POST", "/api/v1/tasks/ID/retry"),
        ("GET", "/api/v1/tasks/ID/waiting"),
        ("GET", "/tasks/ID"),
        ("GET", "/tasks/ID/fragment"),
        ("GET", "/tasks/ID/view?in=input"),
        ("GET", "/live/tasks/ID"),
        ("POST", "/tasks/ID/retry"),
        ("POST", "/tasks/ID/cancel"),
    ] {
        let ask = async |id: &String| {
            let answer = send(node.web.request(method, &path.replace("ID", id)), BOB).await;
            (answer.status, answer.text().replace(id, "ID"))
        };
        let (of_foreign, of_unknown) = (ask(&foreign).await, ask(&unknown).await);
        assert_eq!(of_foreign.0, 404, "{method} {path}");
        assert_eq!(of_foreign, of_unknown, "{method} {path}");
    }
    let page = send(
        node.web.request("GET", &format!("/api/v1/tasks?id={foreign}")),
        BOB,
    )
    .await;
    assert_eq!(page.json()["tasks"], json!([]));
    // None of these requests has changed the task.
    let path = format!("/api/v1/tasks/{foreign}");
    let kept = send(node.web.request("GET", &path), ADA).await.json();
    assert_eq!(kept["status"], "pending");

    // A user who chooses a taken id learns that it is taken, and nothing more: the answer is the same as for a conflict with an
    // own task.
    let mine = json!({"id": unknown, "execute": {"command": "true"}});
    assert_eq!(add_pending(&node, BOB, &mine).await.status, 201);
    let other = json!({"id": unknown, "execute": {"command": "false"}});
    let taken = json!({"id": foreign, "execute": {"command": "echo secret"}});
    let own = add_pending(&node, BOB, &other)
        .await
        .assert_problem(409)
        .to_string();
    let others = add_pending(&node, BOB, &taken)
        .await
        .assert_problem(409)
        .to_string();
    assert_eq!(others.replace(&foreign, "ID"), own.replace(&unknown, "ID"));
    let batch = json!({"tasks": [mine, taken]});
    let request = node.web.request("POST", "/api/v1/tasks/batch").json(&batch);
    let problem = send(request, BOB).await.assert_problem(409);
    assert_eq!(problem["field"], "tasks[1].id");
    assert!(!problem.to_string().contains("ada"), "{problem}");
}

async fn add_pending(node: &SingleNode, token: &str, task: &Value) -> HttpResponse {
    send(node.web.request("POST", "/api/v1/tasks").json(task), token).await
}

#[tokio::test]
async fn users_cannot_occupy_the_id_of_another_users_key() {
    let node = node_with(&["--slots", "0"]);
    let task = |id: &str| json!({"id": id, "execute": {"command": "true"}});
    // The id of ada's key `1`, which everyone can compute.
    let made = "db421086-a7d8-5207-b64f-249780c4999b";
    add_pending(&node, BOB, &task(made))
        .await
        .assert_problem_at(422, "id", "version 4 or 7");
    let batch = json!({"tasks": [task("01890a5d-ac96-774b-bcce-b302099a8057"), task(made)]});
    let request = node.web.request("POST", "/api/v1/tasks/batch").json(&batch);
    send(request, BOB)
        .await
        .assert_problem_at(422, "tasks[1].id", "Idempotency-Key");
    let keyed = |body: Value, token| {
        let request = node.web.request("POST", "/api/v1/tasks");
        send(request.header("Idempotency-Key", "1").json(&body), token)
    };
    let added = keyed(json!({"execute": {"command": "true"}}), ADA).await;
    assert_eq!((added.status, &added.json()["id"]), (201, &json!(made)));
    // The answer is the same whether the task exists or not.
    add_pending(&node, BOB, &task(made))
        .await
        .assert_problem_at(422, "id", "version 4 or 7");
    keyed(task(made), BOB)
        .await
        .assert_problem_at(422, "id", "only one of them");
}

#[tokio::test]
async fn metrics_need_a_token() {
    let node = node();
    let ask = || node.web.request("GET", "/metrics");
    assert_eq!(HttpResponse::of(ask()).await.status, 401);
    assert_eq!(send(ask(), "wrong-token-of-ours").await.status, 401);
    for answer in [
        send(ask(), ADA).await,
        HttpResponse::of(ask().basic_auth("prometheus", Some(BOB))).await,
    ] {
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("conclave_tasks"), "{}", answer.text());
    }
    let node = node_with(&["--set", "gateway.metrics=open"]);
    assert_eq!(node.web.get("/metrics").await.status, 200);
    let node = node_with(&["--set", "gateway.metrics=off"]);
    let nothing = send(node.web.request("GET", "/metrics"), ADA).await;
    nothing.assert_problem(404);
    let described = node.web.get("/api/openapi.json").await.json();
    assert!(described["paths"]["/metrics"].is_null());
}

#[tokio::test]
async fn the_command_line_sends_its_token() {
    let node = node();
    let file = node.system.folder.path().join("mine");
    std::fs::write(&file, format!("{BOB}\n")).unwrap();
    node.cli.run(&["stats"]).await.assert_failure(1, &["token"]);
    node.cli
        .run(&["run", "--", "true"])
        .await
        .assert_failure(125, &["token", "--token-file", "CONCLAVE_TOKEN_FILE"]);
    let said = node
        .cli
        .run(&["run", "--token-file", text(&file), "--", "echo", "hi"])
        .await
        .assert_success();
    assert_eq!(said.text(), "hi\n");
    let mut command = node.cli.command(&["search", "--json"]);
    let child = command.env("CONCLAVE_TOKEN_FILE", &file).spawn().unwrap();
    let tasks = cluster_tests::CommandOutput::of(child)
        .await
        .assert_success()
        .json_lines();
    assert_eq!(tasks[0]["user"], "Bob Bobson");
    let missing = ["stats", "--token-file", "/nowhere/token"];
    node.cli
        .run(&missing)
        .await
        .assert_failure(1, &["/nowhere/token"]);
}
