//! Groups: followed until they are done, and what failed is retried.

use cluster_tests::Role;
use serde_json::json;

use crate::harness::{Site, shell_with};

#[tokio::test]
async fn a_group_is_followed_until_it_is_done_and_its_failures_are_retried() {
    let site = Site::up(&["--slots", "2"]).await;
    let gate = site.gate("one");
    let works = site.gate("works");
    let of_group = |command: &str| shell_with(command, json!({"group": "sweep 1", "user": "ada"}));
    for _ in 0..3 {
        site.run(of_group("true")).await;
    }
    site.run(of_group(&format!("[ -e {} ]", works.path().display())))
        .await;
    site.add(of_group(&gate.wait())).await;
    site.visit(async |browser| {
        browser.open("/groups").await;
        browser.click(Role::Link, "sweep 1").await;
        browser.wait_for_path("/groups/*").await;
        browser.wait_for_text("5 in all").await;
        let progress = "const bar = document.querySelector('progress'); return `${bar.value} of ${bar.max}`";
        assert_eq!(browser.script(progress, &[]).await, "4 of 5");
        browser.assert_accessible().await;
        gate.open();
        // Without a reload.
        let done = "const bar = document.querySelector('progress'); return !bar || bar.value === bar.max";
        browser.wait_for_truth("the group to be done", done, &[]).await;
        browser.wait_for_text("Finished").await;
        works.open();
        browser.click(Role::Button, "Retry 1").await;
        browser.wait_for_text("1 task added").await;
        // The new task takes the place of the old one.
        browser.wait_for_text("success 5").await;
        browser.wait_for_truth("the group to be done", done, &[]).await;
        browser.assert_accessible().await;
        // Its tasks are a list away.
        browser.click(Role::Link, "5 in all").await;
        browser.wait_for_path("/?*").await;
        assert_eq!(browser.count("tbody tr").await, 5);
    })
    .await;
}

#[tokio::test]
async fn the_rest_of_a_group_is_cancelled() {
    let site = Site::up(&["--slots", "0"]).await;
    for _ in 0..4 {
        site.add(shell_with(
            "true",
            json!({"group": "g", "user": "ada", "wait_for_executor": true}),
        ))
        .await;
    }
    site.visit(async |browser| {
        browser.open("/groups/g?user=ada").await;
        browser.click(Role::Button, "Cancel the rest").await;
        browser.accept_question().await;
        browser.wait_for_text("4 tasks cancelled").await;
    })
    .await;
}
