//! What is long done makes room; what is not stays.

use std::process::Command;
use std::time::Duration;

use cluster_tests::{Answer, FakeClock, Node, System, Web, await_that};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(60);

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn put(web: &Web, text: &str) -> String {
    let hash = hash(text);
    let request = web.request("PUT", &format!("/api/v1/blobs/{hash}"));
    assert_eq!(Answer::of(request.body(text.to_string())).await.status, 201);
    hash
}

async fn exists(web: &Web, path: &str) -> bool {
    match web.get(path).await.status {
        200 => true,
        404 => false,
        other => panic!("{path}: {other}"),
    }
}

fn path(task: &Value) -> String {
    format!("/api/v1/tasks/{}", task["id"].as_str().expect("an id"))
}

/// Whether there is a file of the store with just this line.
fn is_on_disk(stage: &Stage, line: &str) -> bool {
    let mut grep = Command::new("grep");
    grep.args(["-rlx", line]).arg(stage.system.data().join("store"));
    !grep.output().expect("grep").stdout.is_empty()
}

async fn await_gone(web: &Web, path: &str) {
    await_that(&format!("{path} to be removed"), PATIENCE, async || {
        (!exists(web, path).await).then_some(())
    })
    .await;
}

/// The least that can be asked for. A life of the node has this where something is to go, and not where a test could be
/// too slow for it: to use a blob that it has put, or to read what it has waited for.
const BRIEFLY: [&str; 4] = [
    "--set",
    "judicator.keep_done=1s",
    "--set",
    "judicator.keep_blobs=1s",
];

#[tokio::test]
async fn done_tasks_and_their_blobs_go_and_others_stay() {
    let kept = ["--slots", "1"];
    let swept = [&kept[..], &BRIEFLY].concat();
    let stage = Stage::up(&kept);
    let web = &stage.web;
    let gate = stage.gate("gate");
    // One that runs on, one that waits behind it; each with a blob of its own and one that all share.
    let shared = put(web, "shared").await;
    let (held, waiting) = (put(web, "held").await, put(web, "waiting").await);
    let gone = put(web, "gone").await;
    assert!(is_on_disk(&stage, "gone"));
    let done = web
        .run(&json!({
            "source": {"a": {"blob": gone}, "b": {"blob": shared}},
            "execute": {"command": "cat a b", "input": "large\n".repeat(20_000)},
        }))
        .await;
    let running = json!({"source": {"a": {"blob": held}, "b": {"blob": shared}}, "execute": {"command": format!("{}; cat a b", gate.wait())}});
    let running = web.post("/api/v1/tasks", &running).await.json();
    await_that("the task to run", PATIENCE, async || {
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

    let stage = stage.again(&swept);
    let web = &stage.web;
    let offloaded = done["execute"]["input"]["blob"].as_str().unwrap();
    for gone in [
        path(&done),
        path(&cancelled),
        format!("/api/v1/blobs/{gone}"),
        format!("/api/v1/blobs/{offloaded}"),
    ] {
        await_gone(web, &gone).await;
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
    // On the disk as well, if a moment later.
    await_that("the file of a removed blob to be gone", PATIENCE, async || {
        (!is_on_disk(&stage, "gone")).then_some(())
    })
    .await;

    let stage = stage.again(&kept);
    let web = &stage.web;
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
    let stage = stage.again(&swept);
    let web = &stage.web;
    for gone in [
        path(&running),
        path(&pending),
        format!("/api/v1/blobs/{shared}"),
        format!("/api/v1/blobs/{waiting}"),
    ] {
        await_gone(web, &gone).await;
    }
    // An id that was used once may be used again, with other content.
    let again = json!({"id": done["id"], "execute": {"command": "echo new"}});
    let answer = web.post("/api/v1/tasks?wait=60", &again).await;
    assert_eq!((answer.status, stdout(answer.json())), (201, json!("new\n")));
}

/// The times of a task, which must not run backwards.
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
async fn a_clock_that_jumps_removes_nothing_early_and_times_do_not_run_backwards() {
    let system = System::new().expect("a folder");
    let clock = FakeClock::new(&system.folder.path().join("clock"));
    // Done tasks are kept for a week, as by default. That blobs are kept for a second shows when retention was at work.
    let mut command = system.up_command(&["--slots", "2", "--set", "judicator.keep_blobs=1s"]);
    clock.give_to(&mut command);
    let up = Node::launch("up", system.folder.path(), command).expect("conclave up serves");
    let web = &Web::new(&system.url(""));
    let retention_has_run = async |text: &str| {
        let hash = put(web, text).await;
        // To ask for it would be to use it.
        let file = system
            .data()
            .join("store/blobs")
            .join(&hash[..2])
            .join(&hash[2..]);
        // The file itself may be gone already; its folder stays.
        let is_its_folder_there = file.parent().is_some_and(|shelf| shelf.is_dir());
        assert!(is_its_folder_there, "{}", file.display());
        await_that("an idle blob to be removed", PATIENCE, async || {
            (!file.exists()).then_some(())
        })
        .await;
    };
    let run = json!({"execute": {"command": "echo kept"}});

    let before = web.run(&run).await;
    let gate = system.folder.path().join("gate");
    let waits = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    clock.set("+8d");
    let ahead = await_that("the node's clock to jump", PATIENCE, async || {
        let task = web.run(&run).await;
        (times(&task)[0][..10] > times(&before)[3][..10]).then_some(task)
    })
    .await;
    let across = json!({"execute": {"command": waits}});
    let across = web.post("/api/v1/tasks", &across).await.json();
    await_that("the task to run", PATIENCE, async || {
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
