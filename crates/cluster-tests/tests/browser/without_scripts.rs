//! Every page works without scripts, except for live updates, the editor and the charts.

use cluster_tests::{Role, shell};

use crate::harness::{Site, shell_with};

#[tokio::test]
async fn a_program_is_run_from_the_plain_form() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.disable_scripts().await;
        browser.open("/run?language=python").await;
        assert_eq!(browser.count("html.scripted").await, 0, "scripts run");
        browser.fill("Content of file 1", "print(6 * 7, input())").await;
        browser.fill("Input", "from the form").await;
        browser.click(Role::Button, "Run").await;
        browser.wait_for_path("/tasks/*").await;
        // Without scripts a reader reloads.
        let path = browser.path().await;
        let id = path.trim_start_matches("/tasks/").parse().expect("an id");
        site.system.done(id).await;
        browser.reload().await;
        browser.wait_for_text("42 from the form").await;
        // The same again, edited.
        browser.click(Role::Link, "Run again edited").await;
        browser.wait_for_path("/run?from=*").await;
        assert!(browser.value("Content of file 1").await.contains("6 * 7"));
    })
    .await;
}

#[tokio::test]
async fn tasks_are_searched_chosen_and_cancelled() {
    let site = Site::up(&["--slots", "0"]).await;
    let queued = |command: &str| shell_with(command, serde_json::json!({"wait_for_executor": true}));
    for number in 1..=3 {
        site.add(queued(&format!("echo needle {number}"))).await;
    }
    site.add(queued("echo hay")).await;
    site.visit(async |browser| {
        browser.disable_scripts().await;
        browser.open("/").await;
        browser.fill("Command contains", "needle").await;
        browser.click(Role::Button, "Search").await;
        browser.wait_for_text("needle 3").await;
        assert!(!browser.text().await.contains("echo hay"));
        browser.click(Role::Button, "Cancel all").await;
        // The server asks, because nothing else can.
        browser.click(Role::Button, "Cancel 3 tasks").await;
        browser.wait_for_text("3 tasks cancelled").await;
        browser.open("/?status=pending").await;
        let left = browser.text().await;
        assert!(left.contains("echo hay") && !left.contains("needle"), "{left}");
    })
    .await;
}

#[tokio::test]
async fn every_page_shows_its_content() {
    let site = Site::up(&[]).await;
    let id = site.run(shell("echo hello")).await;
    site.visit(async |browser| {
        browser.disable_scripts().await;
        for (path, text) in [
            ("/", "echo hello"),
            (&format!("/tasks/{id}"), "hello"),
            ("/groups", "Groups"),
            ("/executors", "Slots in use"),
            ("/judicators", "Judicators"),
            ("/overview", "Overview"),
            ("/languages", "python"),
            ("/api/docs", "/api/v1/tasks"),
        ] {
            browser.open(path).await;
            browser.wait_for_text(text).await;
        }
    })
    .await;
}
