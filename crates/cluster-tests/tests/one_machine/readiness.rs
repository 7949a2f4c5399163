use std::time::Duration;

use cluster_tests::{TestSystem, TmpfsDisk, wait_until};

use crate::harness::SingleNode;

const SOON: Duration = Duration::from_secs(30);
const NO_EXECUTOR: &str = "no executor is connected: tasks wait until one joins";

#[tokio::test]
async fn a_full_disk_makes_the_node_unready_until_space_is_freed() {
    let system = TestSystem::new().unwrap();
    let disk = TmpfsDisk::mount(&system.data().join("store"), "16m");
    let node = SingleNode::on(system, &[]);
    wait_until("the node to be ready", SOON, async || {
        (node.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    disk.fill(0);
    // A cached answer from before the disk was full is valid for a second.
    let refused = wait_until("the node to be unready", SOON, async || {
        let answer = node.web.get("/readyz").await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    refused.assert_problem(503);
    let store = node.system.data().join("store").display().to_string();
    for reason in ["no space left on device", &store, "free some space"] {
        assert!(refused.text().contains(reason), "{}", refused.text());
    }
    assert_eq!(node.web.get("/healthz").await.status, 200);
    disk.free();
    wait_until("the node to be ready", SOON, async || {
        (node.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    // Unmount before the folder is removed.
    drop(disk);
}

#[tokio::test]
async fn a_node_without_an_executor_is_ready_and_notes_that_tasks_wait() {
    let node = SingleNode::up(&["--slots", "0"]);
    let ready = wait_until("the node to be ready", SOON, async || {
        let answer = node.web.get("/readyz").await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(ready.text(), format!("ready; {NO_EXECUTOR}\n"));
    let stats = node.web.get("/api/v1/stats").await.json();
    assert_eq!(stats["note"], NO_EXECUTOR);
    assert!(
        node.cli
            .run(&["stats"])
            .await
            .assert_success()
            .text()
            .contains(NO_EXECUTOR)
    );
    assert!(node.web.get("/").await.text().contains(NO_EXECUTOR));

    let node = SingleNode::up(&[]);
    wait_until("the executor to be connected", SOON, async || {
        (node.web.get("/readyz").await.text() == "ready\n").then_some(())
    })
    .await;
    assert!(node.web.get("/api/v1/stats").await.json().get("note").is_none());
}
