//! `conclave add --lines --resume`: however often it is killed and repeated, each line is added once.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster_tests::{ConclaveCli, TcpRelay, wait_until};
use serde_json::{Value, json};

use crate::harness::{SingleNode, text};

const TIMEOUT: Duration = Duration::from_secs(60);
const LINES: usize = 2000;

fn lines(count: usize) -> String {
    let padding = "x".repeat(700);
    let line = |number: usize| {
        json!({"execute": {"command": format!("echo {number}"), "env": {"PADDING": padding}}}).to_string()
    };
    (1..=count).map(|number| line(number) + "\n").collect()
}

async fn pending(node: &SingleNode) -> usize {
    let stats = node.web.get("/api/v1/stats").await.json();
    stats["counts"]["pending"].as_u64().expect("a count") as usize
}

/// The commands of all tasks of the group.
async fn commands(node: &SingleNode) -> Vec<String> {
    let all = ["search", "--json", "--all", "--group", "g", "--limit", "1000"];
    let said = node.cli.run(&all).await.assert_success();
    let command = |task: Value| task["command"].as_str().expect("a command").to_string();
    said.json_lines().into_iter().map(command).collect()
}

#[tokio::test]
async fn a_killed_batch_resumes_and_adds_nothing_twice() {
    let node = SingleNode::up(&["--slots", "0"]);
    // Slow enough that the command is killed in the middle.
    let relay = TcpRelay::start(node.system.http()).await.expect("a relay");
    relay.limit_rate(2_000_000);
    let slow = ConclaveCli::new(&format!("http://{}", relay.address));
    let folder = node.system.folder.path();
    let (file, state) = (folder.join("lines"), folder.join("state"));
    std::fs::write(&file, lines(LINES)).expect("a file");
    let add = [
        "add",
        "--group",
        "g",
        "--lines",
        text(&file),
        "--resume",
        text(&state),
    ];
    let mut kills = 0;
    for _ in 0..3 {
        let before = pending(&node).await;
        let mut child = slow.command(&add).spawn().expect("conclave starts");
        let ended = wait_until("some tasks to be added", TIMEOUT, async || {
            match child.try_wait().expect("a child") {
                Some(_) => Some(true),
                None => (pending(&node).await > before).then_some(false),
            }
        })
        .await;
        if !ended {
            child.kill().await.expect("kill -9");
            kills += 1;
        }
    }
    assert!(kills > 0, "the command was never killed in the middle");
    let before = pending(&node).await;
    assert!(before < LINES, "the command was not in the middle");
    println!("killed {kills} times, {before} tasks are there");
    for _ in 0..2 {
        let said = node.cli.run(&add).await;
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(pending(&node).await, LINES);
    }
    let commands = commands(&node).await;
    let different: BTreeSet<_> = commands.iter().collect();
    assert_eq!((commands.len(), different.len()), (LINES, LINES));

    // A line that was changed after it was added is another task: that is refused, by its number.
    let changed = lines(LINES).replace("\"echo 7\"", "\"echo seven\"");
    std::fs::write(&file, changed).expect("a file");
    node.cli.run(&add).await.assert_failure(1, &["line 7"]);
    assert_eq!(pending(&node).await, LINES);
    // The same for lines that were removed. Lines that were appended are added.
    std::fs::write(&file, lines(LINES - 3)).expect("a file");
    node.cli.run(&add).await.assert_failure(1, &["have changed"]);
    assert_eq!(pending(&node).await, LINES);
    std::fs::write(&file, lines(LINES + 3)).expect("a file");
    for _ in 0..2 {
        let said = node.cli.run(&add).await;
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(pending(&node).await, LINES + 3);
    }
    // Without --resume the ids are saved beside the lines, and a second command does not add them by accident.
    std::fs::write(&file, lines(5)).expect("a file");
    let unsaved = ["add", "--lines", text(&file)];
    relay.disconnect();
    let failed = slow.run(&[&["--timeout", "600ms"], &unsaved[..]].concat()).await;
    let saved = failed.flag_value_on_stderr("--resume").to_string();
    node.cli
        .run(&unsaved)
        .await
        .assert_failure(1, &["--resume", &saved]);
    for _ in 0..2 {
        let said = node
            .cli
            .run(&[&unsaved[..], &["--resume", &saved]].concat())
            .await;
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(pending(&node).await, LINES + 8);
    }
}

/// Only the server knows its bounds, and refuses the second request.
#[tokio::test]
async fn a_line_that_the_server_refused_is_corrected_and_added() {
    let node = SingleNode::up(&["--slots", "0"]);
    let file = node.system.folder.path().join("lines");
    let begin = "{\"execute\":{\"command\":\"echo 701\"";
    let bad = lines(900).replace(begin, &format!("{{\"attempts\":1000,{}", &begin[1..]));
    assert_ne!(bad, lines(900));
    std::fs::write(&file, bad).expect("a file");
    let add = ["add", "--lines", text(&file)];
    let failed = node.cli.run(&add).await;
    let saved = failed.flag_value_on_stderr("--resume").to_string();
    failed.assert_failure(1, &["line 701", "attempts"]);
    assert_eq!(pending(&node).await, 500);
    std::fs::write(&file, lines(900)).expect("a file");
    for _ in 0..2 {
        let said = node.cli.run(&[&add[..], &["--resume", &saved]].concat()).await;
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(pending(&node).await, 900);
    }
}

#[tokio::test]
async fn bad_lines_are_named_and_nothing_is_added() {
    let node = SingleNode::up(&["--slots", "0"]);
    let folder = node.system.folder.path();
    let (file, state) = (folder.join("lines"), folder.join("state"));
    for (bad, words) in [
        (
            "{\"execute\": {\"command\": \"x\"}, \"keep\": [\"../x\"]}",
            "keep",
        ),
        (
            "{\"execute\": {\"command\": \"x\"}, \"labels\": {\"a b\": \"\"}}",
            "labels",
        ),
        (
            "{\"execute\": {\"command\": \"x\"}, \"group\": \"other\"}",
            "group",
        ),
        ("{\"execute\": {\"command\": \"x\"}, \"attempts\": 0}", "attempts"),
    ] {
        let good = "{\"execute\": {\"command\": \"true\"}}\n";
        std::fs::write(&file, format!("{good}\n{good}{bad}\n{good}")).expect("a file");
        let add = [
            "add",
            "--group",
            "g",
            "--lines",
            text(&file),
            "--resume",
            text(&state),
        ];
        node.cli.run(&add).await.assert_failure(1, &["line 4", words]);
        assert_eq!(pending(&node).await, 0, "{bad}");
        // The corrected file is added under the same state.
        std::fs::write(&file, good.repeat(3)).expect("a file");
        let _ = std::fs::remove_file(&state);
    }
}

#[tokio::test]
async fn flags_apply_to_every_line() {
    let node = SingleNode::up(&["--slots", "0"]);
    let file = node.system.folder.path().join("lines");
    let lines = "{\"execute\": {\"command\": \"echo 1\"}}\n\
                 {\"execute\": {\"command\": \"echo 2\"}, \"labels\": {\"k\": \"own\"}, \"attempts\": 2}\n";
    std::fs::write(&file, lines).expect("a file");
    let said = node
        .cli
        .run(&[
            "add",
            "--json",
            "--lines",
            text(&file),
            "--group",
            "g",
            "--label",
            "k=v",
            "--label",
            "l=w",
            "--keep",
            "out/*",
            "--attempts",
            "7",
        ])
        .await
        .assert_success();
    let tasks = said.json_lines();
    let mut full = Vec::new();
    for task in &tasks {
        let id = task["id"].as_str().expect("an id");
        full.push(node.web.get(&format!("/api/v1/tasks/{id}")).await.json());
    }
    assert_eq!(
        (
            &full[0]["group"],
            &full[0]["labels"],
            &full[0]["keep"],
            &full[0]["attempts"]
        ),
        (
            &json!("g"),
            &json!({"k": "v", "l": "w"}),
            &json!(["out/*"]),
            &json!(7)
        )
    );
    // What a line says itself has precedence.
    assert_eq!(
        (&full[1]["labels"], &full[1]["attempts"]),
        (&json!({"k": "own", "l": "w"}), &json!(2))
    );
}
