//! The page of a task, its files and its live events.

use std::time::Duration;

use cluster_tests::{StreamedResponse, wait_until};
use serde_json::{Value, json};

use crate::harness::{SingleNode, percent_encoded};

/// Everything that could run as a script or change how other text is shown.
const HOSTILE: &str =
    "</pre><script>alert(1)</script><svg onload=alert(1)>\u{202e}\u{1b}[31m\u{1b}]0;t\u{7}{{x}}\"'&";

async fn page(node: &SingleNode, path: &str) -> String {
    let answer = node.web.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert!(answer.header("content-type").starts_with("text/html"), "{path}");
    assert!(
        answer
            .header("content-security-policy")
            .starts_with("default-src 'none'")
    );
    answer.text()
}

/// Panics if the HTML has an element or a character that only a task can have put there.
fn assert_harmless(html: &str, path: &str) {
    for bad in ["<script>", "<svg onload", "\u{202e}", "\u{1b}"] {
        assert!(!html.contains(bad), "{path} has {bad:?}:\n{html}");
    }
}

#[tokio::test]
async fn whatever_a_task_names_or_writes_is_text() {
    let node = SingleNode::up(&[]);
    let name = "a<img src=x onerror=alert(1)>\u{202e}'\".txt";
    let task = node
        .web
        .run(&json!({
            "user": "ada",
            "source": {(name): HOSTILE},
            "data": {"table.csv": format!("a,b\n\"{}\",2\n", HOSTILE.replace('"', ""))},
            "keep": ["out/*"],
            "labels": {"k": "<script>alert(1)</script>\u{202e}"},
            "execute": {
                "command": "mkdir out; cat > out/page.html; cp out/page.html out/image.svg; cat out/page.html; cat out/page.html >&2; exit 3",
                "args": [], "env": {"X": HOSTILE}, "input": HOSTILE,
            },
        }))
        .await;
    assert_eq!(task["status"], "run_failed", "{task:#}");
    let id = task["id"].as_str().expect("an id");
    let view = |place: &str, path: &str| {
        let path = percent_encoded(path).replace('/', "%2F");
        format!("/tasks/{id}/view?in={place}&path={path}")
    };
    for path in [
        format!("/tasks/{id}"),
        format!("/tasks/{id}/fragment"),
        view("source", name),
        view("data", "table.csv"),
        format!("{}&text=true", view("data", "table.csv")),
        view("input", ""),
        view("kept", "out/page.html"),
        view("kept", "out/image.svg"),
    ] {
        let html = page(&node, &path).await;
        assert_harmless(&html, &path);
        assert!(
            html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
            "{path} does not show it:\n{html}"
        );
    }
    let shown = page(&node, &format!("/tasks/{id}")).await;
    assert!(shown.contains("Exited with 3"), "{shown}");
    assert!(
        !shown.contains("<img"),
        "an SVG file is not shown as an image: {shown}"
    );
    let live = node.web.get(&format!("/live/tasks/{id}")).await.text();
    assert_harmless(&live, "the live events");
    assert!(
        live.contains("event: reset") && live.contains("event: execute-stderr"),
        "{live}"
    );
    assert!(live.ends_with("event: end\ndata: end\n\n"), "{live}");
    // A browser saves these files and never runs them.
    let blob = task["result"]["files"][0]["sha256"].as_str().expect("a hash");
    for path in [
        format!("/api/v1/tasks/{id}/files/out/page.html"),
        format!("/api/v1/tasks/{id}/files/out/image.svg"),
        format!("/api/v1/blobs/{blob}"),
    ] {
        let file = node.web.get(&path).await;
        assert_eq!(file.header("content-type"), "application/octet-stream", "{path}");
        assert_eq!(file.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(file.header("content-security-policy"), "sandbox", "{path}");
        assert!(
            file.header("content-disposition").starts_with("attachment"),
            "{path}"
        );
    }
    for (path, status) in [
        (view("source", "other"), 404),
        (view("kept", "out/other"), 404),
        (format!("/tasks/{id}/view"), 422),
    ] {
        assert_eq!(node.web.get(&path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn only_the_beginning_of_a_large_file_is_shown() {
    let node = SingleNode::up(&[]);
    let command = "mkdir out; head -c 3000000 /dev/zero | tr '\\0' x > out/long.txt; \
                   printf '\\211PNG\\r\\n\\032\\n' > out/picture.png; seq 1 1000 > out/numbers.csv";
    let task = node
        .web
        .run(&json!({"keep": ["out/*"], "execute": {"command": command}}))
        .await;
    let id = task["id"].as_str().expect("an id");
    let view = async |name: &str| page(&node, &format!("/tasks/{id}/view?in=kept&path=out%2F{name}")).await;
    let long = view("long.txt").await;
    let part = "Only the first 64 KiB of 2.9 MiB are shown and searched.";
    assert!(long.contains(part) && long.len() < 100_000, "{}", long.len());
    assert!(view("numbers.csv").await.contains("200 rows, there are more"));
    let image = format!("<img class=\"preview\" src=\"/api/v1/tasks/{id}/files/out/picture%2Epng\"");
    assert!(view("picture.png").await.contains(&image));
    assert!(page(&node, &format!("/tasks/{id}")).await.contains("<img src="));
}

#[tokio::test]
async fn a_task_is_run_again_and_cancelled_on_its_page() {
    let node = SingleNode::up(&[]);
    let gate = node.gate("gate");
    let task =
        json!({"execute": {"command": format!("printf '\\033[32mfirst\\033[0m\\n'; {}", gate.wait())}});
    let added = node.web.post("/api/v1/tasks", &task).await.json();
    let id = added["id"].as_str().expect("an id").to_string();
    let running = async |id: &str| {
        wait_until("the task runs", Duration::from_secs(60), async || {
            let task = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
            (task["status"] == "running").then_some(())
        })
        .await;
    };
    running(&id).await;
    // What comes while the task runs.
    let request = node.web.request("GET", &format!("/live/tasks/{id}"));
    let mut live = StreamedResponse::open(request).await;
    let contains = |part: &'static str| move |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(part);
    live.wait_for("the output", contains("<span class=\"ansi-f2\">first</span>"))
        .await;
    let post = async |path: &str| {
        let request = node
            .web
            .request("POST", path)
            .header("Origin", node.system.url(""));
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.url().path().to_string())
    };
    assert_eq!(
        post(&format!("/tasks/{id}/cancel")).await,
        (200, format!("/tasks/{id}"))
    );
    let seen = String::from_utf8(live.complete().await).expect("UTF-8");
    assert!(seen.ends_with("event: end\ndata: end\n\n"), "{seen}");
    assert!(seen.contains("cancelled"), "{seen}");
    let (status, path) = post(&format!("/tasks/{id}/retry")).await;
    let again = path.strip_prefix("/tasks/").expect("the page of the new task");
    assert!(status == 200 && again != id, "{status} {path}");
    let repeats: Value = node.web.get(&format!("/api/v1/tasks/{again}")).await.json();
    assert_eq!(repeats["retry_of"], json!(id));
    gate.open();
    let done = node
        .web
        .get(&format!("/api/v1/tasks/{again}?wait=60"))
        .await
        .json();
    assert_eq!(done["status"], "success");
}
