//! Draining and resuming the executor of a single node.

use std::time::Duration;

use cluster_tests::wait_until;
use model::{ExecutorName, TaskId};
use serde_json::{Value, json};

use crate::harness::SingleNode;

const SOON: Duration = Duration::from_secs(60);
const FLAGS: [&str; 4] = ["--name", "exec-1", "--slots", "1"];

async fn executor(node: &SingleNode) -> Value {
    let executors = node.web.get("/api/v1/executors").await.json()["executors"].clone();
    assert_eq!(executors.as_array().map(Vec::len), Some(1), "{executors}");
    executors[0].clone()
}

async fn add(node: &SingleNode, command: &str) -> TaskId {
    let task = json!({"execute": {"command": command}});
    let added = node.web.post("/api/v1/tasks", &task).await;
    assert_eq!(added.status, 201, "{}", added.text());
    added.json()["id"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("an id")
}

async fn wait_for_status(node: &SingleNode, id: TaskId, status: model::TaskStatus) {
    wait_until(&format!("the task to be {status}"), SOON, async || {
        let task = node.system.client.get(id, None).await.ok()?;
        (task.status == status).then_some(())
    })
    .await;
}

async fn wait_until_logged(node: &SingleNode, words: &str) {
    wait_until(&format!("'{words}' in the log"), SOON, async || {
        node.up.log().contains(words).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_drained_executor_ends_its_task_and_takes_no_other_until_it_is_resumed() {
    let node = SingleNode::up(&FLAGS);
    node.system.ready(1).await;
    let gate = node.gate("gate");
    let running = add(&node, &gate.wait()).await;
    wait_for_status(&node, running, model::TaskStatus::Running).await;

    let drain = node.cli.run(&["drain", "exec-1", "--reason", " new disk "]).await;
    assert_eq!(
        drain.assert_success().text(),
        "exec-1 is drained; it ends the task that it has\n"
    );
    let waiting = add(&node, "true").await;
    wait_until_logged(&node, "an operator has drained this executor").await;
    let state = executor(&node).await;
    assert_eq!(state["drain"]["reason"], "new disk", "{state}");
    assert!(
        state["drain"]["since"].is_string() && state["drain"]["by"].is_null(),
        "{state}"
    );
    let list = node.cli.run(&["executors"]).await.assert_success();
    assert!(list.text().contains(": new disk"), "{list:?}");
    gate.open();
    assert_eq!(node.system.done(running).await.status, model::TaskStatus::Success);
    assert_eq!(node.system.client.get(waiting, None).await.unwrap().attempt, 0);

    // The reason is replaced, the beginning stays.
    let path = "/api/v1/executors/exec-1/drain";
    let again = node.web.post(path, &json!({"reason": "new fan"})).await.json();
    assert_eq!(
        (&again["drain"]["reason"], &again["drain"]["since"]),
        (&json!("new fan"), &state["drain"]["since"])
    );

    // It is drained after a restart, in a new session.
    let node = node.again(&FLAGS);
    node.system.ready(1).await;
    wait_until_logged(&node, "an operator has drained this executor").await;
    // Until it has reported, the list shows the session before.
    let restarted = wait_until("the new session", SOON, async || {
        let executor = executor(&node).await;
        (executor["session"] != state["session"]).then_some(executor)
    })
    .await;
    assert_eq!(restarted["drain"], again["drain"]);
    assert_eq!(node.system.client.get(waiting, None).await.unwrap().attempt, 0);

    let resumed = node.cli.json(&["resume", "exec-1", "--json"]).await;
    assert_eq!(
        (&resumed["name"], &resumed["drain"]),
        (&json!("exec-1"), &Value::Null)
    );
    assert_eq!(node.system.done(waiting).await.status, model::TaskStatus::Success);
    wait_until_logged(&node, "an operator has resumed this executor").await;
    let resumed = node.cli.run(&["resume", "exec-1"]).await.assert_success();
    assert_eq!(
        resumed.text(),
        "exec-1 takes tasks\n",
        "resuming twice changes nothing"
    );
}

/// With a heartbeat of a minute, only a hint can wake the executor.
#[tokio::test]
async fn resuming_wakes_the_executor_at_once() {
    let flags = [
        "--name",
        "exec-1",
        "--set",
        "executor.heartbeat=60s",
        "--set",
        "executor.self_kill=300s",
        "--set",
        "judicator.lease=400s",
    ];
    let node = SingleNode::up(&flags);
    node.system.ready(1).await;
    let name = ExecutorName::new("exec-1").unwrap();
    for round in ["first", "second"] {
        let reason = model::DrainReason::new(round).unwrap();
        node.system.client.drain(&name, reason).await.unwrap();
        let waiting = add(&node, "true").await;
        node.system.client.resume(&name).await.unwrap();
        let began = std::time::Instant::now();
        node.system.done(waiting).await;
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{round}: {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn invalid_requests_to_drain_are_refused() {
    let node = SingleNode::up(&FLAGS);
    node.system.ready(1).await;
    let path = "/api/v1/executors/exec-1/drain";
    let check = async |body: Value, field: &str, words: &str| {
        let answer = node.web.post(path, &body).await;
        answer.assert_problem_at(422, field, words);
    };
    check(json!({}), "reason", "is missing").await;
    check(json!({"reason": "  "}), "reason", "must not be empty").await;
    check(json!({"reason": "a\nb"}), "reason", "one line").await;
    check(json!({"reason": "x".repeat(201)}), "reason", "at most 200").await;
    check(
        json!({"reason": "x", "force": true}),
        "force",
        "is not a known field",
    )
    .await;
    node.web.post_bytes(path, "reason=x").await.assert_problem(400);
    let form = node.web.request("POST", path).body("reason=x");
    let form = form.header("Content-Type", "application/x-www-form-urlencoded");
    cluster_tests::HttpResponse::of(form).await.assert_problem(415);
    for path in [
        "/api/v1/executors/exec-2/drain",
        "/api/v1/executors/exec-2/resume",
    ] {
        let problem = node
            .web
            .post(path, &json!({"reason": "x"}))
            .await
            .assert_problem(404);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("executor exec-2 does not exist"), "{detail}");
    }
    node.web
        .post("/api/v1/executors/a%20b/drain", &json!({"reason": "x"}))
        .await
        .assert_problem_at(422, "name", "may contain only");
    let unknown = node.cli.run(&["drain", "exec-2", "--reason", "x"]).await;
    unknown.assert_failure(1, &["executor exec-2 does not exist"]);
    assert_eq!(executor(&node).await["drain"], Value::Null);
}

#[tokio::test]
async fn executors_report_the_load_of_their_machine() {
    let node = SingleNode::up(&FLAGS);
    node.system.ready(1).await;
    let load = executor(&node).await["load"].clone();
    let number = |name: &str| {
        load[name]
            .as_f64()
            .unwrap_or_else(|| panic!("no {name} in {load}"))
    };
    assert!(number("load_average") >= 0.0 && number("cores") >= 1.0);
    assert!(number("memory_available") > 0.0 && number("memory_available") <= number("memory_total"));
    let list = node.cli.run(&["executors"]).await.assert_success();
    assert!(list.text().contains("LOAD"), "{list:?}");
}
