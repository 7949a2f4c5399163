//! The JSON of a task, on which every client relies.

use api::parse_time;
use serde_json::{Value, json};

use crate::harness::SingleNode;

fn request(blob: &str) -> Value {
    json!({
        "user": "alice", "priority": 0,
        "source": {
            "main.sh": "cat lib/util.h; read line; echo \"From $line\"; wc -c < big.bin",
            "lib/util.h": {"base64": "aGkK"},
            "big.bin": {"blob": blob},
            "run.sh": {"text": "#!/bin/sh\nexec sh main.sh", "executable": true},
            "raw": {"base64": "//4="},
        },
        "data": {"table.csv": "1,2"},
        "compile": {"command": "test -x run.sh", "limits": {"wall": "10s", "space": "64MiB"}},
        "execute": {
            "command": "./run.sh", "args": [], "env": {}, "input": "Hello", "network": "loopback",
            "limits": {
                "wall": "2m", "cpu": "90s", "memory": "256MiB", "output": "1MiB", "processes": 64,
                "file_size": "16MiB", "open_files": 256, "stack": "8MiB", "space": "32MiB",
            },
        },
    })
}

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn keys(value: &Value) -> Vec<&str> {
    let object = value
        .as_object()
        .unwrap_or_else(|| panic!("not an object: {value}"));
    object.keys().map(String::as_str).collect()
}

/// The task without the fields that the server adds.
fn as_written(task: &Value) -> Value {
    let mut task = task.clone();
    let object = task.as_object_mut().expect("a task");
    for name in [
        "id",
        "status",
        "done",
        "executor",
        "attempt",
        "add_time",
        "start_time",
        "report_time",
        "finish_time",
        "result",
        "ran_on",
        "retry_of",
        "trouble",
    ] {
        assert!(object.remove(name).is_some(), "no {name} in the answer");
    }
    task
}

#[tokio::test]
async fn a_task_has_the_documented_fields() {
    let node = SingleNode::up(&[]);
    let put = node
        .web
        .request("PUT", &format!("/api/v1/blobs/{EMPTY}"))
        .send()
        .await;
    assert_eq!(put.unwrap().status(), 201);
    let answer = node.web.post("/api/v1/tasks?wait=60", &request(EMPTY)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/json");
    let task = answer.json();
    let id = task["id"].as_str().unwrap();
    assert_eq!(answer.header("location"), format!("/api/v1/tasks/{id}"));
    assert_eq!(
        keys(&task),
        [
            "add_time",
            "attempt",
            "attempts",
            "cases",
            "check",
            "compile",
            "data",
            "done",
            "execute",
            "executor",
            "finish_time",
            "group",
            "groups",
            "id",
            "interact",
            "keep",
            "labels",
            "language",
            "priority",
            "problem",
            "ran_on",
            "report_time",
            "result",
            "retry_of",
            "root",
            "source",
            "start_time",
            "status",
            "stop",
            "trouble",
            "user"
        ]
    );
    for (name, expected) in [
        ("user", json!("alice")),
        ("priority", json!(0)),
        ("status", json!("success")),
        ("done", json!(true)),
        ("executor", Value::Null),
        ("attempt", json!(1)),
        ("attempts", json!(3)),
        ("group", Value::Null),
        ("keep", json!([])),
        ("labels", json!({})),
        ("language", Value::Null),
        ("retry_of", Value::Null),
        ("root", Value::Null),
        ("trouble", Value::Null),
        ("data", json!({"table.csv": "1,2"})),
    ] {
        assert_eq!(task[name], expected, "{name}");
    }
    check_result(&task["result"]);
    check_times(&task);

    // The response has what was sent, in canonical form, with the operator's limits filled in.
    assert_eq!(task["source"]["lib/util.h"], "hi\n");
    assert_eq!(task["source"]["raw"], json!({"base64": "//4="}));
    assert_eq!(task["source"]["big.bin"], json!({"blob": EMPTY}));
    assert_eq!(task["source"]["run.sh"]["executable"], true);
    assert_eq!(
        task["execute"]["limits"],
        json!({
            "wall": 120, "cpu": 90, "memory": 268_435_456, "output": 1_048_576, "processes": 64,
            "file_size": 16_777_216, "open_files": 256, "stack": 8_388_608, "space": 67_108_864,
        })
    );
    assert_eq!(task["compile"]["limits"]["wall"], 10);
    // Both steps have the larger of their spaces.
    assert_eq!(task["compile"]["limits"]["space"], 67_108_864);
    assert_eq!(
        (&task["compile"]["network"], &task["execute"]["network"]),
        (&Value::Null, &json!("loopback"))
    );

    assert_eq!(node.web.get(&format!("/api/v1/tasks/{id}")).await.json(), task);

    // The response can be sent again as a request.
    let again = node.web.post("/api/v1/tasks?wait=60", &as_written(&task)).await;
    assert_eq!(again.status, 201, "{}", again.text());
    let again = again.json();
    assert_ne!(again["id"], task["id"]);
    assert_eq!(as_written(&again), as_written(&task));
    assert_eq!(
        again["result"]["execute"]["stdout"],
        task["result"]["execute"]["stdout"]
    );
}

fn check_result(result: &Value) {
    assert_eq!(
        keys(result),
        [
            "cases",
            "compile",
            "execute",
            "files",
            "files_left_out",
            "max_score",
            "score",
            "verdict"
        ]
    );
    assert_eq!(result["files"], json!([]));
    assert_eq!(
        result["files_left_out"],
        json!({"count": 0, "bytes": 0, "why": null})
    );
    for (step, stdout) in [("compile", ""), ("execute", "hi\nFrom Hello\n0\n")] {
        let outcome = &result[step];
        assert_eq!(
            keys(outcome),
            [
                "cpu_seconds",
                "exit_code",
                "memory_bytes",
                "reason",
                "signal",
                "stderr",
                "stderr_bytes",
                "stderr_truncated",
                "stdout",
                "stdout_bytes",
                "stdout_truncated",
                "wall_seconds"
            ]
        );
        assert_eq!(outcome["reason"], "exited");
        assert_eq!(outcome["exit_code"], 0);
        assert_eq!(outcome["signal"], Value::Null);
        assert_eq!(outcome["stdout"], stdout);
        assert_eq!(outcome["stderr"], "");
        assert_eq!(outcome["stdout_bytes"], stdout.len());
        assert_eq!(outcome["stderr_bytes"], 0);
        assert_eq!(outcome["stdout_truncated"], false);
        assert_eq!(outcome["stderr_truncated"], false);
        let number = |name: &str| outcome[name].as_f64().expect("a number");
        assert!(
            number("wall_seconds") > 0.0 && number("cpu_seconds") > 0.0,
            "{outcome}"
        );
        assert!(
            number("memory_bytes") > 100_000.0,
            "a process is larger than that: {outcome}"
        );
    }
}

fn check_times(task: &Value) {
    let time = |name: &str| {
        let text = task[name].as_str().unwrap_or_else(|| panic!("no {name}"));
        assert!(text.ends_with('Z'), "{text} is not in UTC");
        parse_time(text).expect("a time")
    };
    let (add, start, finish) = (time("add_time"), time("start_time"), time("finish_time"));
    assert!(add <= start && start <= finish, "{task:#}");
}

#[tokio::test]
async fn omitted_fields_are_filled_in() {
    let node = SingleNode::up(&[]);
    let task = node.web.run(&json!({"execute": {"command": "true"}})).await;
    assert_eq!(task["user"], "anonymous");
    assert_eq!(task["compile"], Value::Null);
    assert_eq!(task["result"]["compile"], Value::Null);
    assert_eq!(task["source"], json!({}));
    assert_eq!(
        task["execute"],
        json!({
            "command": "true", "args": [], "env": {}, "input": "", "network": null,
            "limits": {
                "wall": 60, "cpu": "none", "memory": "none", "output": "none", "processes": "none",
                "file_size": "none", "open_files": "none", "stack": "none", "space": "none",
            },
        })
    );
    // Null is the same as an omitted field, and a number the same as text with a unit.
    let task = node
        .web
        .run(&json!({
            "id": null, "user": null, "compile": null,
            "execute": {
                "command": ["true"], "network": null,
                "limits": {"wall": 1.5, "cpu": null, "memory": 1e9, "output": "64k", "stack": 1e6, "space": "1g"},
            },
        }))
        .await;
    assert_eq!(task["execute"]["command"], json!(["true"]));
    assert_eq!(
        task["execute"]["limits"],
        json!({
            "wall": 1.5, "cpu": "none", "memory": 1_000_000_000, "output": 65536, "processes": "none",
            "file_size": "none", "open_files": "none", "stack": 1_000_000, "space": 1 << 30,
        })
    );
}

#[tokio::test]
async fn a_wait_may_time_out_before_the_task_is_done() {
    let node = SingleNode::up(&[]);
    let gate = node.gate("go");
    let command = json!({"execute": {"command": gate.wait()}});
    let answer = node.web.post("/api/v1/tasks?wait=0.1", &command).await;
    assert_eq!(answer.status, 201);
    let task = answer.json();
    let path = format!("/api/v1/tasks/{}", task["id"].as_str().unwrap());
    for query in ["", "?wait=0", "?wait=50ms"] {
        let task = node.web.get(&format!("{path}{query}")).await.json();
        assert_eq!((&task["done"], &task["result"]), (&json!(false), &Value::Null));
        assert_eq!(task["finish_time"], Value::Null);
    }
    gate.open();
    let task = node.web.get(&format!("{path}?wait=60")).await.json();
    assert_eq!(task["status"], "success");
    // A done task is returned at once; a longer wait than allowed is shortened.
    assert_eq!(node.web.get(&format!("{path}?wait=100h")).await.json(), task);
    for wrong in ["-1", "soon", "nan", ""] {
        let answer = node.web.get(&format!("{path}?wait={wrong}")).await;
        assert_eq!(answer.assert_problem(422)["field"], "wait");
    }
    node.web
        .get(&format!("{path}?wiat=1"))
        .await
        .assert_problem_at(422, "wiat", "'wait'");
}
