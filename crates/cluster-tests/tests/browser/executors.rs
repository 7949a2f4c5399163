//! Executors: drained with a reason, which a waiting task's page tells, and resumed. And the judicator of a single node.

use cluster_tests::{Role, shell};

use crate::harness::Site;

#[tokio::test]
async fn an_executor_is_drained_and_resumed() {
    let site = Site::up(&["--name", "shelf-1"]).await;
    let gate = site.gate("one");
    let running = site.add(shell(&format!("{}; echo ended", gate.wait()))).await;
    site.visit(async |browser| {
        browser.open("/executors").await;
        browser.assert_accessible().await;
        browser.click(Role::Link, "shelf-1").await;
        browser.wait_for_path("/executors/shelf-1").await;
        browser.assert_accessible().await;
        browser.fill("Reason", "its disk is replaced").await;
        browser.click(Role::Button, "Drain").await;
        browser.wait_for_text("its disk is replaced").await;
        browser.assert_accessible().await;
        // It ends what it has, and takes nothing new.
        let waiting = site.add(shell("echo later")).await;
        browser.open(&format!("/tasks/{waiting}")).await;
        browser.wait_for_text_in(".task-waiting", "drained").await;
        gate.open();
        site.system.done(running).await;
        browser.open("/executors/shelf-1").await;
        browser.click(Role::Button, "Resume").await;
        site.system.done(waiting).await;
        browser.open(&format!("/tasks/{waiting}")).await;
        browser.wait_for_text("later").await;
    })
    .await;
}

#[tokio::test]
async fn a_drained_executor_stays_drained_through_a_restart() {
    let site = Site::up(&["--name", "shelf-1"]).await;
    site.visit(async |browser| {
        browser.open("/executors/shelf-1").await;
        browser.fill("Reason", "its disk is replaced").await;
        browser.click(Role::Button, "Drain").await;
        browser.wait_for_text("its disk is replaced").await;
    })
    .await;
    let site = site.again(&["--name", "shelf-1"]).await;
    site.visit(async |browser| {
        browser.open("/executors").await;
        browser.wait_for_text("drained").await;
        browser.wait_for_text("its disk is replaced").await;
    })
    .await;
}

#[tokio::test]
async fn a_single_node_shows_its_judicator() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.open("/judicators").await;
        browser.wait_for_text("single node").await;
        browser.assert_accessible().await;
    })
    .await;
}
