//! The page of a task: followed while it runs, its failure in words, its files, why it waits.

use cluster_tests::{Browser, Role, shell};
use serde_json::json;

use crate::harness::{Site, shell_with};

#[tokio::test]
async fn a_task_is_followed_until_it_is_done() {
    let site = Site::up(&[]).await;
    let gate = site.gate("one");
    let command = format!(
        "echo first part; echo warning >&2; {}; echo second part; exit 3",
        gate.wait()
    );
    let id = site.add(shell(&command)).await;
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{id}")).await;
        browser.wait_for_text("first part").await;
        browser.wait_for_text("warning").await;
        browser.wait_for_text("running").await;
        browser.script("window.sameDocument = true", &[]).await;
        browser.assert_accessible().await;
        gate.open();
        browser.wait_for_text("second part").await;
        browser.wait_for_text("Exited with 3").await;
        let same = browser.script("return window.sameDocument === true", &[]).await;
        assert_eq!(same, true, "the page was reloaded");
        // The text is there once.
        let outputs = browser.texts("pre.output-text").await;
        assert_eq!(outputs.concat().matches("first part").count(), 1, "{outputs:?}");
        browser.assert_accessible().await;
        browser.click(Role::Button, "Run again").await;
        browser.wait_for_text("Repeats").await;
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_explained_in_words() {
    let site = Site::up(&[]).await;
    let limited =
        |limits: serde_json::Value, command: &str| json!({"execute": {"command": command, "limits": limits}});
    let cases = [
        (
            json!({"language": "c", "source_code": "int main() { return missing; }"}),
            "missing",
        ),
        (limited(json!({"wall": "300ms"}), "sleep 60"), "Ran out of time"),
        (limited(json!({"output": "1KiB"}), "yes"), "Wrote too much"),
        (shell("kill -SEGV $$"), "SIGSEGV"),
        (shell("no-such-command"), "not found"),
    ];
    site.visit(async |browser| {
        for (task, words) in cases {
            let id = site.run(task).await;
            browser.open(&format!("/tasks/{id}")).await;
            browser.wait_for_text(words).await;
        }
    })
    .await;
}

#[tokio::test]
async fn kept_files_are_previewed() {
    let site = Site::up(&[]).await;
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let command = format!(
        "mkdir out; echo {png} | base64 -d > out/dot.png; printf 'name,score\\nada,42\\n\"b, c\",7\\n' > out/table.csv; \
         echo a note > out/note.txt"
    );
    let id = site.run(shell_with(&command, json!({"keep": ["out/*"]}))).await;
    site.visit(async |browser| {
        let task = format!("/tasks/{id}");
        browser.open(&task).await;
        let loaded =
            "return Array.from(document.images).some(image => image.complete && image.naturalWidth === 1)";
        browser
            .wait_for_truth("the picture to be shown", loaded, &[])
            .await;
        browser.click(Role::Link, "out/table.csv").await;
        browser.wait_for("table").await;
        let cells = browser.texts("td").await;
        assert!(
            cells.contains(&"42".to_string()) && cells.contains(&"b, c".to_string()),
            "{cells:?}"
        );
        browser.assert_accessible().await;
        browser.open(&task).await;
        browser.click(Role::Link, "out/note.txt").await;
        browser.wait_for_text("a note").await;
        browser.assert_accessible().await;
        browser.open(&task).await;
        browser.click(Role::Link, "out/dot.png").await;
        browser
            .wait_for_truth("the picture to be shown", loaded, &[])
            .await;
        browser.assert_accessible().await;
    })
    .await;
}

#[tokio::test]
async fn a_long_output_is_searched_to_its_end() {
    let site = Site::up(&[]).await;
    let command = "echo first line; yes 'a line that says nothing' | head -n 6000; echo NEEDLE at the end";
    let id = site.run(shell(command)).await;
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{id}")).await;
        browser.wait_for_text("are shown and searched").await;
        let field = "Search in stdout of the execute step";
        browser.fill(field, "NEEDLE").await;
        // Not that there is none at all.
        browser.wait_for_text("none in this part").await;
        browser.fill(field, "first line").await;
        browser.wait_for_text("1 of 1 in this part").await;
        browser.click(Role::Link, "Show more").await;
        browser.wait_for_text_in("pre.output-text", "first line").await;
        browser.fill("Search in Text of the file", "NEEDLE").await;
        browser.wait_for_text("1 of 1").await;
        assert!(!browser.text().await.contains("in this part"));
        browser.assert_accessible().await;
    })
    .await;
}

#[tokio::test]
async fn the_page_says_when_the_server_is_gone() {
    let Site { up, system, .. } = Site::up(&[]).await;
    Browser::visit(&system.url(""), async |browser| {
        browser.tolerate("net::ERR");
        browser.tolerate("the server responded with a status of 503");
        // What htmx says of a stream that ends.
        browser.tolerate("[object Event]");
        browser.open("/").await;
        browser.wait_for_text("No tasks").await;
        up.kill();
        browser.wait_for_text("The server sends no updates").await;
        browser.assert_accessible().await;
        let _again = system.up(&[]).expect("conclave up serves");
        browser.wait_until_without("The server sends no updates").await;
    })
    .await;
}

#[tokio::test]
async fn colours_of_terminals_are_shown() {
    let site = Site::up(&[]).await;
    let id = site
        .run(shell(
            "printf 'plain \\033[31mred words\\033[0m \\033[1mbold\\033[0m'",
        ))
        .await;
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{id}")).await;
        browser.wait_for_text("plain red words bold").await;
        let colour = "const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); \
                      while (walker.nextNode()) if (walker.currentNode.data === arguments[0]) \
                      return getComputedStyle(walker.currentNode.parentElement).color";
        let [red, plain] = [json!("red words"), json!("plain ")].map(|text| vec![text]);
        let (red, plain) = (
            browser.script(colour, &red).await,
            browser.script(colour, &plain).await,
        );
        assert!(red.is_string() && red != plain, "{red} {plain}");
    })
    .await;
}

#[tokio::test]
async fn the_page_says_why_a_task_waits() {
    let site = Site::up(&["--slots", "1"]).await;
    let gate = site.gate("one");
    site.add(shell(&gate.wait())).await;
    site.add(shell("echo in between")).await;
    let last = site.add(shell("echo at last")).await;
    let lacking = site
        .add(shell_with(
            "true",
            json!({"root": "gpu-2027", "wait_for_executor": true}),
        ))
        .await;
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{lacking}")).await;
        browser.wait_for_text("gpu-2027").await;
        browser.wait_for_text_in(".task-waiting", "No executor").await;
        browser.open(&format!("/tasks/{last}")).await;
        browser.wait_for_text_in(".task-waiting", "slot").await;
        browser.assert_accessible().await;
        gate.open();
        // Without a reload.
        browser.wait_for_text("at last").await;
        browser.wait_for_text("success").await;
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_task_says_that_it_had_begun() {
    let site = Site::up(&[]).await;
    let gate = site.gate("never");
    let id = site
        .add(shell(&format!("echo first part; {}", gate.wait())))
        .await;
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{id}")).await;
        browser.wait_for_text("first part").await;
        browser.control(Role::Link, "Raw").await;
        browser.click(Role::Button, "Cancel").await;
        browser
            .wait_for_text_in(".step", "cancelled after it had begun")
            .await;
        // There is nothing behind these links any more.
        browser.wait_for_text_in(".output-head", "nothing is kept").await;
        assert!(!browser.has_control(Role::Link, "Raw").await);
        browser.reload().await;
        browser
            .wait_for_text_in(".step", "cancelled after it had begun")
            .await;
    })
    .await;
}
