//! The pages of executors and judicators.

use std::time::Duration;

use cluster_tests::{HttpResponse, StreamedResponse, TestSystem, wait_until};
use serde_json::json;

use crate::harness::{SingleNode, text};

const SOON: Duration = Duration::from_secs(60);
const FLAGS: [&str; 4] = ["--name", "exec-1", "--slots", "1"];
const ADA: &str = "ada-has-a-long-token";
const EVE: &str = "eve-operates-with-it";

/// Posts a form as a page of the server does.
async fn submit(node: &SingleNode, path: &str, fields: &str) -> HttpResponse {
    let request = node.web.request("POST", path).body(fields.to_string());
    let request = request.header("Content-Type", "application/x-www-form-urlencoded");
    HttpResponse::of(request.header("Sec-Fetch-Site", "same-origin")).await
}

async fn page(node: &SingleNode, path: &str) -> String {
    let page = node.web.get(path).await;
    assert_eq!(page.status, 200, "{path}: {}", page.text());
    assert!(page.header("content-type").starts_with("text/html"));
    page.text()
}

#[tokio::test]
async fn an_executor_is_drained_and_resumed_on_its_page() {
    let node = SingleNode::up(&FLAGS);
    node.system.ready(1).await;
    let gate = node.gate("gate");
    let task = json!({"execute": {"command": format!("{} # <b>", gate.wait())}});
    let running = node.web.post("/api/v1/tasks", &task).await.json();
    let id = running["id"].as_str().unwrap();
    let shown = wait_until("the task on the page", SOON, async || {
        let shown = page(&node, "/executors/exec-1").await;
        // The executor reports its busy slot a moment after it has the task.
        (shown.contains(id) && shown.contains("1 of 1")).then_some(shown)
    })
    .await;
    for expected in [
        "Executor exec-1",
        "action=\"/executors/exec-1/drain\"",
        "name=\"reason\" required",
        "# &lt;b&gt;",
        "sse-connect=\"/live/executors/exec-1\"",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let list = page(&node, "/executors").await;
    assert!(
        list.contains("href=\"/executors/exec-1#drain\"") && !list.contains("Resume"),
        "{list}"
    );

    let reason = "fields=1&reason=+%3Cscript%3E+new+disk";
    let drained = submit(&node, "/executors/exec-1/drain", reason).await;
    let shown = drained.text();
    assert!(
        shown.contains("Drained since") && shown.contains("&lt;script&gt; new disk"),
        "{shown}"
    );
    assert!(shown.contains("action=\"/executors/exec-1/resume\""), "{shown}");
    let list = page(&node, "/executors").await;
    assert!(
        list.contains("&lt;script&gt; new disk") && list.contains("action=\"/executors/exec-1/resume\""),
        "{list}"
    );
    let resumed = submit(&node, "/executors/exec-1/resume", "").await;
    assert!(!resumed.text().contains("Drained since"), "{}", resumed.text());
    gate.open();

    let refused = submit(&node, "/executors/exec-1/drain", "reason=++").await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("must not be empty"), "{}", refused.text());
    for path in ["/executors/exec-2", "/executors/exec-2/resume"] {
        let unknown = match path.ends_with("resume") {
            true => submit(&node, path, "").await,
            false => node.web.get(path).await,
        };
        assert_eq!(unknown.status, 404);
        assert!(
            unknown.text().contains("executor exec-2 does not exist"),
            "{}",
            unknown.text()
        );
    }
    let foreign = node.web.request("POST", "/executors/exec-1/drain");
    let foreign = foreign.header("Sec-Fetch-Site", "cross-site").body("reason=x");
    assert_eq!(HttpResponse::of(foreign).await.status, 403);
}

#[tokio::test]
async fn only_operators_see_the_forms() {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{ADA} ada\n{EVE} eve\n")).expect("a file");
    let flags = ["--tokens-file", text(&tokens), "--set", "gateway.operators=eve"];
    let node = SingleNode::on(system, &[&FLAGS, &flags[..]].concat());
    let get = async |path: &str, token: &str| {
        HttpResponse::of(node.web.request("GET", path).bearer_auth(token))
            .await
            .text()
    };
    wait_until("the executor on the page", SOON, async || {
        get("/executors", ADA).await.contains("exec-1").then_some(())
    })
    .await;
    for (token, may) in [(EVE, true), (ADA, false)] {
        assert_eq!(get("/executors", token).await.contains("Drain…"), may);
        let shown = get("/executors/exec-1", token).await;
        assert_eq!(
            shown.contains("action=\"/executors/exec-1/drain\""),
            may,
            "{shown}"
        );
        assert_ne!(shown.contains("Only the operators"), may, "{shown}");
    }
    let request = node
        .web
        .request("POST", "/executors/exec-1/drain")
        .bearer_auth(ADA);
    let request = request
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body("reason=x");
    assert_eq!(HttpResponse::of(request).await.status, 403);
}

#[tokio::test]
async fn the_judicator_of_a_single_node_has_its_page() {
    let node = SingleNode::up(&FLAGS);
    node.system.ready(1).await;
    let shown = page(&node, "/judicators").await;
    for expected in [
        "leads",
        "sqlite",
        "single node",
        "sse-connect=\"/live/judicators\"",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(!shown.contains("MongoDB"), "{shown}");
}

#[tokio::test]
async fn the_list_of_executors_is_live() {
    let node = SingleNode::up(&FLAGS);
    node.system.ready(1).await;
    let mut live = StreamedResponse::open(node.web.request("GET", "/live/executors")).await;
    let contains = |text: &'static str| move |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
    live.wait_for("the list", contains("exec-1")).await;
    let drained = submit(&node, "/executors/exec-1/drain", "reason=new+disk").await;
    assert_eq!(drained.status, 200);
    live.wait_for("the drain", contains("new disk")).await;
}
