//! What a task may ask for is bounded by what the machines have.

use std::time::Duration;

use cluster_tests::await_that;
use serde_json::{Value, json};

use crate::stage::Stage;

const TASKS: &str = "/api/v1/tasks";
const GIB: u64 = 1 << 30;
/// What a task keeps at least that asks for no space, or no memory.
const LEAST: u64 = 16 << 20;

fn task(limits: &Value) -> Value {
    json!({"execute": {"command": "true", "limits": limits}})
}

const SOON: Duration = Duration::from_secs(30);

/// What the only executor says that it can give to a task.
async fn capacity(stage: &Stage) -> Value {
    await_that("the executor reports", SOON, async || {
        let listed = stage.web.get("/api/v1/executors").await.json();
        let first = listed["executors"].get(0)?;
        Some(first["capacity"].clone())
    })
    .await
}

#[tokio::test]
async fn what_no_executor_can_give_is_refused() {
    let stage = Stage::up(&["--isolation", "cell"]);
    let capacity = capacity(&stage).await;
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
            json!({"memory": memory - LEAST + 1}),
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
        let problem = stage.web.post(TASKS, &task(&limits)).await.problem(422);
        assert_eq!(problem["field"], format!("execute.limits.{field}"), "{problem}");
        assert_eq!(
            (&problem["limit"], &problem["actual"]),
            (&json!(limit), &json!(actual))
        );
    }
    // The most that there is can be had.
    let most = json!({"memory": memory - LEAST, "processes": processes});
    let done = stage.web.run(&task(&most)).await;
    assert_eq!(done["status"], "success", "{done:#}");
    // All processes together stay within the files that the machine has for the slot.
    let files = done["execute"]["limits"]["open_files"]
        .as_u64()
        .expect("a number");
    let within = capacity["open_files"].as_u64().expect("a number");
    assert!(files >= 16 && files <= (within / processes).max(16), "{files}");
    let asked = json!({"processes": processes, "open_files": files + 1});
    let problem = stage.web.post(TASKS, &task(&asked)).await.problem(422);
    assert_eq!(problem["field"], "execute.limits.open_files");
}

#[tokio::test]
async fn an_executor_that_joins_can_give_more() {
    let small = ["--set", "executor.slot_memory=2GiB"];
    let stage = Stage::up(&small);
    let asked = task(&json!({"memory": "5GiB"}));
    let problem = stage.web.post(TASKS, &asked).await.problem(422);
    assert_eq!(problem["limit"], format!("{} bytes", 2 * GIB));
    let large = ["--set", "executor.slot_memory=8GiB"];
    let _executor = stage.system.executor("large", &large).expect("an executor");
    await_that("what it can give is known", SOON, async || {
        let answer = stage.web.post(TASKS, &asked).await;
        (answer.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn settings_show_what_this_machine_gives() {
    let stage = Stage::up(&["--isolation", "cell"]);
    let capacity = capacity(&stage).await;
    let memory = capacity["memory"].as_u64().expect("bytes");
    let said = stage.cli.run(&["config", "--json", "--isolation", "cell"]).await;
    let shown = said.well().json_lines();
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
        ("limits.max.memory", mebibytes(memory - LEAST)),
        ("limits.max.space", mebibytes(memory - LEAST)),
        ("limits.max.processes", capacity["processes"].to_string()),
    ] {
        assert_eq!(value(key), expected, "{key}");
    }
    for key in ["executor.reserve", "limits.max.open_files", "sandbox.open_files"] {
        assert_ne!(value(key), "auto", "{key}");
    }
}
