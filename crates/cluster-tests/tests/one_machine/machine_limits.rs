//! What a task may ask for is bounded by the capacity of the executors.

use std::time::Duration;

use cluster_tests::wait_until;
use serde_json::{Value, json};

use crate::harness::SingleNode;

const TASKS: &str = "/api/v1/tasks";
const GIB: u64 = 1 << 30;
/// The minimum that a task has of space or memory if it asks for none.
const MINIMUM: u64 = 16 << 20;

fn task(limits: &Value) -> Value {
    json!({"execute": {"command": "true", "limits": limits}})
}

const SOON: Duration = Duration::from_secs(30);

/// The capacity that the only executor reports.
async fn capacity(node: &SingleNode) -> Value {
    wait_until("the executor reports", SOON, async || {
        let listed = node.web.get("/api/v1/executors").await.json();
        let first = listed["executors"].get(0)?;
        Some(first["capacity"].clone())
    })
    .await
}

#[tokio::test]
async fn tasks_beyond_every_executors_capacity_are_refused() {
    let node = SingleNode::up(&["--isolation", "cell"]);
    let capacity = capacity(&node).await;
    let memory = capacity["memory"].as_u64().expect("bytes");
    let processes = capacity["processes"].as_u64().expect("a number");
    for (limits, field, limit, actual) in [
        (
            json!({"memory": "64TiB"}),
            "memory",
            format!("{memory} bytes"),
            format!("{} bytes", 64_u64 << 40),
        ),
        (
            json!({"space": i64::MAX}),
            "space",
            format!("{memory} bytes"),
            format!("{} bytes", i64::MAX),
        ),
        (
            json!({"memory": memory - MINIMUM + 1}),
            "memory",
            format!("{memory} bytes"),
            format!("{} bytes", memory + 1),
        ),
        (
            json!({"processes": 4_000_000}),
            "processes",
            processes.to_string(),
            "4000000".to_string(),
        ),
    ] {
        let problem = node.web.post(TASKS, &task(&limits)).await.assert_problem(422);
        assert_eq!(problem["field"], format!("execute.limits.{field}"), "{problem}");
        assert_eq!(
            (&problem["limit"], &problem["actual"]),
            (&json!(limit), &json!(actual))
        );
    }
    // The whole capacity can be used.
    let most = json!({"memory": memory - MINIMUM, "processes": processes});
    let done = node.web.run(&task(&most)).await;
    assert_eq!(done["status"], "success", "{done:#}");
    // All processes together stay within the slot's share of the machine's open files.
    let files = done["execute"]["limits"]["open_files"]
        .as_u64()
        .expect("a number");
    let within = capacity["open_files"].as_u64().expect("a number");
    assert!(files >= 16 && files <= (within / processes).max(16), "{files}");
    let asked = json!({"processes": processes, "open_files": files + 1});
    let problem = node.web.post(TASKS, &task(&asked)).await.assert_problem(422);
    assert_eq!(problem["field"], "execute.limits.open_files");
}

#[tokio::test]
async fn a_larger_executor_raises_the_bound() {
    let small = ["--set", "executor.slot_memory=2GiB"];
    let node = SingleNode::up(&small);
    let asked = task(&json!({"memory": "5GiB"}));
    let problem = node.web.post(TASKS, &asked).await.assert_problem(422);
    assert_eq!(problem["limit"], format!("{} bytes", 2 * GIB));
    let large = ["--set", "executor.slot_memory=8GiB"];
    let _executor = node.system.executor("large", &large).expect("an executor");
    wait_until("what it can give is known", SOON, async || {
        let answer = node.web.post(TASKS, &asked).await;
        (answer.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn conclave_config_shows_the_capacity() {
    let node = SingleNode::up(&["--isolation", "cell"]);
    let capacity = capacity(&node).await;
    let memory = capacity["memory"].as_u64().expect("bytes");
    let said = node.cli.run(&["config", "--json", "--isolation", "cell"]).await;
    let shown = said.assert_success().json_lines();
    let value = |key: &str| {
        let setting = shown.iter().find(|setting| setting["key"] == key);
        setting.expect("the key")["value"]
            .as_str()
            .expect("text")
            .to_string()
    };
    let mebibytes = |bytes: u64| match bytes.is_multiple_of(GIB) {
        true => format!("{}GiB", bytes >> 30),
        false => format!("{}MiB", bytes >> 20),
    };
    for (key, expected) in [
        ("executor.slot_memory", mebibytes(memory)),
        ("limits.max.memory", mebibytes(memory - MINIMUM)),
        ("limits.max.space", mebibytes(memory - MINIMUM)),
        ("limits.max.processes", capacity["processes"].to_string()),
    ] {
        assert_eq!(value(key), expected, "{key}");
    }
    for key in ["executor.reserve", "limits.max.open_files", "sandbox.open_files"] {
        assert_ne!(value(key), "auto", "{key}");
    }
}
