//! The pages of a gateway of a real cluster, with etcd and MongoDB.

use cluster_tests::{Browser, HTTP, Key, Role, TestCluster};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_run_through_a_cluster() {
    let cluster = TestCluster::with_executors_and_gateway(3).await;
    let site = format!("http://{}", cluster.node("g1").address_of(HTTP));
    Browser::visit(&site, async |browser| {
        browser.open("/run?language=bash").await;
        browser.wait_for(".cm-content").await;
        browser.fill("Content of", "echo through the cluster").await;
        browser.press(&[Key::CONTROL, Key::ENTER]).await;
        browser.wait_for_text_in("#run-result", "Succeeded").await;
        browser
            .wait_for_text_in("#run-result pre", "through the cluster")
            .await;
        browser.click(Role::Link, "Tasks").await;
        browser.wait_for_path("/").await;
        browser.wait_for_text("success").await;

        // Who leads, and the members of etcd and MongoDB.
        browser.click(Role::Link, "Judicators").await;
        for word in [
            "j1",
            "j2",
            "j3",
            "leader",
            "etcd",
            "MongoDB",
            "primary",
            "secondary",
        ] {
            browser.wait_for_text(word).await;
        }
        browser.assert_accessible().await;
        browser.click(Role::Link, "Executors").await;
        for word in ["e1", "e2"] {
            browser.wait_for_text(word).await;
        }
        // A drained executor stays drained, whichever judicator answers.
        browser.click(Role::Link, "e1").await;
        browser.fill("Reason", "new disks").await;
        browser.click(Role::Button, "Drain").await;
        browser.wait_for_text("new disks").await;
        browser.click(Role::Link, "Overview").await;
        browser.wait_for_path("/overview").await;
    })
    .await;
}
