//! Groups: tasks of one user that are followed, cancelled and retried as one.

use std::time::Instant;

use cluster_tests::{Gate, ReceivedEvent, StreamedResponse};
use serde_json::{Value, json};

use crate::harness::SingleNode;

async fn add_all(node: &SingleNode, tasks: &[Value]) -> Vec<String> {
    let answer = node
        .web
        .post("/api/v1/tasks/batch", &json!({"tasks": tasks}))
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let added = answer.json();
    let added = added["tasks"].as_array().expect("tasks").clone();
    added
        .iter()
        .map(|task| task["id"].as_str().expect("an id").to_string())
        .collect()
}

fn task(group: &str, command: &str) -> Value {
    json!({"user": "ada", "group": group, "execute": {"command": command}})
}

async fn group(node: &SingleNode, name: &str) -> Value {
    let answer = node.web.get(&format!("/api/v1/groups/{name}?user=ada")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

async fn group_when_done(node: &SingleNode, name: &str) -> Value {
    let answer = node
        .web
        .get(&format!("/api/v1/groups/{name}?user=ada&wait=60"))
        .await;
    let group = answer.json();
    assert_eq!(group["done"], group["total"], "{group}");
    group
}

/// Asserts that the counts are these and no others.
fn assert_counts(group: &Value, expected: &[(&str, u64)]) {
    let counts = group["counts"].as_object().expect("counts");
    for (status, count) in counts {
        let wanted = expected.iter().find(|(name, _)| name == status);
        let wanted = wanted.map_or(0, |(_, count)| *count);
        assert_eq!(count.as_u64(), Some(wanted), "{status} in {group:#}");
    }
    for (status, count) in expected {
        assert_eq!(counts.get(*status), Some(&json!(count)), "{status} in {group:#}");
    }
    let total: u64 = expected.iter().map(|(_, count)| count).sum();
    assert_eq!(group["total"], total, "{group:#}");
}

/// A group of which every task ends in another way, and one waits at the gate.
async fn add_mixed(node: &SingleNode, name: &str, gate: &Gate) -> Vec<String> {
    let mut tasks: Vec<_> = ["true", "true", "true", "exit 1", "exit 2"]
        .map(|command| task(name, command))
        .into();
    let mut slow = task(name, "sleep 600");
    slow["execute"]["limits"] = json!({"wall": "100ms"});
    tasks.push(slow);
    let mut broken = task(name, "true");
    broken["compile"] = json!({"command": "false"});
    tasks.push(broken);
    tasks.push(task(name, &gate.wait()));
    add_all(node, &tasks).await
}

#[tokio::test]
async fn a_group_counts_its_tasks_by_status_and_reason() {
    let node = SingleNode::up(&["--slots", "2"]);
    let gate = node.gate("gate");
    node.web
        .get("/api/v1/groups/sweep?user=ada")
        .await
        .assert_problem(404);
    let begun = add_mixed(&node, "sweep", &gate).await;
    assert_eq!(begun.len(), 8);
    // Others of the same user and of another one, which do not count.
    add_all(
        &node,
        &[
            task("other", "true"),
            json!({"user": "bob", "group": "sweep", "execute": {"command": "true"}}),
        ],
    )
    .await;
    let running = cluster_tests::wait_until(
        "seven to be done",
        std::time::Duration::from_secs(60),
        async || {
            let state = group(&node, "sweep").await;
            (state["done"] == 7 && state["counts"]["running"] == 1).then_some(state)
        },
    )
    .await;
    assert_counts(
        &running,
        &[
            ("success", 3),
            ("run_failed", 3),
            ("compile_failed", 1),
            ("running", 1),
        ],
    );
    assert_eq!(
        running["reasons"],
        json!({"exited": 3, "wall_limit": 1}),
        "{running:#}"
    );
    assert_eq!(
        (&running["group"], &running["user"]),
        (&json!("sweep"), &json!("ada"))
    );
    assert_eq!(running["finish_time"], Value::Null);
    let first = node.web.get(&format!("/api/v1/tasks/{}", begun[0])).await.json();
    assert_eq!(running["add_time"], first["add_time"]);
    // A wait that is over returns what there is.
    let waited = node
        .web
        .get("/api/v1/groups/sweep?user=ada&wait=0.2")
        .await
        .json();
    assert_eq!(waited["done"], 7, "{waited:#}");

    gate.open();
    let done = group_when_done(&node, "sweep").await;
    assert_counts(&done, &[("success", 4), ("run_failed", 3), ("compile_failed", 1)]);
    let mut last = String::new();
    for id in &begun {
        let task = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
        last = last.max(task["finish_time"].as_str().expect("a time").to_string());
    }
    assert_eq!(done["finish_time"], last);

    // The list is in the order of users and names, in pages.
    let list = node.web.get("/api/v1/groups").await.json();
    let names: Vec<_> = list["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| {
            (
                group["user"].as_str().expect("a user"),
                group["group"].as_str().expect("a name"),
            )
        })
        .collect();
    assert_eq!(names, [("ada", "other"), ("ada", "sweep"), ("bob", "sweep")]);
    assert_eq!(list["groups"][1], done);
    assert_eq!(list["next"], Value::Null);
    let page = node.web.get("/api/v1/groups?limit=2").await.json();
    let next = page["next"].as_str().expect("a next page");
    let rest = node
        .web
        .get(&format!("/api/v1/groups?limit=2&after={next}"))
        .await
        .json();
    assert_eq!(
        page["groups"],
        json!(list["groups"].as_array().expect("groups")[..2])
    );
    assert_eq!(rest["groups"], json!([list["groups"][2]]));
    let of_bob = node.web.get("/api/v1/groups?user=bob").await.json();
    assert_eq!(of_bob["groups"], rest["groups"]);
}

#[tokio::test]
async fn group_events_end_when_all_tasks_are_done() {
    let node = SingleNode::up(&["--slots", "2"]);
    let gate = node.gate("gate");
    let tasks: Vec<_> = (0..20)
        .map(|number| match number {
            0 => task("g", &gate.wait()),
            _ => task("g", "true"),
        })
        .collect();
    add_all(&node, &tasks).await;
    let request = node.web.request("GET", "/api/v1/groups/g/events?user=ada");
    let mut events = StreamedResponse::open(request).await;
    let kind = events
        .headers
        .get("content-type")
        .and_then(|kind| kind.to_str().ok());
    assert_eq!(kind, Some("text/event-stream"));
    events
        .wait_for("19 to be done", |bytes| {
            let events = ReceivedEvent::parse_all(bytes);
            events.last().is_some_and(|event| event.data["done"] == 19)
        })
        .await;
    gate.open();
    let events = ReceivedEvent::parse_all(&events.complete().await);
    let done: Vec<_> = events
        .iter()
        .map(|event| event.data["done"].as_u64().expect("a count"))
        .collect();
    assert!(done.is_sorted(), "{done:?}");
    assert_eq!(done.last(), Some(&20));
    assert_eq!(events.last().expect("events").data, group(&node, "g").await);
    // A stream of a done group has one event.
    let again = StreamedResponse::open(node.web.request("GET", "/api/v1/groups/g/events?user=ada")).await;
    assert_eq!(ReceivedEvent::parse_all(&again.complete().await).len(), 1);
    node.web
        .get("/api/v1/groups/unknown/events?user=ada")
        .await
        .assert_problem(404);
}

#[tokio::test]
async fn a_group_is_cancelled_as_one() {
    let node = SingleNode::up(&["--slots", "1"]);
    let gate = node.gate("gate");
    let mut tasks = vec![task("g", "true"), task("g", &gate.wait())];
    tasks.extend((0..50).map(|_| task("g", "true")));
    tasks.push(task("other", "true"));
    let ids = add_all(&node, &tasks).await;
    cluster_tests::wait_until(
        "the task to run",
        std::time::Duration::from_secs(60),
        async || (group(&node, "g").await["counts"]["running"] == 1).then_some(()),
    )
    .await;
    let events = StreamedResponse::open(
        node.web
            .request("GET", &format!("/api/v1/tasks/{}/events", ids[1])),
    )
    .await;
    let answer = node.web.delete("/api/v1/groups/g?user=ada").await;
    assert_eq!((answer.status, answer.json()), (200, json!({"cancelled": 51})));
    let state = group(&node, "g").await;
    assert_counts(&state, &[("success", 1), ("cancelled", 51)]);
    assert_eq!(state["reasons"], json!({}));
    assert!(state["finish_time"].is_string());
    // A follower of a cancelled task gets the status, and the processes of the task are gone.
    let events = ReceivedEvent::parse_all(&events.complete().await);
    assert_eq!(events.last().expect("events").data["status"], "cancelled");
    node.system.leftovers().wait_until_clean().await;
    let other = group_when_done(&node, "other").await;
    assert_counts(&other, &[("success", 1)]);
    let again = node.web.delete("/api/v1/groups/g?user=ada").await.json();
    assert_eq!(again, json!({"cancelled": 0}));
    node.web
        .delete("/api/v1/groups/unknown?user=ada")
        .await
        .assert_problem(404);
}

#[tokio::test]
async fn many_tasks_are_cancelled_by_a_filter() {
    const TASKS: usize = 6000;
    let node = SingleNode::up(&["--slots", "0"]);
    for (user, group, label, count) in [
        ("ada", Some("g"), "a", TASKS),
        ("ada", None, "b", 3),
        ("bob", Some("g"), "a", 5),
    ] {
        let task = json!({
            "user": user, "group": group, "labels": {"k": label}, "execute": {"command": "true"},
        });
        add_all(&node, &vec![task; count]).await;
    }
    let cancel = async |query: &str| node.web.delete(&format!("/api/v1/tasks?{query}")).await;
    // Without a filter nothing is cancelled: that is a mistake more often than a wish.
    cancel("").await.assert_problem(422);
    node.web.delete("/api/v1/tasks").await.assert_problem(422);
    for wrong in ["status=finished", "label=x", "unknown=1", "limit=1"] {
        cancel(wrong).await.assert_problem(422);
    }
    assert_eq!(cancel("user=eve").await.json(), json!({"cancelled": 0}));
    assert_eq!(cancel("status=running").await.json(), json!({"cancelled": 0}));
    assert_eq!(
        cancel("user=bob&label=k:a&status=pending").await.json(),
        json!({"cancelled": 5})
    );
    assert_eq!(cancel("label=k:b").await.json(), json!({"cancelled": 3}));
    let begun = Instant::now();
    assert_eq!(
        cancel("group=g&user=ada").await.json(),
        json!({"cancelled": TASKS})
    );
    println!("{TASKS} tasks are cancelled after {:?}", begun.elapsed());
    assert_eq!(cancel("user=ada").await.json(), json!({"cancelled": 0}));
    let stats = node.web.get("/api/v1/stats").await.json();
    assert_eq!(stats["counts"]["cancelled"], TASKS + 8);
    assert_counts(&group(&node, "g").await, &[("cancelled", TASKS as u64)]);
}

/// Counts are kept with the tasks, so they survive a kill at any time.
#[tokio::test]
async fn counts_are_right_after_a_kill() {
    let node = SingleNode::up(&["--slots", "2"]);
    let tasks: Vec<_> = (0..400)
        .map(|number| task("g", if number % 4 == 0 { "false" } else { "true" }))
        .collect();
    add_all(&node, &tasks).await;
    let mut node = node;
    for _ in 0..2 {
        let before = group(&node, "g").await["done"].as_u64();
        cluster_tests::wait_until(
            "more to be done",
            std::time::Duration::from_secs(60),
            async || {
                let done = group(&node, "g").await["done"].as_u64();
                (done > before).then_some(())
            },
        )
        .await;
        node = node.again(&["--slots", "2"]);
    }
    let done = group_when_done(&node, "g").await;
    assert_counts(&done, &[("success", 300), ("run_failed", 100)]);
    assert_eq!(done["reasons"], json!({"exited": 100}));
}
