//! Repeated adds with the same id or idempotency key add nothing.

use cluster_tests::{HttpResponse, RawHttpClient};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::SingleNode;
use crate::zip_builder::{ZipBuilder, base64, inline};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const TASKS: &str = "/api/v1/tasks";

fn named(id: &str, command: &str) -> Value {
    json!({"id": id, "user": "ada", "execute": {"command": command}})
}

async fn count(web: &RawHttpClient, query: &str) -> usize {
    let page = web.get(&format!("{TASKS}?{query}")).await.json();
    page["tasks"].as_array().expect("tasks").len()
}

#[tokio::test]
async fn a_repeated_add_with_the_same_id_returns_the_same_task() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let first = web.post(TASKS, &named(ID, "echo once")).await;
    assert_eq!((first.status, &first.json()["id"]), (201, &json!(ID)));

    // The same task in another spelling is the same.
    let mut words = named(ID, "echo once");
    words["source"] = json!({});
    words["execute"]["limits"] = json!({"wall": null});
    for body in [named(ID, "echo once"), words] {
        let again = web.post(&format!("{TASKS}?wait=60"), &body).await;
        assert_eq!(again.status, 200, "{}", again.text());
        let again = again.json();
        assert_eq!(again["add_time"], first.json()["add_time"]);
        assert_eq!(
            (&again["status"], &again["attempt"]),
            (&json!("success"), &json!(1))
        );
    }

    // Any other content is a conflict.
    let mut other_user = named(ID, "echo once");
    other_user["user"] = json!("bob");
    for body in [named(ID, "echo twice"), other_user] {
        let problem = web.post(TASKS, &body).await.assert_problem(409);
        assert!(problem["detail"].as_str().unwrap().contains(ID), "{problem}");
    }
    let kept = web.get(&format!("{TASKS}/{ID}")).await.json();
    assert_eq!(
        (&kept["user"], &kept["execute"]["command"]),
        (&json!("ada"), &json!("echo once"))
    );
    assert_eq!(count(web, "").await, 1);

    // Twenty concurrent adds add one task.
    let body = named("01890a5d-ac96-774b-bcce-b302099a8058", "echo many");
    let answers = join_all((0..20).map(|_| web.post(TASKS, &body))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; 19], vec![201]].concat());
    assert_eq!(count(web, "text=many").await, 1);
}

async fn keyed(web: &RawHttpClient, key: &[u8], body: &Value) -> HttpResponse {
    HttpResponse::of(
        web.request("POST", TASKS)
            .header("Idempotency-Key", key)
            .json(body),
    )
    .await
}

#[tokio::test]
async fn a_repeated_add_with_the_same_key_returns_the_same_task() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let task = |user: &str, command: &str| json!({"user": user, "execute": {"command": command}});
    let ada = task("ada", "true");
    let first = keyed(web, b"k1", &ada).await;
    assert_eq!(first.status, 201);
    let id = first.json()["id"].clone();
    let again = keyed(web, b"k1", &ada).await;
    assert_eq!((again.status, &again.json()["id"]), (200, &id));
    keyed(web, b"k1", &task("ada", "false")).await.assert_problem(409);
    // Keys are scoped to the user.
    for (key, body) in [(b"k1", task("bob", "false")), (b"k2", ada.clone())] {
        let other = keyed(web, key, &body).await;
        assert_eq!(other.status, 201);
        assert_ne!(other.json()["id"], id);
    }
    let mut with_id = ada.clone();
    with_id["id"] = json!(ID);
    keyed(web, b"k1", &with_id)
        .await
        .assert_problem_at(422, "id", "only one of them");
    with_id["id"] = id;
    assert_eq!(keyed(web, b"k1", &with_id).await.status, 200);
    for key in [&b""[..], b"\xff\xfe", &[b'x'; 256]] {
        let problem = keyed(web, key, &ada).await.assert_problem(422);
        assert_eq!(problem["field"], "Idempotency-Key");
    }
    assert_eq!(count(web, "").await, 3);
}

#[tokio::test]
async fn a_batch_honours_its_key() {
    let node = SingleNode::up(&["--slots", "0"]);
    let web = &node.web;
    let task = |command: &str| json!({"user": "ada", "execute": {"command": command}});
    let send = |key: &'static str, tasks: Value| {
        let request = web.request("POST", "/api/v1/tasks/batch");
        let request = request.header("Idempotency-Key", key);
        HttpResponse::of(request.json(&json!({"tasks": tasks})))
    };
    let two = json!([task("echo same"), task("echo same")]);
    let first = send("k1", two.clone()).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let again = send("k1", two.clone()).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    assert_eq!(count(web, "").await, 2);

    // Other content at one index: nothing is added, and the index is named.
    let changed = send(
        "k1",
        json!([task("echo same"), task("echo other"), task("echo new")]),
    )
    .await;
    let problem = changed.assert_problem(409);
    assert_eq!(problem["field"], "tasks[1]");
    assert!(
        problem["detail"].as_str().unwrap().contains("Idempotency-Key"),
        "{problem}"
    );
    assert_eq!(count(web, "").await, 2);

    // Tasks of another key, of another user, or without a batch are different.
    for (key, tasks) in [
        ("k2", two.clone()),
        ("k1", json!([{"execute": {"command": "echo same"}}])),
    ] {
        let answer = send(key, tasks).await;
        assert_eq!(answer.status, 201);
        assert_ne!(answer.json()["tasks"][0]["id"], first.json()["tasks"][0]["id"]);
    }
    assert_eq!(keyed(web, b"k1", &task("echo same")).await.status, 201);
    assert_eq!(count(web, "").await, 6);

    // Chosen ids: the same rule as for a single task.
    let made = first.json()["tasks"][0]["id"].as_str().unwrap().to_string();
    let mut with_id = task("echo same");
    with_id["id"] = json!(ID);
    send("k1", json!([with_id.clone()]))
        .await
        .assert_problem_at(422, "tasks[0].id", "only one of them");
    with_id["id"] = json!(made);
    assert_eq!(send("k1", json!([with_id])).await.status, 200);
    let request = web.request("POST", "/api/v1/tasks/batch");
    let empty = request.header("Idempotency-Key", "").json(&json!({"tasks": two}));
    assert_eq!(
        HttpResponse::of(empty).await.assert_problem(422)["field"],
        "Idempotency-Key"
    );
}

#[tokio::test]
async fn a_batch_is_added_completely_or_not_at_all() {
    let node = SingleNode::up(&["--set", "gateway.max_batch=5"]);
    let web = &node.web;
    let batch = format!("{TASKS}/batch");
    let tasks = json!({"tasks": [
        named(ID, "echo 0"),
        {"user": "ada", "priority": 7, "execute": {"command": ["echo", "1"]}},
        {"execute": {"command": "echo 2"}},
    ]});
    let answer = web.post(&batch, &tasks).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let added = answer.json()["tasks"].clone();
    for (index, (command, user, priority)) in [
        ("echo 0", "ada", 0),
        ("echo 1", "ada", 7),
        ("echo 2", "anonymous", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let brief = &added[index];
        assert_eq!(
            (&brief["command"], &brief["user"], &brief["priority"]),
            (&json!(command), &json!(user), &json!(priority))
        );
        let done = web
            .get(&format!("{TASKS}/{}?wait=60", brief["id"].as_str().unwrap()))
            .await
            .json();
        assert_eq!(done["status"], "success");
        assert_eq!(done["add_time"], brief["add_time"]);
    }

    // A task that was added before is returned in its current status.
    let again = web.post(&batch, &json!({"tasks": [named(ID, "echo 0")]})).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["tasks"][0]["status"], "success");
    assert_eq!(again.json()["tasks"][0]["add_time"], added[0]["add_time"]);

    let good = json!({"user": "eve", "execute": {"command": "true"}});
    let missing = "0".repeat(64);
    for (second, field) in [
        (
            json!({"user": "eve", "execute": {"command": ""}}),
            "tasks[1].execute.command",
        ),
        (
            json!({"user": "eve", "execute": {"command": 7}}),
            "tasks[1].execute.command",
        ),
        (
            json!({"user": "eve", "execute": {"command": "x", "limits": {"wall": "9d"}}}),
            "tasks[1].execute.limits.wall",
        ),
        (
            json!({"user": "eve", "execute": {"command": "x"}, "sorce": {}}),
            "tasks[1].sorce",
        ),
        (
            json!({"user": "eve", "execute": {"command": "x"}, "source": {"../x": ""}}),
            "tasks[1].source.../x",
        ),
        (
            json!({"user": "eve", "execute": {"command": "x", "input": {"blob": missing}}}),
            "tasks[1].execute.input.blob",
        ),
        (json!(null), "tasks[1]"),
    ] {
        let answer = web.post(&batch, &json!({"tasks": [good, second]})).await;
        assert_eq!(answer.assert_problem(422)["field"], field);
    }
    let twins = json!({"tasks": [named("01890a5d-ac96-774b-bcce-b302099a8059", "eve"), named("01890a5d-ac96-774b-bcce-b302099a8059", "eve")]});
    web.post(&batch, &twins)
        .await
        .assert_problem_at(422, "tasks[1].id", "tasks[0]");
    let conflict = json!({"tasks": [good, named(ID, "eve's")]});
    let problem = web.post(&batch, &conflict).await.assert_problem(409);
    assert!(problem["detail"].as_str().unwrap().contains(ID), "{problem}");
    let many = json!({"tasks": vec![&good; 6]});
    let problem = web.post(&batch, &many).await.assert_problem(422);
    assert_eq!(
        (&problem["field"], &problem["limit"], &problem["actual"]),
        (&json!("tasks"), &json!("5"), &json!("6"))
    );
    for body in [json!({"tasks": []}), json!({"tasks": {}}), json!({})] {
        assert_eq!(
            web.post(&batch, &body).await.assert_problem(422)["field"],
            "tasks"
        );
    }
    web.post(&batch, &json!([good]))
        .await
        .assert_problem_at(422, "body", "tasks");
    // None of these batches was added.
    assert_eq!(count(web, "user=eve").await, 0);
    assert_eq!(count(web, "").await, 3);
}

#[tokio::test]
async fn files_are_compared_by_content() {
    let node = SingleNode::up(&["--set", "limits.default.wall=7s"]);
    let large = "line\n".repeat(20_000);
    let task = |source: Value| json!({"id": ID, "source": source, "execute": {"command": "cat a | wc -c"}});
    let archive = ZipBuilder::new().file("a", 0o644, large.as_bytes()).bytes();
    let listed = task(json!({"a": large}));
    let first = node.web.post(&format!("{TASKS}?wait=60"), &listed).await;
    assert_eq!(
        (first.status, &first.json()["execute"]["limits"]["wall"]),
        (201, &json!(7))
    );
    // As an object, in base64, in a zip, or by its hash: it is the same file.
    let blob = first.json()["source"]["a"].clone();
    let forms = [
        json!({"a": large}),
        json!({"a": {"base64": base64(large.as_bytes())}}),
        inline(&archive),
        json!({"a": blob}),
    ];
    for source in &forms {
        let again = node.web.post(TASKS, &task(source.clone())).await;
        assert_eq!((again.status, again.json()), (200, first.json()));
    }
    for source in [
        json!({"a": {"text": large, "executable": true}}),
        json!({"a": format!("{large}x")}),
        json!({}),
    ] {
        node.web.post(TASKS, &task(source)).await.assert_problem(409);
    }
    // Changed defaults of the operator do not make it another task.
    let node = node.again(&["--set", "limits.default.wall=9s"]);
    for source in forms {
        assert_eq!(node.web.post(TASKS, &task(source)).await.status, 200);
    }
}
