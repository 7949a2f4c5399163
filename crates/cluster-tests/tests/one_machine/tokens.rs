//! With tokens, everyone has their own tasks and nobody else's.

use std::time::Duration;

use cluster_tests::{Answer, System, await_that};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::stage::{Stage, text};

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";
const SOON: Duration = Duration::from_secs(30);

fn stage() -> Stage {
    stage_with(&[])
}

fn stage_with(flags: &[&str]) -> Stage {
    let system = System::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    let lines = format!("# who may call\n\n{ADA} ada\n{BOB} Bob Bobson\n");
    std::fs::write(&tokens, lines).expect("a file");
    Stage::on(system, &[&["--tokens-file", text(&tokens)], flags].concat())
}

async fn send(request: RequestBuilder, token: &str) -> Answer {
    Answer::of(request.bearer_auth(token)).await
}

async fn add(stage: &Stage, token: &str, task: &Value) -> Answer {
    send(
        stage.web.request("POST", "/api/v1/tasks?wait=60").json(task),
        token,
    )
    .await
}

#[tokio::test]
async fn strangers_are_asked_for_a_token() {
    let stage = stage();
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let calls = [
        ("POST", "/api/v1/tasks".to_string()),
        ("POST", "/api/v1/tasks/batch".to_string()),
        ("GET", "/api/v1/tasks".to_string()),
        ("GET", format!("/api/v1/tasks/{id}")),
        ("DELETE", format!("/api/v1/tasks/{id}")),
        ("GET", format!("/api/v1/tasks/{id}/events")),
        ("GET", format!("/api/v1/tasks/{id}/execute/stdout")),
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
            let mut request = stage.web.request(method, path);
            if let Some(header) = header {
                request = request.header("Authorization", header);
            }
            let answer = Answer::of(request).await;
            let detail = answer.problem(401)["detail"].to_string();
            // What cannot be read as a token counts as none.
            let expected = match header {
                Some("Bearer wrong-token-of-ours" | "Bearer ada") => "does not know the token",
                _ => "a token is needed",
            };
            assert!(detail.contains(expected), "{header:?}: {detail}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    // A browser asks its person; the token is the password.
    for path in ["/".to_string(), format!("/tasks/{id}")] {
        let answer = stage.web.get(&path).await;
        assert_eq!(answer.status, 401);
        assert!(answer.header("www-authenticate").starts_with("Basic"));
    }
    let page = stage.web.request("GET", "/").basic_auth("whoever", Some(ADA));
    assert_eq!(Answer::of(page).await.status, 200);
    for open in ["/healthz", "/api/openapi.json", "/api/docs"] {
        assert_eq!(stage.web.get(open).await.status, 200, "{open}");
    }
    await_that("the node to be ready", SOON, async || {
        (stage.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    let log = stage.up.log();
    assert!(!log.contains(ADA) && !log.contains(BOB), "a token is in the log");
}

#[tokio::test]
async fn everyone_has_their_own_tasks() {
    let stage = stage();
    let task = json!({"execute": {"command": "echo secret"}});
    let of_ada = add(&stage, ADA, &task).await.json();
    let of_bob = add(&stage, BOB, &task).await.json();
    assert_eq!(
        (&of_ada["user"], &of_bob["user"]),
        (&json!("ada"), &json!("Bob Bobson"))
    );
    let named = |user: &str| json!({"user": user, "execute": {"command": "true"}});
    assert_eq!(add(&stage, ADA, &named("ada")).await.status, 201);
    add(&stage, ADA, &named("Bob Bobson"))
        .await
        .blames(422, "user", "ada");
    let batch = json!({"tasks": [task, named("Bob Bobson")]});
    let request = stage.web.request("POST", "/api/v1/tasks/batch").json(&batch);
    send(request, ADA).await.blames(422, "tasks[1].user", "ada");

    let id = of_ada["id"].as_str().unwrap();
    let get = |path: String| stage.web.request("GET", &path);
    for path in [
        format!("/api/v1/tasks/{id}"),
        format!("/api/v1/tasks/{id}?wait=1"),
        format!("/api/v1/tasks/{id}/events"),
        format!("/api/v1/tasks/{id}/execute/stdout"),
    ] {
        assert_eq!(send(get(path.clone()), ADA).await.status, 200, "{path}");
        let problem = send(get(path), BOB).await.problem(404);
        assert!(!problem.to_string().contains("ada"), "{problem}");
    }
    let page = get(format!("/tasks/{id}")).basic_auth("x", Some(BOB));
    assert_eq!(Answer::of(page).await.status, 404);
    let cancel = |token| send(stage.web.request("DELETE", &format!("/api/v1/tasks/{id}")), token);
    cancel(BOB).await.problem(404);
    cancel(ADA).await.problem(409);

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
    send(get("/api/v1/tasks?user=ada".into()), BOB).await.problem(422);
    let list = get("/".into()).basic_auth("x", Some(BOB));
    assert!(!Answer::of(list).await.text().contains(id));

    // An id that is taken by another is not told from one that is taken by oneself.
    let taken = json!({"id": id, "execute": {"command": "echo secret"}});
    add(&stage, BOB, &taken).await.problem(409);
    assert_eq!(add(&stage, ADA, &taken).await.status, 200);
    // A key is each user's own.
    let keyed = |token| {
        let request = stage
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
async fn a_foreign_id_answers_like_an_unknown_one() {
    let stage = stage_with(&["--slots", "0"]);
    let task = json!({"execute": {"command": "echo secret"}});
    let request = stage.web.request("POST", "/api/v1/tasks").json(&task);
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
        ("GET", "/tasks/ID"),
        ("POST", "/tasks/ID/cancel"),
    ] {
        let ask = async |id: &String| {
            let answer = send(stage.web.request(method, &path.replace("ID", id)), BOB).await;
            (answer.status, answer.text().replace(id, "ID"))
        };
        let (of_foreign, of_unknown) = (ask(&foreign).await, ask(&unknown).await);
        assert_eq!(of_foreign.0, 404, "{method} {path}");
        assert_eq!(of_foreign, of_unknown, "{method} {path}");
    }
    let page = send(
        stage.web.request("GET", &format!("/api/v1/tasks?id={foreign}")),
        BOB,
    )
    .await;
    assert_eq!(page.json()["tasks"], json!([]));
    // Nothing of that has touched the task.
    let path = format!("/api/v1/tasks/{foreign}");
    let kept = send(stage.web.request("GET", &path), ADA).await.json();
    assert_eq!(kept["status"], "pending");

    // That the id is taken cannot be hidden from a user who chooses it; the answer says nothing more. It is the
    // answer to a conflict with a task of one's own.
    let mine = json!({"id": unknown, "execute": {"command": "true"}});
    assert_eq!(add_pending(&stage, BOB, &mine).await.status, 201);
    let other = json!({"id": unknown, "execute": {"command": "false"}});
    let taken = json!({"id": foreign, "execute": {"command": "echo secret"}});
    let own = add_pending(&stage, BOB, &other).await.problem(409).to_string();
    let others = add_pending(&stage, BOB, &taken).await.problem(409).to_string();
    assert_eq!(others.replace(&foreign, "ID"), own.replace(&unknown, "ID"));
    let batch = json!({"tasks": [mine, taken]});
    let request = stage.web.request("POST", "/api/v1/tasks/batch").json(&batch);
    let problem = send(request, BOB).await.problem(409);
    assert_eq!(problem["field"], "tasks[1].id");
    assert!(!problem.to_string().contains("ada"), "{problem}");
}

async fn add_pending(stage: &Stage, token: &str, task: &Value) -> Answer {
    send(stage.web.request("POST", "/api/v1/tasks").json(task), token).await
}

#[tokio::test]
async fn nobody_occupies_the_id_of_anothers_key() {
    let stage = stage_with(&["--slots", "0"]);
    let task = |id: &str| json!({"id": id, "execute": {"command": "true"}});
    // What ada's key `1` makes, which everyone can compute.
    let made = "db421086-a7d8-5207-b64f-249780c4999b";
    add_pending(&stage, BOB, &task(made))
        .await
        .blames(422, "id", "version 4 or 7");
    let batch = json!({"tasks": [task("01890a5d-ac96-774b-bcce-b302099a8057"), task(made)]});
    let request = stage.web.request("POST", "/api/v1/tasks/batch").json(&batch);
    send(request, BOB)
        .await
        .blames(422, "tasks[1].id", "Idempotency-Key");
    let keyed = |body: Value, token| {
        let request = stage.web.request("POST", "/api/v1/tasks");
        send(request.header("Idempotency-Key", "1").json(&body), token)
    };
    let added = keyed(json!({"execute": {"command": "true"}}), ADA).await;
    assert_eq!((added.status, &added.json()["id"]), (201, &json!(made)));
    // The answer is the same whether the task is there or not.
    add_pending(&stage, BOB, &task(made))
        .await
        .blames(422, "id", "version 4 or 7");
    keyed(task(made), BOB).await.blames(422, "id", "only one of them");
}

#[tokio::test]
async fn metrics_are_for_everyone_with_a_token() {
    let stage = stage();
    let ask = || stage.web.request("GET", "/metrics");
    assert_eq!(Answer::of(ask()).await.status, 401);
    assert_eq!(send(ask(), "wrong-token-of-ours").await.status, 401);
    for answer in [
        send(ask(), ADA).await,
        Answer::of(ask().basic_auth("prometheus", Some(BOB))).await,
    ] {
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("conclave_tasks"), "{}", answer.text());
    }
    let stage = stage_with(&["--set", "gateway.metrics=open"]);
    assert_eq!(stage.web.get("/metrics").await.status, 200);
    let stage = stage_with(&["--set", "gateway.metrics=off"]);
    let nothing = send(stage.web.request("GET", "/metrics"), ADA).await;
    nothing.problem(404);
    let described = stage.web.get("/api/openapi.json").await.json();
    assert!(described["paths"]["/metrics"].is_null());
}

#[tokio::test]
async fn the_command_line_shows_its_token() {
    let stage = stage();
    let file = stage.system.folder.path().join("mine");
    std::fs::write(&file, format!("{BOB}\n")).unwrap();
    stage.cli.run(&["stats"]).await.fails(1, &["token"]);
    stage
        .cli
        .run(&["run", "--", "true"])
        .await
        .fails(125, &["token", "--token-file", "CONCLAVE_TOKEN_FILE"]);
    let said = stage
        .cli
        .run(&["run", "--token-file", text(&file), "--", "echo", "hi"])
        .await
        .well();
    assert_eq!(said.text(), "hi\n");
    let mut command = stage.cli.command(&["search", "--json"]);
    let child = command.env("CONCLAVE_TOKEN_FILE", &file).spawn().unwrap();
    let tasks = cluster_tests::Said::of(child).await.well().json_lines();
    assert_eq!(tasks[0]["user"], "Bob Bobson");
    let missing = ["stats", "--token-file", "/nowhere/token"];
    stage.cli.run(&missing).await.fails(1, &["/nowhere/token"]);
}
