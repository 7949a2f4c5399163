//! Executors without cells, where a program could read the answers, judge only if that is asked for by name.

use cluster_tests::{RawHttpClient, TestSystem};
use serde_json::json;

use crate::harness::{ECHO, numbered_cases};

#[tokio::test]
async fn judging_without_cells_is_refused_unless_it_is_asked_for() {
    let task = json!({"execute": {"command": ECHO}, "cases": numbered_cases(&[("1", "1"), ("2", "3")])});
    let system = TestSystem::new().expect("a folder");
    let up = system.up(&["--isolation", "none"]).expect("conclave up serves");
    let web = RawHttpClient::new(&system.url(""));
    system.ready(1).await;
    let answer = web.post("/api/v1/tasks", &task).await;
    assert!(
        (400..500).contains(&answer.status),
        "{} {}",
        answer.status,
        answer.text()
    );
    let detail = answer.assert_problem(answer.status)["detail"].to_string();
    assert!(
        detail.contains("isolation") && detail.contains("judge-without-cells"),
        "{detail}"
    );
    assert_eq!(web.get("/api/v1/tasks").await.json()["tasks"], json!([]));
    // Other tasks run.
    let other = web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(other["result"]["execute"]["stdout"], "well\n");
    up.kill();

    let system = TestSystem::new().expect("a folder");
    let _up = system
        .up(&["--isolation", "none", "--judge-without-cells"])
        .expect("conclave up serves");
    let web = RawHttpClient::new(&system.url(""));
    system.ready(1).await;
    let judged = web.run(&task).await;
    assert_eq!(judged["result"]["verdict"], "wrong_answer", "{judged:#}");
    assert_eq!(judged["result"]["cases"][0]["verdict"], "accepted", "{judged:#}");
}
