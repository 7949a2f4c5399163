use std::time::Duration;

use cluster_tests::{Disk, System, await_that};

use crate::stage::Stage;

const SOON: Duration = Duration::from_secs(30);
const NO_EXECUTOR: &str = "no executor is connected: tasks wait until one joins";

#[tokio::test]
async fn a_full_disk_makes_the_node_unready_until_there_is_room() {
    let system = System::new().unwrap();
    let disk = Disk::mount(&system.data().join("store"), "16m");
    let stage = Stage::on(system, &[]);
    await_that("the node to be ready", SOON, async || {
        (stage.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    disk.fill(0);
    // An answer from before the disk was full serves for a second.
    let refused = await_that("the node to be unready", SOON, async || {
        let answer = stage.web.get("/readyz").await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    refused.problem(503);
    let store = stage.system.data().join("store").display().to_string();
    for reason in ["no room left", &store, "free some space"] {
        assert!(refused.text().contains(reason), "{}", refused.text());
    }
    assert_eq!(stage.web.get("/healthz").await.status, 200);
    disk.free();
    await_that("the node to be ready", SOON, async || {
        (stage.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
    // Unmounted before its folder is removed.
    drop(disk);
}

#[tokio::test]
async fn a_node_without_an_executor_is_ready_and_says_that_tasks_wait() {
    let stage = Stage::up(&["--slots", "0"]);
    let ready = await_that("the node to be ready", SOON, async || {
        let answer = stage.web.get("/readyz").await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(ready.text(), format!("ready; {NO_EXECUTOR}\n"));
    let stats = stage.web.get("/api/v1/stats").await.json();
    assert_eq!(stats["note"], NO_EXECUTOR);
    assert!(
        stage
            .cli
            .run(&["stats"])
            .await
            .well()
            .text()
            .contains(NO_EXECUTOR)
    );
    assert!(stage.web.get("/").await.text().contains(NO_EXECUTOR));

    let stage = Stage::up(&[]);
    await_that("the executor to be connected", SOON, async || {
        (stage.web.get("/readyz").await.text() == "ready\n").then_some(())
    })
    .await;
    assert!(stage.web.get("/api/v1/stats").await.json().get("note").is_none());
}
