//! The page with the list of tasks: filters, numbers, live rows, and what is done with many tasks.

use cluster_tests::{HttpResponse, StreamedResponse, TestSystem};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const FORM: &str = "application/x-www-form-urlencoded";
const HOSTILE: &str = "echo '<script>alert(1)</script>' \"><svg onload=alert(1)> \u{202e}";

async fn add(node: &SingleNode, task: &Value) -> String {
    let answer = node.web.post("/api/v1/tasks", task).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

async fn add_command(node: &SingleNode, user: &str, command: &str) -> String {
    add(node, &json!({"user": user, "execute": {"command": command}})).await
}

async fn page(node: &SingleNode, query: &str) -> String {
    let page = node.web.get(&format!("/{query}")).await;
    assert_eq!(page.status, 200, "{}", page.text());
    page.text()
}

/// Sends a form of the list as a browser does, and returns the answer, which is not followed.
async fn send_form(node: &SingleNode, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .expect("a client");
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let request = client
        .post(node.system.url(path))
        .header("Sec-Fetch-Site", "same-origin")
        .header("Content-Type", FORM)
        .body(fields.join("&"));
    HttpResponse::of(request).await
}

fn assert_shows(page: &str, expected: &[&str]) {
    for part in expected {
        assert!(page.contains(part), "no '{part}' in {page}");
    }
}

#[tokio::test]
async fn the_list_has_filters_and_numbers_for_each_status() {
    let node = SingleNode::up(&["--slots", "0"]);
    let empty = page(&node, "").await;
    assert_shows(
        &empty,
        &["No tasks yet", "href=\"/run\"", "/api/v1/tasks?wait=10"],
    );
    let first = add_command(&node, "ada", HOSTILE).await;
    let second = add_command(&node, "bob", "sleep 1").await;
    node.web.delete(&format!("/api/v1/tasks/{second}")).await;
    let all = page(&node, "").await;
    let (first_row, second_row) = (format!("id=\"task-{first}\""), format!("id=\"task-{second}\""));
    assert_shows(
        &all,
        &[
            "all <b>2</b>",
            "href=\"/?status=cancelled\">cancelled <b>1</b>",
            &first_row,
            &second_row,
            &format!("data-copy=\"{first}\""),
            "sse-connect=\"/live/tasks?\"",
            "U+202E",
        ],
    );
    for forbidden in ["<script>alert", "<svg onload", "style=\"", "\u{202e}<"] {
        assert!(!all.contains(forbidden), "{forbidden} in {all}");
    }
    // The numbers leave the chosen statuses out; the rows do not.
    let pending = page(&node, "?status=pending&reason=").await;
    assert_shows(&pending, &["all <b>2</b>", "cancelled <b>1</b>", &first_row]);
    assert!(!pending.contains(&second_row), "{pending}");
    let of_bob = page(&node, "?user=bob&text=SLEEP&from=2026-01-31T12:00").await;
    assert_shows(
        &of_bob,
        &["all <b>1</b>", &second_row, "value=\"2026-01-31T12:00:00\""],
    );
    assert!(!of_bob.contains(&first_row), "{of_bob}");
    let none = page(&node, "?language=go").await;
    assert_shows(
        &none,
        &[
            "No matching tasks",
            "href=\"/\">Show all tasks",
            "language: <bdi>go</bdi>",
        ],
    );
    let wrong = node.web.get("/?language=a%20b").await;
    assert_eq!(wrong.status, 422);
}

#[tokio::test]
async fn the_rows_of_a_list_are_live() {
    let node = SingleNode::up(&["--slots", "0"]);
    add_command(&node, "ada", "first").await;
    let request = node.web.request("GET", "/live/tasks?user=ada");
    let mut live = StreamedResponse::open(request).await;
    assert_eq!(live.status, 200);
    let shows = |text: &'static str| move |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
    live.wait_for("the first rows", shows("<code><bdi>first</bdi></code>"))
        .await;
    live.wait_for("the numbers", shows("all <b>1</b>")).await;
    let second = add_command(&node, "ada", "second").await;
    live.wait_for("a new row", shows("<code><bdi>second</bdi></code>"))
        .await;
    live.wait_for("new numbers", shows("all <b>2</b>")).await;
    node.web.delete(&format!("/api/v1/tasks/{second}")).await;
    live.wait_for("a new status", shows("cancelled <b>1</b>")).await;

    // A page of the oldest first has the same tasks as when it was opened.
    let request = node.web.request("GET", "/live/tasks?order=oldest&status=pending");
    let mut oldest = StreamedResponse::open(request).await;
    oldest
        .wait_for("the first rows", shows("<code><bdi>first</bdi></code>"))
        .await;
    add_command(&node, "ada", "third").await;
    oldest.wait_for("new numbers", shows("all <b>3</b>")).await;
    let shown = String::from_utf8_lossy(&oldest.received()).into_owned();
    assert!(!shown.contains("third"), "{shown}");
}

#[tokio::test]
async fn chosen_tasks_are_cancelled_retried_and_exported_without_a_script() {
    let node = SingleNode::up(&["--slots", "0"]);
    let mut ids = vec![];
    for index in 0..4 {
        ids.push(add_command(&node, "ada", &format!("echo {index}")).await);
    }
    let chosen = [("id", ids[0].as_str()), ("id", ids[1].as_str())];
    let cancelled = send_form(&node, "/tasks/cancel?user=ada", &chosen).await;
    assert_eq!(
        (cancelled.status, cancelled.header("location")),
        (303, "/?user=ada&notice=cancelled-2")
    );
    assert_shows(
        &page(&node, "?user=ada&notice=cancelled-2").await,
        &["2 tasks cancelled.", "cancelled <b>2</b>"],
    );
    let retried = send_form(&node, "/tasks/retry", &chosen).await;
    assert_eq!(retried.header("location"), "/?notice=retried-2");
    let again = send_form(&node, "/tasks/retry", &chosen).await;
    assert_eq!(again.header("location"), "/?notice=retried-0");
    let exported = send_form(&node, "/tasks/export", &[chosen[0], ("format", "csv")]).await;
    let url = exported.header("location").to_string();
    assert_eq!(url, format!("/api/v1/tasks/export?format=csv&id={}", ids[0]));
    assert_eq!(node.web.get(&url).await.text().lines().count(), 2);
    for path in ["/tasks/cancel", "/tasks/retry", "/tasks/export"] {
        let nothing = send_form(&node, path, &[]).await;
        assert_eq!(nothing.header("location"), "/?notice=nothing-chosen", "{path}");
        let foreign = node
            .web
            .request("POST", path)
            .header("Sec-Fetch-Site", "cross-site");
        assert_eq!(HttpResponse::of(foreign).await.status, 403, "{path}");
    }
    assert_eq!(
        send_form(&node, "/tasks/cancel", &[("id", "x")]).await.status,
        422
    );

    // All that match is asked first, with the number.
    let question = send_form(&node, "/tasks/cancel?user=ada", &[("all", "true")]).await;
    assert_eq!(question.status, 200);
    assert_shows(
        &question.text(),
        &[
            "Cancel 4 tasks?",
            "name=\"confirmed\"",
            "<dt>user</dt><dd><bdi>ada</bdi></dd>",
        ],
    );
    let left = node.web.get("/api/v1/tasks?status=pending").await.json();
    assert_eq!(left["tasks"].as_array().map(Vec::len), Some(4));
    let confirmed = [("all", "true"), ("confirmed", "true")];
    let done = send_form(&node, "/tasks/cancel?user=ada", &confirmed).await;
    assert_eq!(done.header("location"), "/?user=ada&notice=cancelled-4");
    let nothing_left = send_form(&node, "/tasks/cancel?user=ada", &[("all", "true")]).await;
    assert_shows(&nothing_left.text(), &["Cancel 0 tasks", "No matching task"]);
    let retried = send_form(&node, "/tasks/retry?text=echo", &confirmed).await;
    assert_eq!(retried.header("location"), "/?text=echo&notice=retried-4");
}

#[tokio::test]
async fn a_user_with_a_token_sees_and_changes_only_their_own_tasks() {
    const ADA: &str = "ada-has-a-long-token";
    const BOB: &str = "bob-has-another-token";
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{ADA} ada\n{BOB} bob\n")).expect("a file");
    let node = SingleNode::on(system, &["--slots", "0", "--tokens-file", text(&tokens)]);
    let task = json!({"execute": {"command": "of ada"}});
    let request = node
        .web
        .request("POST", "/api/v1/tasks")
        .bearer_auth(ADA)
        .json(&task);
    let id = HttpResponse::of(request).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_string();
    let get = async |path: &str| HttpResponse::of(node.web.request("GET", path).bearer_auth(BOB)).await;
    let list = get("/").await.text();
    assert!(list.contains("all <b>0</b>") && !list.contains(&id), "{list}");
    assert!(!list.contains("name=\"user\""), "{list}");
    assert_eq!(get("/?user=ada").await.status, 422);
    assert_eq!(get("/live/tasks?user=ada").await.status, 422);
    let request = node
        .web
        .request("POST", "/tasks/cancel")
        .bearer_auth(BOB)
        .header("Sec-Fetch-Site", "same-origin")
        .header("Content-Type", FORM)
        .body(format!("id={id}"));
    HttpResponse::of(request).await;
    let request = node
        .web
        .request("GET", &format!("/api/v1/tasks/{id}"))
        .bearer_auth(ADA);
    assert_eq!(HttpResponse::of(request).await.json()["status"], "pending");
}
