//! The pages of groups: the list, and one group while its tasks run.

use cluster_tests::{HttpResponse, RawHttpClient, StreamedResponse};
use serde_json::{Value, json};

use crate::harness::SingleNode;

const GROUP: &str = "a%26b";

async fn add(node: &SingleNode, group: &str, commands: &[String]) {
    let task = |command: &String| json!({"user": "ada", "group": group, "execute": {"command": command}});
    let tasks: Vec<Value> = commands.iter().map(task).collect();
    let answer = node
        .web
        .post("/api/v1/tasks/batch", &json!({"tasks": tasks}))
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}

async fn page(node: &SingleNode, path: &str) -> String {
    let page = node.web.get(path).await;
    assert_eq!(page.status, 200, "{path}: {}", page.text());
    page.text()
}

#[tokio::test]
async fn the_list_shows_the_progress_of_each_group() {
    let node = SingleNode::up(&["--slots", "0"]);
    let empty = page(&node, "/groups").await;
    assert!(
        empty.contains("No groups yet") && empty.contains("conclave run --group"),
        "{empty}"
    );
    add(&node, "a&b", &["true".into(), "false".into()]).await;
    let list = page(&node, "/groups").await;
    for expected in [
        "href=\"/groups/a%26b?user=ada\"",
        "a&amp;b",
        "aria-label=\"Done: 0 of 2\"",
    ] {
        assert!(list.contains(expected), "{expected}: {list}");
    }
    assert!(page(&node, "/groups?user=ada").await.contains("a&amp;b"));
    let nobody = page(&node, "/groups?user=nobody").await;
    assert!(nobody.contains("No groups of this user"), "{nobody}");
    // An empty field of the form means any user.
    assert!(page(&node, "/groups?user=").await.contains("a&amp;b"));
    for (path, status) in [("/groups/none?user=ada", 404), ("/groups?usre=ada", 422)] {
        assert_eq!(node.web.get(path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_group_is_followed_until_it_is_done_and_its_failures_are_retried() {
    let node = SingleNode::up(&["--slots", "2"]);
    let gate = node.gate("gate");
    add(&node, "a&b", &["true".into(), "exit 3".into(), gate.wait()]).await;
    let path = format!("/groups/{GROUP}?user=ada");
    let shown = page(&node, &path).await;
    for expected in [
        "sse-connect=\"/live/groups/a%26b?user=ada\"",
        "Cancel the rest",
        "format=csv",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let request = node.web.request("GET", &format!("/live{path}"));
    let mut live = StreamedResponse::open(request).await;
    assert_eq!(live.status, 200);
    let has = |text: &'static str| move |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(text);
    live.wait_for("two tasks to be done", has("Done: 2 of 3")).await;
    live.wait_for("the button for the failure", has("Retry 1 that did not succeed"))
        .await;
    gate.open();
    live.wait_for("all tasks to be done", has("Done: 3 of 3")).await;
    live.wait_for("the slowest tasks", has("Slowest tasks")).await;
    live.wait_for("the end", has("event: end")).await;

    let done = page(&node, &path).await;
    assert!(
        !done.contains("sse-connect") && !done.contains("Cancel the rest"),
        "{done}"
    );
    let (_, slowest) = done.rsplit_once("Slowest tasks").expect("the slowest tasks");
    assert!(slowest.contains("until [ -e"), "{slowest}");

    let web = RawHttpClient::without_redirects(&node.system.url(""));
    let retry = HttpResponse::of(web.request("POST", &format!("/groups/{GROUP}/retry?user=ada"))).await;
    assert_eq!(
        (retry.status, retry.header("location")),
        (303, "/groups/a%26b?user=ada&retried=1")
    );
    let retried = page(&node, retry.header("location")).await;
    assert!(retried.contains("1 task added that repeat"), "{retried}");
    // The count does not include the task that was retried, nor do the links.
    assert!(
        retried.contains("of 3</") || retried.contains("of 3\""),
        "{retried}"
    );
    let evil = web
        .request("POST", &format!("/groups/{GROUP}/retry?user=ada"))
        .header("Origin", "http://evil");
    assert_eq!(HttpResponse::of(evil).await.status, 403);
}

#[tokio::test]
async fn the_rest_of_a_group_is_cancelled() {
    let node = SingleNode::up(&["--slots", "0"]);
    add(&node, "a&b", &["true".into(), "true".into()]).await;
    let web = RawHttpClient::without_redirects(&node.system.url(""));
    let cancel = HttpResponse::of(web.request("POST", &format!("/groups/{GROUP}/cancel?user=ada"))).await;
    assert_eq!(
        (cancel.status, cancel.header("location")),
        (303, "/groups/a%26b?user=ada&cancelled=2")
    );
    let shown = page(&node, cancel.header("location")).await;
    assert!(
        shown.contains("2 tasks cancelled.") && shown.contains("Retry 2 that did not"),
        "{shown}"
    );
    let none = HttpResponse::of(web.request("POST", "/groups/none/cancel?user=ada")).await;
    assert_eq!(none.status, 404);
}
