//! Those that bring more than they have asked room for.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cluster_tests::{System, Web, await_that};
use serde_json::{Map, Value, json};

use crate::scene::{groups_of, inmates};
use crate::stage::Zoo;

const SOON: Duration = Duration::from_secs(30);

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

/// Files take whole pages, so what they bring may fit by its size and not when it is laid out.
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
async fn files_that_do_not_fit_are_the_tasks_own_failure() {
    let zoo = Zoo::open().await;
    let space = 100 << 10;
    let said = refused(&zoo.task(&many(space, None)).await, "execute", "run_failed");
    assert_eq!(
        said,
        format!(
            "conclave: the task's files do not fit into its space of {space} bytes: raise `space` in its limits\n"
        )
    );
    let fits = zoo.task(&many(1 << 20, None)).await;
    assert_eq!(fits["result"]["execute"]["stdout"], "100\n", "{fits:#}");
}

/// By their sizes alone, before anything is stored or laid out.
#[tokio::test]
async fn files_that_are_larger_than_their_space_are_refused_when_added() {
    let zoo = Zoo::open().await;
    let web = Web::new(&zoo.system.url(""));
    // Inside the task, and as a blob, which is what larger ones become; each of them twice.
    for (size, space) in [(10 << 10, 16 << 10), (3 << 20, 4 << 20)] {
        let text = "x".repeat(size);
        let task = |space: u64| {
            json!({
                "source": {"one": text}, "data": {"two": text},
                "execute": {"command": "cat one data/two | wc -c", "limits": {"space": space}},
            })
        };
        let refused = web.post("/api/v1/tasks", &task(space)).await.problem(422);
        assert_eq!(refused["field"], "execute.limits.space", "{refused:#}");
        assert_eq!(
            (&refused["limit"], &refused["actual"]),
            (
                &json!(format!("{space} bytes")),
                &json!(format!("{} bytes", 2 * size))
            ),
            "{refused:#}"
        );
        let fits = zoo.task(&task(3 * size as u64)).await;
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
    let refused = web.post("/api/v1/tasks/batch", &batch).await.problem(422);
    assert_eq!(refused["field"], "tasks[1].execute.limits.space", "{refused:#}");
}

const MIB: u64 = 1 << 20;

/// Brings 24 MiB of files, beside 16 MiB of memory.
fn large(command: &str) -> Value {
    let text = "x".repeat(4 << 20);
    let files: Map<String, Value> = (0..6).map(|n| (format!("f{n}"), json!(text))).collect();
    json!({
        "data": files,
        "execute": {"command": command, "limits": {"memory": "16MiB", "space": "64MiB", "wall": "120s"}},
    })
}

/// A figure of the control group of memory, of these.
fn figure(groups: &[PathBuf], name: &str) -> Option<u64> {
    let found = groups
        .iter()
        .find_map(|group| fs::read_to_string(group.join(name)).ok());
    found?.trim().parse().ok()
}

#[tokio::test]
async fn files_count_as_memory_beside_that_of_the_command() {
    let zoo = Zoo::open().await;
    let waiting = zoo.system.add(large("touch /tmp/here; exec sleep 600")).await;
    let groups = await_that("the task to run", SOON, async || {
        let mut inmates = inmates().into_iter();
        let inmate = inmates.find(|inmate| inmate.name == "sleep" && inmate.path("tmp/here").exists())?;
        Some(groups_of(&inmate, &zoo.system))
    })
    .await;
    let held = figure(&groups, "memory.usage_in_bytes").expect("a figure");
    let limit = figure(&groups, "memory.limit_in_bytes").expect("a limit");
    assert!(held >= 24 * MIB, "{held}");
    // A little more than the files: the kernel's lists of their pages are charged as well.
    assert!(limit.abs_diff((16 + 24) * MIB) < MIB, "{limit}");
    zoo.system.client.cancel(waiting.id).await.unwrap();

    // What it brought is not what it has used.
    let read = zoo.task(&large("cat data/* | wc -c")).await;
    assert_eq!(
        read["result"]["execute"]["stdout"],
        format!("{}\n", 24 * MIB),
        "{read:#}"
    );
    let memory = read["result"]["execute"]["memory_bytes"].as_u64().expect("bytes");
    assert!(memory < 16 * MIB, "{read:#}");
    let greedy = zoo.task(&large("head -c 20m /dev/zero > /tmp/more")).await;
    assert_eq!(
        greedy["result"]["execute"]["reason"], "memory_limit",
        "{greedy:#}"
    );
    // The next task has nothing of it.
    let small = json!({"execute": {"command": "true", "limits": {"memory": "16MiB"}}});
    for _ in 0..4 {
        let next = zoo.task(&small).await;
        let memory = next["result"]["execute"]["memory_bytes"].as_u64().expect("bytes");
        assert!(memory < 8 * MIB, "{next:#}");
    }
    zoo.look_around().await;
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
    let task = zoo.task(&many(100 << 10, Some("true"))).await;
    let said = refused(&task, "compile", "compile_failed");
    assert!(said.contains("102400 bytes"), "{said}");
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
