//! Marks of cases that a follower sees while the task still runs.

use cluster_tests::{ReceivedEvent, StreamedResponse, TestSystem};
use serde_json::{Value, json};

use crate::harness::{ECHO, JudgingNode, numbered_cases, text};

fn case_events(events: &[ReceivedEvent]) -> Vec<(u64, String, String)> {
    let cases = events.iter().filter(|event| event.name == "case");
    cases
        .map(|event| {
            let ReceivedEvent { data, .. } = event;
            let index = data["index"].as_u64().expect("an index");
            (
                index,
                text(&data["name"]).to_string(),
                text(&data["verdict"]).to_string(),
            )
        })
        .collect()
}

fn mark(index: u64, name: &str, verdict: &str) -> (u64, String, String) {
    (index, name.to_string(), verdict.to_string())
}

#[tokio::test]
async fn marks_of_cases_arrive_while_the_next_case_runs() {
    let system = TestSystem::new().expect("a folder");
    let shared = system.folder.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    let bind = format!("sandbox.binds={}:/shared", shared.display());
    let node = JudgingNode::start_with(system, &["--set", &bind]);
    let wait = "read word; [ $word = first ] || until [ -e /shared/$word ]; do sleep 0.02; done; echo $word";
    let task = node
        .web
        .post(
            "/api/v1/tasks",
            &json!({
                "execute": {"command": wait},
                "cases": [
                    {"name": "a", "input": "first\n", "answer": "first"},
                    {"name": "b c", "input": "second\n", "answer": "other"},
                    {"name": "d", "input": "third\n", "answer": "third"},
                ],
            }),
        )
        .await
        .json();
    let path = format!("/api/v1/tasks/{}/events", text(&task["id"]));
    let mut stream = StreamedResponse::open(node.web.request("GET", &path)).await;
    let seen = |count: usize| move |body: &[u8]| case_events(&ReceivedEvent::parse_all(body)).len() >= count;
    stream.wait_for("the first mark", seen(1)).await;
    assert_eq!(case_events(&stream.events()), [mark(0, "a", "accepted")]);
    // A follower that comes later sees the earlier marks, too.
    let mut late = StreamedResponse::open(node.web.request("GET", &path)).await;
    late.wait_for("the first mark", seen(1)).await;
    std::fs::write(shared.join("second"), "").expect("a gate");
    stream.wait_for("the second mark", seen(2)).await;
    assert!(!stream.has_ended());
    std::fs::write(shared.join("third"), "").expect("a gate");

    let expected = [
        mark(0, "a", "accepted"),
        mark(1, "b c", "wrong_answer"),
        mark(2, "d", "accepted"),
    ];
    for stream in [stream, late] {
        let events = ReceivedEvent::parse_all(&stream.complete().await);
        assert_eq!(case_events(&events), expected);
        let last = events.last().expect("events");
        assert_eq!(
            (last.name.as_str(), &last.data["status"]),
            ("status", &json!("run_failed"))
        );
    }
    // A follower of a task that is done.
    let after = StreamedResponse::open(node.web.request("GET", &path)).await;
    let events = ReceivedEvent::parse_all(&after.complete().await);
    assert_eq!(events.last().map(|event| &event.data["done"]), Some(&json!(true)));
    let task = node.judged(task).await;
    assert_eq!(task.verdicts(), ["accepted", "wrong_answer", "accepted"]);
}

/// Every case has exactly one mark, whatever was followed when.
#[tokio::test]
async fn a_follower_sees_each_case_at_most_once() {
    let node = JudgingNode::start();
    let cases: Vec<_> = ["1"; 200].map(|word| (word, "1")).into();
    let task = json!({"execute": {"command": ECHO}, "cases": numbered_cases(&cases)});
    let task: Value = node.web.post("/api/v1/tasks", &task).await.json();
    let path = format!("/api/v1/tasks/{}/events", text(&task["id"]));
    let stream = StreamedResponse::open(node.web.request("GET", &path)).await;
    let marks = case_events(&ReceivedEvent::parse_all(&stream.complete().await));
    let mut indexes: Vec<_> = marks.iter().map(|(index, ..)| *index).collect();
    indexes.sort_unstable();
    indexes.dedup();
    assert_eq!(indexes.len(), marks.len(), "a case has two marks");
    assert!(
        marks.iter().all(|(_, _, verdict)| verdict == "accepted"),
        "{marks:?}"
    );
    assert!(!marks.is_empty());
}
