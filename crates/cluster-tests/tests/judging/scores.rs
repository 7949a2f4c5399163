//! Points of cases, scores of groups, and when a score is full.

use serde_json::{Value, json};

use crate::harness::{ECHO, JudgedTask, JudgingNode};

/// Judges cases of these names, groups and points; those that are named `bad` in front are not accepted.
async fn judge(
    node: &JudgingNode,
    cases: &[(&str, Option<&str>, f64)],
    groups: Value,
    stop: &str,
) -> JudgedTask {
    let cases: Value = cases
        .iter()
        .map(|(name, group, points)| {
            let input = if name.starts_with("bad") { "no" } else { "yes" };
            json!({"name": name, "group": group, "points": points, "input": input, "answer": "yes"})
        })
        .collect();
    let task = json!({"execute": {"command": ECHO}, "cases": cases, "groups": groups, "stop": stop});
    node.judge(&task).await
}

#[tokio::test]
async fn points_add_up_by_the_rule_of_their_group() {
    let node = JudgingNode::start();
    let groups = json!({"least": {"score": "min"}, "all": {"score": "pass_all"}, "each": {"score": "sum"}});
    let cases = [
        ("alone", None, 1.0),
        ("least 1", Some("least"), 10.0),
        ("least 2", Some("least"), 20.0),
        ("all 1", Some("all"), 3.0),
        ("all 2", Some("all"), 4.0),
        ("each 1", Some("each"), 5.0),
        ("each 2", Some("each"), 0.25),
        ("unlisted", Some("unlisted"), 2.5),
    ];
    const MAX: f64 = 1.0 + 10.0 + 7.0 + 5.25 + 2.5;
    let task = judge(&node, &cases, groups.clone(), "never").await;
    assert_eq!(task.score(), (MAX, MAX), "{:#}", task.0);
    task.assert_status("success", "accepted");

    for (index, lost) in [(0, 1.0), (2, 10.0), (3, 7.0), (5, 5.0), (7, 2.5)] {
        let mut cases = cases;
        let name = format!("bad {}", cases[index].0);
        cases[index].0 = &name;
        let task = judge(&node, &cases, groups.clone(), "never").await;
        assert_eq!(task.score(), (MAX - lost, MAX), "{:#}", task.0);
        task.assert_status("run_failed", "wrong_answer");
        // Every other case keeps its own points; only the sums differ.
        let points = task.points();
        for (other, (_, _, worth)) in cases.iter().enumerate() {
            assert_eq!(points[other], if other == index { 0.0 } else { *worth });
        }
    }

    let mut stopped = cases;
    stopped[3].0 = "bad";
    let task = judge(&node, &stopped, groups, "first_failure").await;
    assert_eq!(task.score(), (11.0, MAX), "{:#}", task.0);
    assert_eq!(
        task.verdicts()[3..],
        ["wrong_answer", "skipped", "skipped", "skipped", "skipped"]
    );
}

/// A case without points may fail.
#[tokio::test]
async fn a_full_score_is_a_success() {
    let node = JudgingNode::start();
    let task = judge(
        &node,
        &[("bad", None, 0.0), ("good", None, 2.0)],
        json!({}),
        "never",
    )
    .await;
    assert_eq!(task.score(), (2.0, 2.0));
    task.assert_status("success", "wrong_answer");
    // Without any points to gain, the verdict decides.
    let task = judge(&node, &[("bad", None, 0.0)], json!({}), "never").await;
    assert_eq!(task.score(), (0.0, 0.0));
    task.assert_status("run_failed", "wrong_answer");
}
