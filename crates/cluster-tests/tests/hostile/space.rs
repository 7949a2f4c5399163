//! Tasks whose files are larger than their space.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cluster_tests::{RawHttpClient, TestSystem, wait_until};
use serde_json::{Map, Value, json};

use crate::harness::HostileTestNode;
use crate::node_inventory::{cell_processes, groups_of};

const SOON: Duration = Duration::from_secs(30);

/// Asserts that the step failed at the first attempt, and returns its message. Another attempt would fail, too.
fn failed_step_message(task: &Value, step: &str, status: &str) -> String {
    let outcome = &task["result"][step];
    assert_eq!(task["status"], status, "{task:#}");
    assert_eq!(task["attempt"], 1, "{task:#}");
    assert_eq!(outcome["reason"], "disk_limit", "{task:#}");
    assert_eq!(outcome["exit_code"], Value::Null, "{task:#}");
    assert_eq!(outcome["stdout"], "", "{task:#}");
    outcome["stderr"].as_str().expect("text").to_string()
}

/// Many small files: each uses whole pages, so their sizes fit into the space, but the files do not.
fn many(space: u64, compile: Option<&str>) -> Value {
    let files: Map<String, Value> = (0..100).map(|n| (format!("f{n}"), json!("x"))).collect();
    let mut task = json!({
        "source": files,
        "execute": {"command": "ls | wc -l", "limits": {"space": space}},
    });
    if let Some(command) = compile {
        task["compile"] = json!({"command": command});
    }
    task
}

#[tokio::test]
async fn files_that_do_not_fit_fail_the_task() {
    let node = HostileTestNode::start().await;
    let space = 100 << 10;
    let said = failed_step_message(&node.task(&many(space, None)).await, "execute", "run_failed");
    assert_eq!(
        said,
        format!(
            "conclave: the task's files do not fit into its space of {space} bytes: raise `space` in its limits\n"
        )
    );
    let fits = node.task(&many(1 << 20, None)).await;
    assert_eq!(fits["result"]["execute"]["stdout"], "100\n", "{fits:#}");
}

/// The sizes are checked before anything is stored.
#[tokio::test]
async fn files_that_are_larger_than_their_space_are_refused_when_added() {
    let node = HostileTestNode::start().await;
    let web = RawHttpClient::new(&node.system.url(""));
    // Inline, and as a blob; each of them twice.
    for (size, space) in [(10 << 10, 16 << 10), (3 << 20, 4 << 20)] {
        let text = "x".repeat(size);
        let task = |space: u64| {
            json!({
                "source": {"one": text}, "data": {"two": text},
                "execute": {"command": "cat one data/two | wc -c", "limits": {"space": space}},
            })
        };
        let refused = web.post("/api/v1/tasks", &task(space)).await.assert_problem(422);
        assert_eq!(refused["field"], "execute.limits.space", "{refused:#}");
        assert_eq!(
            (&refused["limit"], &refused["actual"]),
            (
                &json!(format!("{space} bytes")),
                &json!(format!("{} bytes", 2 * size))
            ),
            "{refused:#}"
        );
        let fits = node.task(&task(3 * size as u64)).await;
        assert_eq!(
            fits["result"]["execute"]["stdout"],
            format!("{}\n", 2 * size),
            "{fits:#}"
        );
    }
    let input = json!({
        "execute": {"command": "wc -c", "input": "x".repeat(3 << 20), "limits": {"space": "1MiB"}},
    });
    let batch = json!({"tasks": [{"execute": {"command": "true"}}, input]});
    let refused = web.post("/api/v1/tasks/batch", &batch).await.assert_problem(422);
    assert_eq!(refused["field"], "tasks[1].execute.limits.space", "{refused:#}");
}

const MIB: u64 = 1 << 20;

/// A task with 24 MiB of files and 16 MiB of memory.
fn large(command: &str) -> Value {
    let text = "x".repeat(4 << 20);
    let files: Map<String, Value> = (0..6).map(|n| (format!("f{n}"), json!(text))).collect();
    json!({
        "data": files,
        "execute": {"command": command, "limits": {"memory": "16MiB", "space": "64MiB", "wall": "120s"}},
    })
}

/// A counter of the memory control group among these.
fn figure(groups: &[PathBuf], name: &str) -> Option<u64> {
    let found = groups
        .iter()
        .find_map(|group| fs::read_to_string(group.join(name)).ok());
    found?.trim().parse().ok()
}

#[tokio::test]
async fn the_tasks_files_have_a_separate_memory_allowance() {
    let node = HostileTestNode::start().await;
    let waiting = node.system.add(large("touch /tmp/here; exec sleep 600")).await;
    let groups = wait_until("the task to run", SOON, async || {
        let mut cell_processes = cell_processes().into_iter();
        let inmate =
            cell_processes.find(|inmate| inmate.name == "sleep" && inmate.path("tmp/here").exists())?;
        Some(groups_of(&inmate, &node.system))
    })
    .await;
    let held = figure(&groups, "memory.usage_in_bytes").expect("a figure");
    let limit = figure(&groups, "memory.limit_in_bytes").expect("a limit");
    assert!(held >= 24 * MIB, "{held}");
    // A little more than the files: page tables of the tmpfs are charged as well.
    assert!(limit.abs_diff((16 + 24) * MIB) < MIB, "{limit}");
    node.system.client.cancel(waiting.id).await.unwrap();

    // The task's files are not part of the reported memory.
    let read = node.task(&large("cat data/* | wc -c")).await;
    assert_eq!(
        read["result"]["execute"]["stdout"],
        format!("{}\n", 24 * MIB),
        "{read:#}"
    );
    let memory = read["result"]["execute"]["memory_bytes"].as_u64().expect("bytes");
    assert!(memory < 16 * MIB, "{read:#}");
    let greedy = node.task(&large("head -c 20m /dev/zero > /tmp/more")).await;
    assert_eq!(
        greedy["result"]["execute"]["reason"], "memory_limit",
        "{greedy:#}"
    );
    // The next task has the usual limit.
    let small = json!({"execute": {"command": "true", "limits": {"memory": "16MiB"}}});
    for _ in 0..4 {
        let next = node.task(&small).await;
        let memory = next["result"]["execute"]["memory_bytes"].as_u64().expect("bytes");
        assert!(memory < 8 * MIB, "{next:#}");
    }
    node.assert_clean().await;
}

#[tokio::test]
async fn files_of_the_compile_step_do_not_count_for_the_execute_step() {
    let node = HostileTestNode::start().await;
    let task = json!({
        "compile": {"command": "head -c 40M /dev/zero > big", "limits": {"memory": "64MiB", "space": "64MiB"}},
        "execute": {"command": "wc -c < big", "limits": {"memory": "16MiB", "space": "64MiB"}},
    });
    let task = node.task(&task).await;
    assert_eq!(task["status"], "success", "{task:#}");
    assert_eq!(task["result"]["execute"]["stdout"], "41943040\n", "{task:#}");
    assert_eq!(task["attempt"], 1, "{task:#}");
    node.assert_clean().await;
}

#[tokio::test]
async fn the_first_step_is_the_one_that_fails() {
    let node = HostileTestNode::start().await;
    let task = node.task(&many(100 << 10, Some("true"))).await;
    let said = failed_step_message(&task, "compile", "compile_failed");
    assert!(said.contains("102400 bytes"), "{said}");
    assert_eq!(task["result"]["execute"], Value::Null, "{task:#}");
}

#[tokio::test]
async fn too_many_files_fail_the_task() {
    let settings = ["sandbox.files=32".to_string()];
    let node = HostileTestNode::start_with(TestSystem::new().expect("a folder"), &settings).await;
    let task = |count: usize| {
        let files: Map<String, Value> = (0..count).map(|n| (format!("f{n}"), json!("x"))).collect();
        json!({"source": files, "execute": {"command": "ls | wc -l"}})
    };
    let said = failed_step_message(&node.task(&task(64)).await, "execute", "run_failed");
    assert!(said.contains("sandbox.files"), "{said}");
    let fits = node.task(&task(16)).await;
    assert_eq!(fits["result"]["execute"]["stdout"], "16\n", "{fits:#}");
}
