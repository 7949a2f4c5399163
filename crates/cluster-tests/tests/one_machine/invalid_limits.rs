//! Invalid limits and networks.

use serde_json::{Value, json};

use crate::harness::SingleNode;

const TASKS: &str = "/api/v1/tasks";

#[tokio::test]
async fn invalid_limits_are_named() {
    let node = SingleNode::up(&[]);
    for (limit, wrong) in [
        (
            "wall",
            r#"-1 0 -0.5 "-1s" "0s" "" "soon" "nan" "inf" "1e3" 1e30 "9999999999999999d" "1parsec" "5 5" "2d" true [1]"#,
        ),
        ("cpu", r#"-1 0 "-1s" "0ms" "" "nan" 1e300 "1x""#),
        (
            "memory",
            r#"-1 0 "-1MiB" "0B" "" "nan" "inf" 18446744073709551616 1e300 1.5 "1XB" "99999999999TiB" "0x10" true"#,
        ),
        ("output", r#"-1 0 "-1" "" 1e300 0.5 "1GB" "17MiB""#),
        ("processes", r#"-1 0 1.5 4294967296 "64" 1e300"#),
        ("file_size", r#"-1 0 "-1MiB" "" 1.5 1e300 "1XB" true"#),
        ("open_files", r#"-1 0 3 1.5 4294967296 "64" 1e300"#),
        ("stack", r#"-1 0 1 "63KiB" "-1MiB" "" 1e300 "1XB""#),
        ("space", r#"-1 0 "0B" "-1MiB" "" 1e300 "all""#),
    ] {
        let wrong = serde_json::from_str::<Vec<Value>>(&format!("[{}]", commas(wrong))).unwrap();
        for value in wrong {
            for step in ["compile", "execute"] {
                let mut task = json!({"compile": {"command": "true"}, "execute": {"command": "true"}});
                task[step]["limits"] = json!({limit: value});
                let problem = node.web.post(TASKS, &task).await.assert_problem(422);
                assert_eq!(
                    problem["field"],
                    format!("{step}.limits.{limit}"),
                    "{value}: {problem}"
                );
            }
        }
    }
    // Numbers that JSON does not have.
    for number in ["NaN", "Infinity", "1e999", "-", "0x10", "1_000"] {
        let body = format!("{{\"execute\": {{\"command\": \"true\", \"limits\": {{\"wall\": {number}}}}}}}");
        node.web.post_bytes(TASKS, body).await.assert_problem(400);
    }
    assert_eq!(node.web.get(TASKS).await.json()["tasks"], json!([]));
}

#[tokio::test]
async fn invalid_networks_are_named() {
    let node = SingleNode::up(&[]);
    let long = "x".repeat(65);
    for (network, part) in [
        (json!(""), "empty"),
        (json!(long), "64"),
        (json!("Loopback"), "lower-case letters"),
        (json!("../net"), "lower-case letters"),
        (json!(7), "a network's name"),
    ] {
        for step in ["compile", "execute"] {
            let mut task = json!({"compile": {"command": "true"}, "execute": {"command": "true"}});
            task[step]["network"] = network.clone();
            let answer = node.web.post(TASKS, &task).await;
            answer.assert_problem_at(422, &format!("{step}.network"), part);
        }
    }
    assert_eq!(node.web.get(TASKS).await.json()["tasks"], json!([]));
}

/// Replaces the spaces between values with commas, but not those inside of quotes.
fn commas(list: &str) -> String {
    let mut quoted = false;
    list.chars()
        .map(|letter| {
            quoted ^= letter == '"';
            if letter == ' ' && !quoted { ',' } else { letter }
        })
        .collect()
}
