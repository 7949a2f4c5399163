//! Workspaces: private while a task runs, and clean for the next task.

use std::path::PathBuf;
use std::time::Duration;

use cluster_tests::{HttpResponse, RawHttpClient, wait_until};
use serde_json::{Value, json};

use crate::harness::{SingleNode, sha256_hex};

/// Lists everything that an earlier task could have left in the workspace and around it.
const LOOK: &str = "ls -A . \"$TMPDIR\" ..; stat -c '%a %u %F' . \"$TMPDIR\" ..";

async fn run(web: &RawHttpClient, command: &str) -> String {
    let task = web.run(&json!({"execute": {"command": command}})).await;
    let outcome = &task["result"]["execute"];
    assert!(outcome.is_object(), "{command}: {task:#}");
    outcome["stdout"].as_str().expect("stdout").to_string()
}

async fn put(web: &RawHttpClient, text: &str) -> Value {
    let hash = sha256_hex(text);
    let request = web.request("PUT", &format!("/api/v1/blobs/{hash}"));
    let status = HttpResponse::of(request.body(text.to_string())).await.status;
    assert!(matches!(status, 200 | 201), "{status}");
    json!({"blob": hash})
}

#[tokio::test]
async fn a_workspace_is_clean_for_the_next_task() {
    // One slot, so that each task uses the workspace of the one before it.
    let node = SingleNode::up(&["--slots", "1"]);
    let web = &node.web;
    let fresh = run(web, LOOK).await;
    assert_eq!(run(web, LOOK).await, fresh);
    for trace in [
        "touch left .hidden $TMPDIR/left",
        "mkdir -p a/b/c; ln -s /etc/passwd link; ln -s . loop; mkfifo pipe; chmod 0 a/b a",
        "python3 -c 'import os\nfor i in range(2000): os.mkdir(\"d\"); os.chdir(\"d\")'",
        "chmod 0 . $TMPDIR",
        "chmod 777 . $TMPDIR; chmod g+s .",
        "chown 1:1 . $TMPDIR",
        "rm -rf $PWD",
        "rm -rf $TMPDIR; touch $TMPDIR",
        "touch ../left; mkdir ../more",
        "chmod 0 ..",
        "chmod 777 ..",
        "cd ..; rm -rf *",
        "cd ..; mv box elsewhere; mkdir box; touch box/x",
        "d=$(dirname $PWD); cd /; rm -rf $d",
        "d=$(dirname $PWD); cd /; rm -rf $d; touch $d",
    ] {
        run(web, trace).await;
        assert_eq!(run(web, LOOK).await, fresh, "after: {trace}");
    }
}

#[tokio::test]
async fn links_left_by_a_task_are_not_followed() {
    let node = SingleNode::up(&["--slots", "1"]);
    let web = &node.web;
    let victim = node.system.folder.path().join("victim");
    let precious = victim.join("precious");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(&precious, "as it was").unwrap();
    let (folder, file) = (victim.display(), precious.display());
    // Each of these would lead the executor outside of the workspace if it followed links.
    for trap in [
        format!("ln -s {folder} link; ln -s {file} f"),
        format!("cd ..; rm -rf box; ln -s {folder} box"),
        format!("rm -rf $TMPDIR; ln -s {folder} $TMPDIR"),
        format!("rm -f ../input; ln -s {file} ../input"),
        format!("rm -f ../attempt; ln -s {file} ../attempt"),
        format!("d=$(dirname $PWD); cd /; rm -rf $d; ln -s {folder} $d"),
    ] {
        let blob = put(web, "from a blob").await;
        for (command, input) in [
            (trap.as_str(), json!("")),
            ("cat - f d/f data/f; touch $TMPDIR/t", blob.clone()),
        ] {
            let task = web
                .run(&json!({
                    "source": {"f": blob, "d/f": "x"}, "data": {"f": "y"},
                    "execute": {"command": command, "input": input},
                }))
                .await;
            let outcome = &task["result"]["execute"];
            if command != trap {
                assert_eq!(
                    outcome["stdout"], "from a blobfrom a blobxy",
                    "after {trap}: {task:#}"
                );
            }
        }
        let left: Vec<_> = std::fs::read_dir(&victim)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["precious"], "{trap}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "as it was", "{trap}");
    }
}

fn files(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(path)),
            _ => found.push(path),
        }
    }
    found
}

#[tokio::test]
async fn no_file_of_a_task_stays_on_the_executor() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let secret = "a-secret-of-this-task";
    let blob = put(web, secret).await;
    for command in [
        "cat f; cp f more; cp f $TMPDIR/x; cat",
        "cp f more; kill -9 $$",
        "cp f more; exit 3",
    ] {
        let task = json!({"source": {"f": secret}, "execute": {"command": command, "input": secret}});
        web.run(&task).await;
    }
    web.run(&json!({"execute": {"command": "cat", "input": blob}}))
        .await;
    // The judicator has the result; only a blob may stay in the cache.
    let executor = node.system.data().join("executor");
    wait_until("nothing to be left", Duration::from_secs(30), async || {
        let left = files(executor.clone())
            .into_iter()
            .filter(|path| !path.components().any(|part| part.as_os_str() == "cache"))
            .filter(|path| std::fs::read(path).is_ok_and(|bytes| contains(&bytes, secret.as_bytes())))
            .count();
        (left == 0).then_some(())
    })
    .await;
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
