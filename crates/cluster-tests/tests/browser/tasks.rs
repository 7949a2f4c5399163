//! The list of tasks: searched, live, and changed in bulk.

use cluster_tests::{Key, Role, shell};
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

#[tokio::test]
async fn enter_in_a_checkbox_cancels_nothing() {
    let site = Site::up(&["--slots", "0"]).await;
    let id = site
        .add(shell_with("echo one", json!({"wait_for_executor": true})))
        .await;
    site.visit(async |browser| {
        browser.open("/").await;
        browser.click(Role::Field, &format!("Choose task {id}")).await;
        browser.wait_for_text("(1)").await;
        browser.press(&[Key::ENTER]).await;
        // The next request of the same browser: one that Enter had sent would be done by then.
        browser.click(Role::Button, "Retry").await;
        browser.wait_for_text("No task was retried").await;
        assert_eq!(browser.texts("tbody .status").await.len(), 1);
        browser.wait_for_text_in("tbody .status", "pending").await;
    })
    .await;
}

#[tokio::test]
async fn a_search_is_written_and_shown_in_the_words_of_the_reader() {
    let site = Site::up(&[]).await;
    site.run(shell_with(
        "echo needle",
        json!({"labels": {"assignment": "hw3"}}),
    ))
    .await;
    site.run(shell("echo hay")).await;
    site.visit(async |browser| {
        browser.move_to_zone("Asia/Tokyo").await;
        browser.open("/?from=2026-01-01T00:00:00Z").await;
        // As the list shows it.
        browser.wait_for_text_in("tbody .tag", "assignment=hw3").await;
        browser.fill("Label", "assignment=hw3").await;
        browser.click(Role::Button, "Search").await;
        browser.wait_for_path("/?*label=assignment*").await;
        browser.wait_until_without("echo hay").await;
        browser
            .wait_for_text_in(".active-filters", "label: assignment=hw3")
            .await;
        assert_eq!(browser.texts("tbody td.command").await, ["echo needle"]);
        // 00:00 UTC.
        let chips = browser.texts(".active-filters").await.concat();
        assert!(
            chips.contains("added from:") && chips.contains("09:00:00"),
            "{chips}"
        );
    })
    .await;
}

#[tokio::test]
async fn what_was_done_is_said_once() {
    let site = Site::up(&["--slots", "0"]).await;
    site.visit(async |browser| {
        browser.open("/?notice=cancelled-2&order=oldest").await;
        browser.wait_for_text("2 tasks cancelled").await;
        browser.wait_for_path("/?order=oldest").await;
        browser.reload().await;
        browser.wait_for_text("No tasks yet").await;
        assert!(!browser.text().await.contains("2 tasks cancelled"));
    })
    .await;
}

/// The words of the tables that are on more than one line.
const BROKEN_WORDS: &str = r"
    const whole = 'a.id, button, .button, .name a, .name, tbody .tag';
    const lines = element => {
        const range = document.createRange();
        range.selectNodeContents(element);
        return new Set(Array.from(range.getClientRects(), box => Math.round(box.bottom / 8))).size;
    };
    return Array.from(document.querySelectorAll(whole.replaceAll(/(^|, )/g, '$1main table ')))
        .filter(element => element.checkVisibility() && lines(element) > 1)
        .map(element => element.outerHTML.slice(0, 200));
";

#[tokio::test]
async fn names_of_any_length_break_neither_words_nor_buttons_of_the_tables() {
    let site = Site::up(&["--name", "a-shelf-in-the-cellar-17"]).await;
    site.run(shell_with(
        "echo short",
        json!({"user": "alice", "group": "sweep-17"}),
    ))
    .await;
    let long = json!({
        "user": "u".repeat(128),
        "group": "g".repeat(100),
        "labels": {"course": "algorithms-and-data", "team": "t".repeat(200)},
    });
    site.run(shell_with(&"exit 4 ".repeat(40), long)).await;
    site.visit(async |browser| {
        for width in [1024, 1280, 1440, 1920] {
            browser.resize((width, 800)).await;
            for path in ["/", "/executors"] {
                browser.open(path).await;
                browser.assert_no_sideways_scroll().await;
                let broken = browser.script(BROKEN_WORDS, &[]).await;
                assert_eq!(broken, json!([]), "{path} at {width} px");
            }
        }
    })
    .await;
}
