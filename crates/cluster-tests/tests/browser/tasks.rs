//! The list of tasks: searched, live, and changed in bulk.

use cluster_tests::{Role, shell};
use serde_json::json;

use crate::harness::{Site, shell_with};

/// The word is among the filters, too.
const NOTHING_RUNS: &str = "return !document.querySelector('tbody').innerText.includes('running')";

#[tokio::test]
async fn rows_appear_without_a_reload_and_stop_while_the_page_is_hidden() {
    let site = Site::up(&[]).await;
    site.run(shell("echo the first")).await;
    site.visit(async |browser| {
        browser.open("/").await;
        browser.wait_for_text("echo the first").await;
        browser.script("window.sameDocument = true", &[]).await;
        let gate = site.gate("one");
        let id = site
            .add(shell(&format!("{}; echo the second", gate.wait())))
            .await;
        browser.wait_for_text("the second").await;
        browser.wait_for_text_in("tbody", "running").await;
        gate.open();
        site.system.done(id).await;
        browser.wait_for_truth("the task to end", NOTHING_RUNS, &[]).await;
        // While it is hidden, it asks for nothing. The other browser has long seen the task.
        browser.hide().await;
        site.visit(async |other| {
            other.open("/").await;
            site.run(shell("echo the third")).await;
            other.wait_for_text("echo the third").await;
            other.wait_for_truth("the task to end", NOTHING_RUNS, &[]).await;
        })
        .await;
        assert!(!browser.text().await.contains("the third"));
        browser.show().await;
        browser.wait_for_text("echo the third").await;
        let same = browser.script("return window.sameDocument === true", &[]).await;
        assert_eq!(same, true, "the page was reloaded");
    })
    .await;
}

#[tokio::test]
async fn tasks_are_found_and_the_search_is_in_the_address() {
    let site = Site::up(&[]).await;
    site.run(shell_with(
        "echo needle",
        json!({"user": "ada", "labels": {"assignment": "hw3"}}),
    ))
    .await;
    site.run(shell_with("exit 4", json!({"user": "bob"}))).await;
    site.run(json!({"user": "bob", "execute": {"command": "sleep 60", "limits": {"wall": "200ms"}}}))
        .await;
    site.visit(async |browser| {
        browser.open("/").await;
        assert_eq!(browser.count("tbody tr").await, 3);
        browser.fill("User", "bob").await;
        browser.click(Role::Button, "Search").await;
        browser.wait_for_path("/?*user=bob*").await;
        browser.wait_until_without("echo needle").await;
        assert_eq!(browser.count("tbody tr").await, 2);
        // Status and reason.
        browser.open("/?reason=wall_limit").await;
        assert_eq!(browser.count("tbody tr").await, 1);
        browser.open("/?label=assignment:hw3").await;
        browser.wait_for_text("echo needle").await;
        assert_eq!(browser.count("tbody tr").await, 1);
        browser.back().await;
        browser.wait_for_path("/?reason=wall_limit").await;
    })
    .await;
}

#[tokio::test]
async fn chosen_tasks_are_cancelled() {
    let site = Site::up(&["--slots", "0"]).await;
    let queued = |command: &str| shell_with(command, json!({"wait_for_executor": true}));
    let first = site.add(queued("echo one")).await;
    let second = site.add(queued("echo two")).await;
    site.add(queued("echo three")).await;
    site.visit(async |browser| {
        browser.open("/").await;
        for id in [first, second] {
            browser.click(Role::Field, &format!("Choose task {id}")).await;
        }
        browser.click(Role::Button, "Cancel").await;
        browser.wait_for_text("2 tasks cancelled").await;
        browser.open("/?status=pending").await;
        assert_eq!(browser.texts("tbody td.command").await, ["echo three"]);
    })
    .await;
}
