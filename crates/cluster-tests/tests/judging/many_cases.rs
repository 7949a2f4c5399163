//! Tasks with so many cases that their results do not fit into a report.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, text};

const CASES: usize = 1000;
const WRONG: usize = 777;

#[tokio::test]
async fn a_thousand_cases_are_judged_in_order() {
    let node = JudgingNode::start();
    let cases: Value = (0..CASES)
        .map(|index| {
            let answer = if index == WRONG { "other".to_string() } else { index.to_string() };
            json!({"name": format!("case {index}"), "input": format!("{index}\n"), "answer": answer, "points": 0.5})
        })
        .collect();
    let begun = Instant::now();
    let task = node
        .judge(&json!({"execute": {"command": ECHO}, "cases": cases}))
        .await;
    println!("{CASES} cases after {:?}", begun.elapsed());
    assert_eq!(task.score(), (499.5, 500.0));
    task.assert_status("run_failed", "wrong_answer");
    let task = node
        .web
        .get(&format!("/api/v1/tasks/{}", text(&task.0["id"])))
        .await
        .json();
    let found = task["result"]["cases"].as_array().expect("cases");
    assert_eq!(found.len(), CASES);
    for (index, case) in found.iter().enumerate() {
        let expected = if index == WRONG {
            "wrong_answer"
        } else {
            "accepted"
        };
        assert_eq!(case["name"], format!("case {index}"));
        assert_eq!(case["verdict"], expected, "{case:#}");
        // The output of each is its own.
        assert_eq!(case["execute"]["stdout"], format!("{index}\n"), "{case:#}");
    }
    // A list stays small.
    let list = node.web.get("/api/v1/tasks").await;
    assert!(
        list.body.len() < 16 << 10,
        "{} bytes for one task",
        list.body.len()
    );
    assert_eq!(list.json()["tasks"][0]["reason"], "wrong_answer");
    node.assert_healthy().await;
}

/// What a result keeps of the outputs of all cases together is bounded, and every case keeps the beginning of its own.
#[tokio::test]
async fn large_outputs_of_many_cases_are_cut_in_the_result() {
    let node = JudgingNode::start();
    let cases: Value = (0..60)
        .map(|index| json!({"name": index.to_string(), "input": format!("{index} ")}))
        .collect();
    let task = node
        .judge(&json!({
            "execute": {"command": "cat; head -c 300000 /dev/zero | tr '\\0' x", "limits": {"output": "1MiB"}},
            "cases": cases,
        }))
        .await;
    task.assert_status("success", "accepted");
    let mut kept = 0;
    for (index, case) in task.cases().iter().enumerate() {
        let outcome = &case["execute"];
        let stdout = text(&outcome["stdout"]);
        kept += stdout.len();
        assert!(
            stdout.starts_with(&format!("{index} xxx")),
            "case {index} begins with {:?}",
            stdout.get(..20)
        );
        assert!(stdout.len() >= 256, "case {index} has {} bytes", stdout.len());
        assert_eq!(outcome["stdout_truncated"], true, "case {index}");
    }
    assert!(kept <= 8 << 20, "{kept} bytes");
}

#[tokio::test]
async fn too_many_cases_are_refused() {
    let node = JudgingNode::start();
    let cases: Value = (0..5001)
        .map(|index| json!({"name": index.to_string()}))
        .collect();
    let task = json!({"execute": {"command": ECHO}, "cases": cases});
    node.assert_refused(&task, "cases", "5000").await;
}
