//! A backup of a running node, and a node that is started on a copy of it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster_tests::{ConclaveCli, TestSystem, shell};
use serde_json::json;

use crate::harness::text;

/// Large enough to be stored as a blob.
const LARGE: usize = 100 << 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_has_every_task_and_blob() {
    let system = TestSystem::new().unwrap();
    let up = system.up(&["--slots", "1"]).unwrap();
    let mut before = vec![system.run(shell("echo kept")).await.id];
    let large = "x".repeat(LARGE);
    let task = json!({
        "user": "tests",
        "execute": {"command": "wc -c < file"},
        "source": {"file": large},
    });
    let with_blob = system.run(task).await;
    for _ in 0..50 {
        before.push(system.add(shell("true")).await.id);
    }

    let stop = AtomicBool::new(false);
    let load = async {
        let mut added = 0;
        while !stop.load(Ordering::Relaxed) {
            system.add(shell("true")).await;
            added += 1;
        }
        added
    };
    let data = system.data();
    // As `up` creates it if tokens are configured.
    std::fs::write(data.join("cluster-secret"), "a-secret-long-enough\n").unwrap();
    let target = system.folder.path().join("backup");
    let backup = async {
        let cli = ConclaveCli::new("");
        let said = cli
            .run(&["backup", text(&target), "--data", text(&data)])
            .await
            .assert_success();
        // Each backup needs a new folder.
        let again = cli.run(&["backup", text(&target), "--data", text(&data)]).await;
        again.assert_failure(1, &[text(&target), "exists"]);
        stop.store(true, Ordering::Relaxed);
        said
    };
    let (added, said) = tokio::join!(load, backup);
    assert!(added > 0);
    assert!(
        said.text().contains("tasks in") && said.text().contains(" 1 blob in"),
        "{said:?}"
    );
    up.kill();
    let secret = std::fs::read_to_string(target.join("cluster-secret")).unwrap();
    assert_eq!(secret, "a-secret-long-enough\n");

    // As docs/single-machine.md says: a copy of the backup becomes the data folder.
    let restored = TestSystem::new().unwrap();
    let copied = Command::new("cp")
        .arg("-a")
        .arg(&target)
        .arg(restored.data())
        .status();
    assert!(copied.unwrap().success());
    let _up = restored.up(&[]).unwrap();
    for id in &before {
        assert!(restored.done(*id).await.done, "{id}");
    }
    let first = restored
        .client
        .get(before[0], Some(Duration::ZERO))
        .await
        .unwrap();
    let outcome = first.result.and_then(|result| result.execute).unwrap();
    assert_eq!(serde_json::to_value(&outcome).unwrap()["stdout"], "kept\n");
    assert!(restored.client.get(with_blob.id, None).await.unwrap().done);
    // A task can use the restored blob.
    let again = restored
        .run(json!({
            "user": "tests",
            "execute": {"command": "wc -c < file"},
            "source": {"file": large},
        }))
        .await;
    assert_eq!(again.status.as_str(), "success");
}
