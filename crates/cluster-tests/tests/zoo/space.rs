//! Those that bring more than they have asked room for.

use cluster_tests::System;
use serde_json::{Map, Value, json};

use crate::stage::Zoo;

/// Told at once and as the task's own failure: no other attempt would fare better.
fn refused(task: &Value, step: &str, status: &str) -> String {
    let outcome = &task["result"][step];
    assert_eq!(task["status"], status, "{task:#}");
    assert_eq!(task["attempt"], 1, "{task:#}");
    assert_eq!(outcome["reason"], "disk_limit", "{task:#}");
    assert_eq!(outcome["exit_code"], Value::Null, "{task:#}");
    assert_eq!(outcome["stdout"], "", "{task:#}");
    outcome["stderr"].as_str().expect("text").to_string()
}

#[tokio::test]
async fn files_that_do_not_fit_are_the_tasks_own_failure() {
    let zoo = Zoo::open().await;
    // Inside the task, and as a blob, which is what larger ones become.
    for (size, space) in [(20 << 10, 8 << 10), (3 << 20, 1 << 20)] {
        let task = |space: u64| {
            json!({
                "data": {"large": "x".repeat(size)},
                "execute": {"command": "wc -c < data/large", "limits": {"space": space}},
            })
        };
        let said = refused(&zoo.task(&task(space)).await, "execute", "run_failed");
        assert_eq!(
            said,
            format!(
                "conclave: the task's files do not fit into its space of {space} bytes: raise `space` in its limits\n"
            )
        );
        let fits = zoo.task(&task(2 * size as u64)).await;
        assert_eq!(
            fits["result"]["execute"]["stdout"],
            format!("{size}\n"),
            "{fits:#}"
        );
    }
}

#[tokio::test]
async fn input_that_does_not_fit_is_the_tasks_own_failure() {
    let zoo = Zoo::open().await;
    let task = json!({
        "execute": {"command": "wc -c", "input": "x".repeat(3 << 20), "limits": {"space": "1MiB"}},
    });
    let said = refused(&zoo.task(&task).await, "execute", "run_failed");
    assert!(said.contains("1048576 bytes"), "{said}");
}

#[tokio::test]
async fn what_a_compiler_wrote_is_not_held_against_the_program() {
    let zoo = Zoo::open().await;
    let task = json!({
        "compile": {"command": "head -c 40M /dev/zero > big", "limits": {"memory": "64MiB", "space": "64MiB"}},
        "execute": {"command": "wc -c < big", "limits": {"memory": "16MiB", "space": "64MiB"}},
    });
    let task = zoo.task(&task).await;
    assert_eq!(task["status"], "success", "{task:#}");
    assert_eq!(task["result"]["execute"]["stdout"], "41943040\n", "{task:#}");
    assert_eq!(task["attempt"], 1, "{task:#}");
    zoo.look_around().await;
}

#[tokio::test]
async fn the_first_step_is_the_one_that_fails() {
    let zoo = Zoo::open().await;
    let task = json!({
        "source": {"main.c": "x".repeat(3 << 20)},
        "compile": {"command": "gcc main.c", "limits": {"space": "1MiB"}},
        "execute": {"command": "./a.out"},
    });
    let task = zoo.task(&task).await;
    let said = refused(&task, "compile", "compile_failed");
    assert!(said.contains("1048576 bytes"), "{said}");
    assert_eq!(task["result"]["execute"], Value::Null, "{task:#}");
}

#[tokio::test]
async fn more_files_than_there_may_be_are_the_tasks_own_failure() {
    let settings = ["sandbox.files=32".to_string()];
    let zoo = Zoo::open_with(System::new().expect("a folder"), &settings).await;
    let task = |count: usize| {
        let files: Map<String, Value> = (0..count).map(|n| (format!("f{n}"), json!("x"))).collect();
        json!({"source": files, "execute": {"command": "ls | wc -l"}})
    };
    let said = refused(&zoo.task(&task(64)).await, "execute", "run_failed");
    assert!(said.contains("sandbox.files"), "{said}");
    let fits = zoo.task(&task(16)).await;
    assert_eq!(fits["result"]["execute"]["stdout"], "16\n", "{fits:#}");
}
