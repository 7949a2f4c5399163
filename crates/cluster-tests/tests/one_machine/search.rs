//! Searches by every field, in both orders, with paging.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster_tests::{RawHttpClient, wait_until};
use serde_json::{Value, json};

use crate::harness::SingleNode;

const TASKS: &str = "/api/v1/tasks";

/// The commands of the tasks that a search finds, in its order.
async fn find(web: &RawHttpClient, query: &str) -> Vec<String> {
    let answer = web.get(&format!("{TASKS}?{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let page = answer.json();
    let keys: Vec<_> = page.as_object().expect("a page").keys().collect();
    assert_eq!(keys, ["complete", "next", "tasks"]);
    assert_eq!(page["complete"], true, "{query}");
    commands(&page)
}

fn commands(page: &Value) -> Vec<String> {
    let tasks = page["tasks"].as_array().expect("tasks");
    let command = |task: &Value| task["command"].as_str().expect("a command").to_string();
    tasks.iter().map(command).collect()
}

async fn add(web: &RawHttpClient, tasks: &Value) -> Vec<Value> {
    let answer = web
        .post(&format!("{TASKS}/batch"), &json!({"tasks": tasks}))
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["tasks"].as_array().expect("tasks").clone()
}

#[tokio::test]
async fn every_field_narrows_a_search() {
    let node = SingleNode::up(&["--slots", "1", "--name", "solo"]);
    let web = &node.web;
    let gate = node.gate("gate");
    web.run(&json!({"user": "ada", "execute": {"command": "echo first"}}))
        .await;
    web.run(&json!({"user": "bob", "compile": {"command": "g++ -o x x.cc"}, "execute": {"command": "./x"}}))
        .await;
    web.run(&json!({"user": "ada", "execute": {"command": ["Echo", "ÉTÉ 100%"]}}))
        .await;
    // An executor prefetches if recent tasks were short. A new executor has no history, so tasks behind its first one stay
    // pending.
    let node = node.again(&["--slots", "1", "--name", "solo"]);
    let web = &node.web;
    let hold = format!("echo hold; {}", gate.wait());
    let held = add(web, &json!([{"user": "eve", "execute": {"command": hold}}])).await;
    let held_path = format!("{TASKS}/{}", held[0]["id"].as_str().unwrap());
    wait_until("the task to run", Duration::from_secs(30), async || {
        (web.get(&held_path).await.json()["status"] == "running").then_some(())
    })
    .await;
    let waiting = add(
        web,
        &json!([
            {"user": "ada", "execute": {"command": "echo waits"}},
            {"user": "two words & co", "execute": {"command": "echo dropped"}},
        ]),
    )
    .await;
    let dropped = waiting[1]["id"].as_str().unwrap();
    web.delete(&format!("{TASKS}/{dropped}")).await;

    let all = [
        "echo first",
        "./x",
        "Echo ÉTÉ 100%",
        &hold,
        "echo waits",
        "echo dropped",
    ];
    let ids: Vec<_> = web.get(&format!("{TASKS}?order=oldest")).await.json()["tasks"]
        .as_array()
        .unwrap()
        .clone();
    let id = |n: usize| ids[n]["id"].as_str().unwrap();
    let time = |n: usize| ids[n]["add_time"].as_str().unwrap();
    for (query, expected) in [
        (String::new(), &[0, 1, 2, 3, 4, 5][..]),
        ("user=ada".into(), &[0, 2, 4]),
        ("user=two+words+%26+co".into(), &[5]),
        ("user=nobody".into(), &[]),
        ("status=success".into(), &[0]),
        ("status=compile_failed".into(), &[1]),
        ("status=run_failed".into(), &[2]),
        ("status=running".into(), &[3]),
        ("status=pending".into(), &[4]),
        ("status=cancelled".into(), &[5]),
        ("status=retrying".into(), &[]),
        ("status=success,running&status=pending".into(), &[0, 3, 4]),
        ("executor=solo".into(), &[3]),
        ("executor=other".into(), &[]),
        (format!("id={}", id(2)), &[2]),
        (format!("id={},{}&id={}", id(4), id(0), id(2)), &[0, 2, 4]),
        ("id=01890a5d-ac96-774b-bcce-b302099a8057".into(), &[]),
        (format!("from={}", time(2)), &[2, 3, 4, 5]),
        (format!("until={}", time(2)), &[0, 1]),
        (format!("from={}&until={}", time(1), time(3)), &[1, 2]),
        (format!("from={}&until={}", time(3), time(1)), &[]),
        ("text=ECHO".into(), &[0, 2, 3, 4, 5]),
        ("text=G%2B%2B".into(), &[1]),
        ("text=%C3%A9t%C3%A9+100%25".into(), &[2]),
        ("text=%25".into(), &[2]),
        ("text=_".into(), &[]),
        ("user=ada&text=echo&status=pending".into(), &[4]),
        (format!("user=ada&from={}&text=echo", time(1)), &[2, 4]),
        ("user=eve&executor=solo&status=running&text=hold".into(), &[3]),
        ("user=ada&executor=solo".into(), &[]),
        (format!("id={},{}&user=ada", id(0), id(1)), &[0]),
        ("user=&status=&text=".into(), &[0, 1, 2, 3, 4, 5]),
    ] {
        let mut expected: Vec<_> = expected.iter().map(|n: &usize| all[*n]).collect();
        assert_eq!(
            find(web, &format!("{query}&order=oldest")).await,
            expected,
            "{query}"
        );
        expected.reverse();
        assert_eq!(
            find(web, &format!("{query}&order=newest")).await,
            expected,
            "{query}"
        );
        assert_eq!(find(web, &query).await, expected, "newest comes first: {query}");
        assert_eq!(
            find(web, &format!("{query}&limit=1")).await,
            expected[..expected.len().min(1)]
        );
    }
    let counts = web.get("/api/v1/stats").await.json()["counts"].clone();
    for (status, count) in counts.as_object().unwrap() {
        let found = find(web, &format!("status={status}")).await.len();
        assert_eq!(count, found, "{status}");
    }
    gate.open();
}

#[tokio::test]
async fn paging_is_correct_while_tasks_are_added() {
    // Without an executor, tasks stay pending.
    let node = SingleNode::up(&["--slots", "0"]);
    let web = &node.web;
    let task =
        |n: usize| json!({"user": format!("u{}", n % 2), "execute": {"command": format!("task {n:03}")}});
    let first: Vec<_> = (0..100).map(task).collect();
    add(web, &json!(first)).await;
    for query in [
        "",
        "user=u0&",
        "status=pending&text=task&",
        "status=pending,running&user=u1&",
    ] {
        for (order, keeps_up) in [("oldest", true), ("newest", false)] {
            let mut seen = Vec::new();
            let before = find(web, &format!("{query}order={order}&limit=1000")).await;
            let mut cursor = String::new();
            let mut page_length = 3;
            loop {
                let path = format!("{TASKS}?{query}order={order}&limit={page_length}{cursor}");
                let page = web.get(&path).await.json();
                let found = commands(&page);
                assert!(found.len() <= page_length);
                seen.extend(found);
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&after={next}");
                // A longer page of the same search continues where the last one ended.
                page_length += 4;
                // Other tasks are added at the same time, a bounded number.
                if page_length < 30 {
                    add(web, &json!([task(900), task(901)])).await;
                }
            }
            let new: Vec<_> = seen
                .iter()
                .filter(|command| command.contains(" 90"))
                .cloned()
                .collect();
            let old: Vec<_> = seen[..before.len().min(seen.len())].to_vec();
            assert_eq!(old, before, "{query} {order}");
            match keeps_up {
                true => assert!(new.len() > before.iter().filter(|c| c.contains(" 90")).count()),
                false => assert_eq!(seen.len(), before.len(), "{query} {order}"),
            }
        }
    }
    // Every task was found exactly once.
    let every = find(web, "text=task+0&limit=1000").await;
    assert_eq!(every.iter().collect::<BTreeSet<_>>().len(), 100);
    assert_eq!(every.len(), 100);
}

#[tokio::test]
async fn invalid_search_parameters_are_named() {
    let node = SingleNode::up(&["--slots", "0"]);
    let web = &node.web;
    add(
        web,
        &json!([{"execute": {"command": "a"}}, {"execute": {"command": "b"}}, {"execute": {"command": "c"}}]),
    )
    .await;
    let page = web.get(&format!("{TASKS}?limit=1")).await.json();
    let next = page["next"].as_str().unwrap();
    for other in [
        "user=ada",
        "order=oldest",
        "status=pending",
        "text=a",
        "until=2999-01-01T00:00:00Z",
    ] {
        let answer = web.get(&format!("{TASKS}?limit=1&{other}&after={next}")).await;
        answer.assert_problem_at(422, "after", "search");
    }
    assert_eq!(find(web, &format!("limit=2&after={next}")).await, ["b", "a"]);
    assert_eq!(
        web.get(&format!("{TASKS}?limit=2&after={next}")).await.json()["next"],
        Value::Null
    );
    for (query, field, words) in [
        ("stauts=pending", "stauts", "'status'"),
        ("zzzzzz=1", "zzzzzz", "the known ones are"),
        ("status=done", "status", "'done'"),
        ("order=up", "order", "oldest"),
        ("limit=0", "limit", "from 1 to 1000"),
        ("limit=1001", "limit", "from 1 to 1000"),
        ("limit=-1", "limit", "whole number"),
        ("limit=99999999999999999999", "limit", "whole number"),
        ("from=yesterday", "from", "2026-01-31T12:00:00Z"),
        ("until=2026-02-30T00:00:00Z", "until", "not a time"),
        ("after=abc", "after", "cursor"),
        (
            "after=ffffffffffffffffff.00000000000000000000000000000000.0",
            "after",
            "cursor",
        ),
        ("id=7", "id", "UUID"),
        ("executor=a/b", "executor", "letters"),
        ("user=%00", "user", "control"),
        ("user=%FF", "user", "UTF-8"),
        ("%FF=1", "query", "UTF-8"),
    ] {
        web.get(&format!("{TASKS}?{query}"))
            .await
            .assert_problem_at(422, field, words);
    }
}
