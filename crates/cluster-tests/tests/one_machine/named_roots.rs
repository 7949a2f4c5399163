//! Tasks that name the root file system in which they run, while roots are added and replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster_tests::{CommandOutput, StreamedResponse, wait_until};
use serde_json::{Value, json};

use crate::harness::{SingleNode, pack_tar, text};

const SOON: Duration = Duration::from_secs(60);

/// An archive of a root with a shell, and a file that tells the roots apart.
fn archive(node: &SingleNode, version: &str) -> PathBuf {
    let tree = node.system.folder.path().join(format!("tree-{version}"));
    for folder in ["bin", "opt"] {
        fs::create_dir_all(tree.join(folder)).expect("a folder");
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox")).expect("busybox-static is installed");
    for program in ["sh", "cat", "sleep", "ls", "echo"] {
        symlink("busybox", tree.join("bin").join(program)).expect("a link");
    }
    fs::write(tree.join("opt/version"), version).expect("a file");
    pack(&tree)
}

fn pack(tree: &Path) -> PathBuf {
    let archive = tree.with_extension("tar");
    pack_tar(tree, &archive, &[]);
    archive
}

async fn import(node: &SingleNode, version: &str) -> CommandOutput {
    import_as(node, "tiny", &archive(node, version)).await
}

async fn import_as(node: &SingleNode, name: &str, archive: &Path) -> CommandOutput {
    let data = node.system.data();
    let args = [
        "root",
        "import",
        text(archive),
        "--name",
        name,
        "--data",
        text(&data),
    ];
    node.cli.run(&args).await.assert_success()
}

/// Waits until the executor has reported the root, and returns its entry.
async fn root(node: &SingleNode) -> Value {
    wait_until("the executor has the root", SOON, async || {
        let answer = node.web.get("/api/v1/roots").await.json();
        answer["roots"]
            .as_array()
            .and_then(|roots| roots.first().cloned())
    })
    .await
}

#[tokio::test]
async fn a_task_sees_the_root_that_it_names() {
    let node = SingleNode::up(&["--isolation", "cell"]);
    let list = json!({"root": "tiny", "execute": {"command": "cat /opt/version; ls /"}});
    node.web.post("/api/v1/tasks", &list).await.assert_problem_at(
        422,
        "root",
        "no executor has the root 'tiny'",
    );
    // The executor notices a root that is added while it runs.
    import(&node, "one").await;
    let entry = root(&node).await;
    assert_eq!((&entry["name"], &entry["executors"]), (&json!("tiny"), &json!(1)));
    assert_eq!(entry["sha256"].as_str().map(str::len), Some(64), "{entry}");
    let task = node.web.run(&list).await;
    assert_eq!(task["root"], "tiny");
    let stdout = task["result"]["execute"]["stdout"]
        .as_str()
        .unwrap_or_else(|| panic!("{task:#}"));
    assert!(stdout.starts_with("one") && !stdout.contains("usr"), "{stdout}");
    // Other tasks see the machine's programs.
    let task = node
        .web
        .run(&json!({"execute": {"command": "ls /usr/bin/env; ls /opt"}}))
        .await;
    assert!(
        task["result"]["execute"]["stdout"]
            .as_str()
            .unwrap()
            .starts_with("/usr/bin/env"),
        "{task:#}"
    );
    // A language is looked for in each root.
    let task = json!({"language": "text", "root": "tiny", "source_code": "hello"});
    let task = node.web.run(&task).await;
    assert_eq!(task["result"]["execute"]["stdout"], "hello", "{task:#}");
    let python = json!({"language": "python", "root": "tiny", "source_code": ""});
    let refused = node.web.post("/api/v1/tasks", &python).await;
    refused.assert_problem_at(422, "language", "no executor has 'python' in the root 'tiny'");
    node.system.leftovers().wait_until_clean().await;
}

#[tokio::test]
async fn a_root_is_replaced_while_tasks_run_in_it() {
    let node = SingleNode::up(&["--isolation", "cell", "--slots", "2"]);
    import(&node, "one").await;
    let first = root(&node).await;
    let forever = json!({"root": "tiny", "execute": {"command": "while :; do cat /opt/version; echo; sleep 0.1; done"}});
    let running = node.web.post("/api/v1/tasks", &forever).await.json();
    let id = running["id"].as_str().expect("an id");
    let path = format!("/api/v1/tasks/{id}/execute/stdout?follow=true");
    let mut output = StreamedResponse::open(node.web.request("GET", &path)).await;
    output
        .wait_for("the first line", |bytes| bytes.starts_with(b"one\n"))
        .await;
    import(&node, "two").await;
    let version = json!({"root": "tiny", "execute": {"command": "cat /opt/version"}});
    // Each slot uses the new root at once, also a slot with wardens in the old one.
    for _ in 0..6 {
        let task = node.web.run(&version).await;
        assert_eq!(task["result"]["execute"]["stdout"], "two", "{task:#}");
    }
    // The running task still sees the old one, whole.
    let before = output.received().len();
    output
        .wait_for("more lines", |bytes| bytes.len() > before + 12)
        .await;
    let lines = String::from_utf8_lossy(&output.received()).into_owned();
    assert!(lines.lines().all(|line| "one".starts_with(line)), "{lines}");
    node.web.delete(&format!("/api/v1/tasks/{id}")).await;
    wait_until("the other hash", SOON, async || {
        let roots = node.web.get("/api/v1/roots").await.json();
        let entry = roots["roots"][0].clone();
        (entry["sha256"] != first["sha256"] && entry["sha256"].is_string()).then_some(())
    })
    .await;
    // When no warden holds it, the old generation is removed.
    wait_until("one generation", SOON, async || {
        let entries = fs::read_dir(node.system.data().join("roots/tiny")).ok()?;
        let generations =
            entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.file_name() != "current"));
        (generations.count() == 1).then_some(())
    })
    .await;
    let data = node.system.data();
    let verify = ["root", "verify", "tiny", "--data", text(&data)];
    node.cli.run(&verify).await.assert_success();
    node.system.leftovers().wait_until_clean().await;
}

/// The operator gives every cell a folder at a path where this root has a link.
#[tokio::test]
async fn a_root_that_cells_cannot_use_is_not_offered() {
    let folder = tempfile::tempdir().expect("a folder");
    let bind = format!("sandbox.binds={}:/shared", text(folder.path()));
    let node = SingleNode::up(&["--isolation", "cell", "--set", &bind]);
    let tree = node.system.folder.path().join("tree-broken");
    fs::create_dir(&tree).expect("a folder");
    symlink("bin", tree.join("shared")).expect("a link");
    import_as(&node, "broken", &pack(&tree)).await;
    let log = "cells cannot use the root 'broken'";
    wait_until(log, SOON, async || node.up.log().contains(log).then_some(())).await;
    // Roots that cells can use are offered beside it.
    import(&node, "one").await;
    assert_eq!(root(&node).await["name"], "tiny");
    let task = json!({"root": "broken", "execute": {"command": "true"}});
    let refused = node.web.post("/api/v1/tasks", &task).await;
    refused.assert_problem_at(422, "root", "no executor has the root 'broken'");
    let task = node
        .web
        .run(&json!({"root": "tiny", "execute": {"command": "ls -d /shared"}}))
        .await;
    assert_eq!(task["result"]["execute"]["stdout"], "/shared\n", "{task:#}");
}

/// A folder that the operator maintains may be on a disk that is not mounted for a while.
#[tokio::test]
async fn a_root_that_breaks_is_withdrawn_until_it_works_again() {
    let node = SingleNode::up(&[]);
    let tree = archive(&node, "lab").with_extension("");
    let config = node.system.folder.path().join("conclave.toml");
    let roots = format!("[roots.lab]\npath = {:?}\n", text(&tree));
    fs::write(&config, roots).expect("a file");
    let node = node.again(&["--isolation", "cell", "--config", text(&config)]);
    assert_eq!(root(&node).await["name"], "lab");
    let elsewhere = tree.with_extension("elsewhere");
    fs::rename(&tree, &elsewhere).expect("another name");
    let task = json!({"root": "lab", "execute": {"command": "cat /opt/version"}});
    let id = node.web.post("/api/v1/tasks", &task).await.json()["id"].clone();
    wait_until("no executor offers the root", SOON, async || {
        let roots = node.web.get("/api/v1/roots").await.json();
        (roots == json!({"roots": []})).then_some(())
    })
    .await;
    // Other tasks run meanwhile.
    let other = node.web.run(&json!({"execute": {"command": "true"}})).await;
    assert_eq!(other["status"], "success", "{other:#}");
    fs::rename(&elsewhere, &tree).expect("its own name");
    let path = format!("/api/v1/tasks/{}?wait=60", id.as_str().expect("an id"));
    let task = node.web.get(&path).await.json();
    assert_eq!(task["result"]["execute"]["stdout"], "lab", "{task:#}");
}
