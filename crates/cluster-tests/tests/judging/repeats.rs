//! Adding a judged task twice adds it once, cancelling it ends it, and what its executor loses is judged again.

use std::time::Duration;

use cluster_tests::{HttpResponse, StreamedResponse, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, numbered_cases, text};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_repeated_add_is_the_same_task_if_all_that_judges_it_is_the_same() {
    let node = JudgingNode::start();
    let task = json!({
        "id": uuid::Uuid::now_v7().to_string(),
        "execute": {"command": ECHO},
        "cases": numbered_cases(&[("1", "1"), ("2", "9")]),
        "check": {"kind": "tokens", "float_tolerance": 0.5},
        "groups": {},
    });
    let first = node.web.post("/api/v1/tasks", &task).await;
    assert_eq!(first.status, 201, "{}", first.text());
    for _ in 0..2 {
        let again = node.web.post("/api/v1/tasks?wait=60", &task).await;
        assert!(matches!(again.status, 200 | 201), "{}", again.text());
        assert_eq!(again.json()["result"]["verdict"], "wrong_answer");
    }
    let with = |name: &str, value: Value| {
        let mut other = task.clone();
        other[name] = value;
        other
    };
    let mut points = task.clone();
    points["cases"][0]["points"] = json!(2);
    let mut grouped = task.clone();
    grouped["cases"][0]["group"] = json!("g");
    for other in [
        points,
        grouped,
        with("cases", numbered_cases(&[("1", "1"), ("2", "2")])),
        with("cases", numbered_cases(&[("1", "1")])),
        with("check", json!({"kind": "tokens"})),
        with("check", json!({"kind": "exact"})),
        with("stop", json!("first_failure")),
    ] {
        node.web.post("/api/v1/tasks", &other).await.assert_problem(409);
    }
    let list = node.web.get("/api/v1/tasks").await.json();
    assert_eq!(list["tasks"].as_array().map(Vec::len), Some(1), "{list:#}");
}

/// The task is what was asked for, and not what the problem was at that time.
#[tokio::test]
async fn a_repeated_add_is_the_same_task_although_its_problem_was_replaced() {
    let node = JudgingNode::start();
    let put = async |answer: &str| {
        let problem = json!({"cases": [{"name": "1", "input": "1", "answer": answer}]});
        let put = node.web.request("PUT", "/api/v1/problems/p").json(&problem);
        assert!(HttpResponse::of(put).await.status < 300);
    };
    put("1").await;
    let task = json!({"id": uuid::Uuid::now_v7().to_string(), "execute": {"command": ECHO}, "problem": "p"});
    node.judge(&task).await.assert_status("success", "accepted");
    put("2").await;
    let again = node.web.post("/api/v1/tasks?wait=60", &task).await;
    assert!(matches!(again.status, 200 | 201), "{}", again.text());
    assert_eq!(again.json()["result"]["verdict"], "accepted");
    let other = json!({"execute": {"command": ECHO}, "problem": "p"});
    node.judge(&other)
        .await
        .assert_status("run_failed", "wrong_answer");
}

#[tokio::test]
async fn a_cancelled_task_runs_no_more_cases() {
    let node = JudgingNode::start();
    let task = json!({
        "execute": {"command": "read word; [ $word = first ] || sleep 600; echo $word", "limits": {"wall": "900s"}},
        "cases": numbered_cases(&[("first\n", "first"), ("second\n", "second"), ("third\n", "third")]),
    });
    let task = node.web.post("/api/v1/tasks", &task).await.json();
    let path = format!("/api/v1/tasks/{}", text(&task["id"]));
    wait_until("the second case", SOON, async || {
        (node.web.get(&path).await.json()["status"] == "running").then_some(())
    })
    .await;
    assert_eq!(node.web.delete(&path).await.status, 200);
    let task = node.web.get(&path).await.json();
    assert_eq!(
        (&task["status"], &task["done"]),
        (&json!("cancelled"), &json!(true)),
        "{task:#}"
    );
    node.assert_healthy().await;
    assert_eq!(node.web.get(&path).await.json()["status"], "cancelled");
}

/// The wardens of the node.
fn wardens(node: &JudgingNode) -> Vec<Pid> {
    let of_node = format!("PPid:\t{}", node.up.pid());
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_warden = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == of_node) && status.starts_with("Name:\tconclave-warden")
    };
    pids.filter(is_warden).map(Pid::from_raw).collect()
}

#[tokio::test]
async fn a_task_whose_wardens_are_killed_is_judged_again_from_its_first_case() {
    let node = JudgingNode::start();
    let cases: Vec<_> = [("1", "1"), ("2", "x")].repeat(10);
    let task = json!({"execute": {"command": "sleep 0.2; cat"}, "cases": numbered_cases(&cases)});
    let added = node.web.post("/api/v1/tasks", &task).await.json();
    let path = format!("/api/v1/tasks/{}", text(&added["id"]));
    let mut marks = StreamedResponse::open(node.web.request("GET", &format!("{path}/events"))).await;
    marks
        .wait_for("the mark of a case", |body| {
            String::from_utf8_lossy(body).contains("event: case")
        })
        .await;
    let killed = wardens(&node);
    assert!(!killed.is_empty(), "no warden was found");
    for warden in killed {
        kill(warden, Signal::SIGKILL).expect("a warden");
    }
    let done = wait_until("the task to be judged", SOON, async || {
        let task = node.web.get(&format!("{path}?wait=5")).await.json();
        (task["done"] == true).then_some(task)
    })
    .await;
    assert!(done["attempt"].as_u64() > Some(1), "{done:#}");
    let verdicts: Vec<_> = done["result"]["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| text(&case["verdict"]))
        .collect();
    assert_eq!(verdicts, ["accepted", "wrong_answer"].repeat(10), "{done:#}");
    node.system.leftovers().wait_until_clean().await;
}
