//! Retention of done tasks and unused blobs.

use std::process::Command;
use std::time::Duration;

use cluster_tests::{FakeClock, HttpResponse, NodeProcess, RawHttpClient, TestSystem, wait_until};
use serde_json::{Value, json};

use crate::harness::{SingleNode, sha256_hex};

const TIMEOUT: Duration = Duration::from_secs(60);

async fn put(web: &RawHttpClient, text: &str) -> String {
    let hash = sha256_hex(text);
    let request = web.request("PUT", &format!("/api/v1/blobs/{hash}"));
    assert_eq!(HttpResponse::of(request.body(text.to_string())).await.status, 201);
    hash
}

async fn exists(web: &RawHttpClient, path: &str) -> bool {
    match web.get(path).await.status {
        200 => true,
        404 => false,
        other => panic!("{path}: {other}"),
    }
}

fn path(task: &Value) -> String {
    format!("/api/v1/tasks/{}", task["id"].as_str().expect("an id"))
}

/// Whether a file of the store has exactly this line.
fn is_on_disk(node: &SingleNode, line: &str) -> bool {
    let mut grep = Command::new("grep");
    grep.args(["-rlx", line]).arg(node.system.data().join("store"));
    !grep.output().expect("grep").stdout.is_empty()
}

async fn wait_until_removed(web: &RawHttpClient, path: &str) {
    wait_until(&format!("{path} to be removed"), TIMEOUT, async || {
        (!exists(web, path).await).then_some(())
    })
    .await;
}

/// The shortest retention. Used for a node that should remove something, but not while the test still needs a blob that it has
/// uploaded or a task that it waits for.
const SHORT_RETENTION_FLAGS: [&str; 4] = [
    "--set",
    "judicator.keep_done=1s",
    "--set",
    "judicator.keep_blobs=1s",
];

#[tokio::test]
async fn done_tasks_and_their_blobs_are_removed_and_others_stay() {
    let kept = ["--slots", "1"];
    let swept = [&kept[..], &SHORT_RETENTION_FLAGS].concat();
    let node = SingleNode::up(&kept);
    let web = &node.web;
    let gate = node.gate("gate");
    // A running task and a queued one, each with its own blob and one that all share.
    let shared = put(web, "shared").await;
    let (held, waiting) = (put(web, "held").await, put(web, "waiting").await);
    let gone = put(web, "gone").await;
    assert!(is_on_disk(&node, "gone"));
    let done = web
        .run(&json!({
            "source": {"a": {"blob": gone}, "b": {"blob": shared}},
            "execute": {"command": "cat a b", "input": "large\n".repeat(20_000)},
        }))
        .await;
    let running = json!({"source": {"a": {"blob": held}, "b": {"blob": shared}}, "execute": {"command": format!("{}; cat a b", gate.wait())}});
    let running = web.post("/api/v1/tasks", &running).await.json();
    wait_until("the task to run", TIMEOUT, async || {
        (web.get(&path(&running)).await.json()["status"] == "running").then_some(())
    })
    .await;
    let pending = json!({"data": {"a": {"blob": waiting}}, "execute": {"command": "cat data/a"}});
    let pending = web.post("/api/v1/tasks", &pending).await.json();
    let cancelled = web
        .post("/api/v1/tasks", &json!({"execute": {"command": "true"}}))
        .await
        .json();
    web.delete(&path(&cancelled)).await;

    let node = node.again(&swept);
    let web = &node.web;
    let offloaded = done["execute"]["input"]["blob"].as_str().unwrap();
    for gone in [
        path(&done),
        path(&cancelled),
        format!("/api/v1/blobs/{gone}"),
        format!("/api/v1/blobs/{offloaded}"),
    ] {
        wait_until_removed(web, &gone).await;
    }
    for kept in [
        path(&running),
        path(&pending),
        format!("/api/v1/blobs/{held}"),
        format!("/api/v1/blobs/{waiting}"),
        format!("/api/v1/blobs/{shared}"),
    ] {
        assert!(exists(web, &kept).await, "{kept} was removed");
    }
    let found = web.get("/api/v1/tasks").await.json();
    assert_eq!(found["tasks"].as_array().unwrap().len(), 2);
    let counts = web.get("/api/v1/stats").await.json()["counts"].clone();
    let all: u64 = counts
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(all, 2, "{counts}");
    // The file is removed from disk, too, a moment later.
    wait_until("the file of a removed blob to be gone", TIMEOUT, async || {
        (!is_on_disk(&node, "gone")).then_some(())
    })
    .await;

    let node = node.again(&kept);
    let web = &node.web;
    gate.open();
    let stdout = |task: Value| task["result"]["execute"]["stdout"].clone();
    assert_eq!(
        stdout(web.get(&format!("{}?wait=60", path(&running))).await.json()),
        "heldshared"
    );
    assert_eq!(
        stdout(web.get(&format!("{}?wait=60", path(&pending))).await.json()),
        "waiting"
    );
    let node = node.again(&swept);
    let web = &node.web;
    for gone in [
        path(&running),
        path(&pending),
        format!("/api/v1/blobs/{shared}"),
        format!("/api/v1/blobs/{waiting}"),
    ] {
        wait_until_removed(web, &gone).await;
    }
    // The id of a removed task may be used again, with other content.
    let again = json!({"id": done["id"], "execute": {"command": "echo new"}});
    let answer = web.post("/api/v1/tasks?wait=60", &again).await;
    assert_eq!((answer.status, stdout(answer.json())), (201, json!("new\n")));
}

/// Blobs that a result names are used, as those of a task's files are.
#[tokio::test]
async fn blobs_of_results_are_kept_as_long_as_their_task() {
    let node = SingleNode::up(&["--set", "judicator.keep_blobs=1s"]);
    let web = &node.web;
    let task = json!({"keep": ["kept"], "execute": {"command": "seq 1 50000; echo kept > kept"}});
    let task = web.run(&task).await;
    let file = format!("{}/files/kept", path(&task));
    let stdout = format!("{}/execute/stdout", path(&task));
    // Retention has run twice when two blobs that nobody uses are gone one after the other.
    for text in ["first", "second"] {
        let idle = put(web, text).await;
        let idle = node
            .system
            .data()
            .join("store/blobs")
            .join(&idle[..2])
            .join(&idle[2..]);
        wait_until("an idle blob to be removed", TIMEOUT, async || {
            (!idle.exists()).then_some(())
        })
        .await;
    }
    assert_eq!(web.get(&file).await.text(), "kept\n");
    assert_eq!(web.get(&stdout).await.text().lines().count(), 50_000);
    let blob = task["result"]["files"][0]["sha256"].as_str().unwrap();
    let blob = format!("/api/v1/blobs/{blob}");

    let node = node.again(&SHORT_RETENTION_FLAGS);
    wait_until_removed(&node.web, &path(&task)).await;
    wait_until_removed(&node.web, &blob).await;
    wait_until("the files of the blobs to be gone", TIMEOUT, async || {
        (!is_on_disk(&node, "kept") && !is_on_disk(&node, "49999")).then_some(())
    })
    .await;
}

/// The times of a task, in the order in which they must be.
fn times(task: &Value) -> Vec<String> {
    let times = ["add_time", "start_time", "report_time", "finish_time"];
    let times: Vec<_> = times
        .iter()
        .map(|time| task[time].as_str().expect("a time").to_string())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    times
}

#[tokio::test]
async fn a_jumping_clock_removes_nothing_early_and_times_stay_in_order() {
    let system = TestSystem::new().expect("a folder");
    let clock = FakeClock::new(&system.folder.path().join("clock"));
    // Done tasks are kept for a week, the default. Blobs are kept for a second, which shows when retention has run.
    let mut command = system.up_command(&["--slots", "2", "--set", "judicator.keep_blobs=1s"]);
    clock.give_to(&mut command);
    let up = NodeProcess::launch("up", system.folder.path(), command).expect("conclave up serves");
    let web = &RawHttpClient::new(&system.url(""));
    let retention_has_run = async |text: &str| {
        let hash = put(web, text).await;
        // A HEAD request would count as use.
        let file = system
            .data()
            .join("store/blobs")
            .join(&hash[..2])
            .join(&hash[2..]);
        // The file may already be removed; its folder stays.
        let is_its_folder_there = file.parent().is_some_and(|shelf| shelf.is_dir());
        assert!(is_its_folder_there, "{}", file.display());
        wait_until("an idle blob to be removed", TIMEOUT, async || {
            (!file.exists()).then_some(())
        })
        .await;
    };
    let run = json!({"execute": {"command": "echo kept"}});

    let before = web.run(&run).await;
    let gate = system.folder.path().join("gate");
    let waits = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    clock.set("+8d");
    let ahead = wait_until("the node's clock to jump", TIMEOUT, async || {
        let task = web.run(&run).await;
        (times(&task)[0][..10] > times(&before)[3][..10]).then_some(task)
    })
    .await;
    let across = json!({"execute": {"command": waits}});
    let across = web.post("/api/v1/tasks", &across).await.json();
    wait_until("the task to run", TIMEOUT, async || {
        (web.get(&path(&across)).await.json()["status"] == "running").then_some(())
    })
    .await;
    retention_has_run("ahead").await;
    assert!(
        exists(web, &path(&before)).await,
        "a result of a moment ago was removed"
    );

    clock.set("-8d");
    retention_has_run("back").await;
    std::fs::write(&gate, "").expect("the gate opens");
    let across = web.get(&format!("{}?wait=60", path(&across))).await.json();
    assert_eq!(across["status"], "success", "{across}");
    times(&across);
    let back = web.run(&run).await;
    times(&back);
    for task in [before, ahead, across, back] {
        assert!(exists(web, &path(&task)).await, "{task} was removed");
    }
    drop(up);
}
