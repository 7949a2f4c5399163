//! Groups on the command line: `wait`, `cancel`, `retry`, `search` and `export`.

use std::time::Duration;

use cluster_tests::wait_until;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Adds one task for each command, and returns the ids.
async fn add(node: &SingleNode, group: &str, commands: &[&str]) -> Vec<String> {
    let lines: String = commands
        .iter()
        .map(|command| json!({"execute": {"command": command}}).to_string() + "\n")
        .collect();
    let args = ["add", "--group", group, "--label", "kind=test", "--lines", "-"];
    let said = node.cli.run_with_input(&args, lines.as_bytes()).await;
    said.assert_failure(0, &["--key"]);
    said.text().lines().map(str::to_string).collect()
}

#[tokio::test]
async fn wait_exits_with_0_only_if_all_tasks_succeeded() {
    let node = SingleNode::up(&["--slots", "2"]);
    let cli = &node.cli;
    add(&node, "good", &["true"; 20]).await;
    let said = cli.run(&["wait", "good"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let state = cli.run(&["wait", "--json", "good"]).await;
    assert_eq!(
        (state.code, &state.json()["counts"]["success"]),
        (0, &json!(20)),
        "{state:?}"
    );

    add(&node, "bad", &["true", "false", "exit 3", "true"]).await;
    let said = cli.run(&["wait", "bad"]).await;
    said.assert_failure(1, &["2 of 4"]);
    let gate = node.gate("gate");
    let ids = add(&node, "slow", &["true", &gate.wait()]).await;
    cli.run(&["wait", "--wait", "300ms", "slow"])
        .await
        .assert_failure(124, &["1 of 2"]);
    // It waits until the last task is done.
    let waiting = cli.command(&["wait", "slow"]).spawn().expect("conclave starts");
    let by_id = cli
        .command(&["wait", &ids[0], &ids[1]])
        .spawn()
        .expect("conclave starts");
    wait_until("the task to run", TIMEOUT, async || {
        let task = node.web.get(&format!("/api/v1/tasks/{}", ids[1])).await.json();
        (task["status"] == "running").then_some(())
    })
    .await;
    gate.open();
    for waiting in [waiting, by_id] {
        let said = cluster_tests::CommandOutput::of(waiting).await;
        assert_eq!(said.code, 0, "{said:?}");
    }
    // A cancelled task did not succeed.
    let closed = node.gate("closed");
    add(&node, "cancelled", &[&closed.wait()]).await;
    cli.run(&["cancel", "--yes", "--group", "cancelled"])
        .await
        .assert_failure(0, &[]);
    cli.run(&["wait", "cancelled"])
        .await
        .assert_failure(1, &["1 of 1"]);
    cli.run(&["wait", "nobody"])
        .await
        .assert_failure(125, &["nobody"]);
    cli.run(&["wait", "a/b"]).await.assert_failure(125, &["a/b"]);
}

/// A group survives a restart of the server, and so does who waits for it.
#[tokio::test]
async fn wait_continues_after_a_restart_of_the_server() {
    let node = SingleNode::up(&["--slots", "1"]);
    let gate = node.gate("gate");
    add(&node, "g", &["true", &gate.wait(), "true"]).await;
    let mut waiting = node.cli.command(&["wait", "g"]).spawn().expect("conclave starts");
    // Its first line about the progress says that it waits.
    let mut stderr = BufReader::new(waiting.stderr.take().expect("a stderr"));
    let mut line = String::new();
    let read = timeout(TIMEOUT, stderr.read_line(&mut line)).await;
    read.expect("a line in time").expect("a line");
    wait_until("the first task to be done", TIMEOUT, async || {
        let group = node.web.get("/api/v1/groups").await.json();
        (group["groups"][0]["done"] == 1).then_some(())
    })
    .await;
    let node = node.again(&["--slots", "1"]);
    gate.open();
    let said = cluster_tests::CommandOutput::of(waiting).await;
    assert_eq!(said.code, 0, "{said:?}");
    drop(node);
}

#[tokio::test]
async fn cancel_by_a_filter_needs_a_confirmation() {
    let node = SingleNode::up(&["--slots", "0"]);
    let cli = &node.cli;
    add(&node, "one", &["true"; 7]).await;
    add(&node, "two", &["true"; 5]).await;
    let pending = async || {
        let stats = node.web.get("/api/v1/stats").await.json();
        stats["counts"]["pending"].as_u64().expect("a count")
    };
    // Nobody can answer, so nothing is cancelled, and the count is shown.
    let said = cli.run(&["cancel", "--group", "one"]).await;
    assert_ne!(said.code, 0, "{said:?}");
    assert!(
        said.stderr.contains('7') && said.stderr.contains("--yes"),
        "{said:?}"
    );
    assert_eq!(pending().await, 12);
    cli.run(&["cancel", "--status", "success"])
        .await
        .assert_failure(2, &["success"]);
    cli.run(&["cancel"]).await.assert_failure(2, &[]);
    let said = cli.run(&["cancel", "--yes", "--group", "one"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.text().contains('7') || said.stderr.contains('7'), "{said:?}");
    assert_eq!(pending().await, 5);
    let said = cli
        .run(&[
            "cancel",
            "--yes",
            "--json",
            "--status",
            "pending",
            "--label",
            "kind=test",
        ])
        .await;
    assert_eq!((said.code, &said.json()["cancelled"]), (0, &json!(5)), "{said:?}");
    assert_eq!(pending().await, 0);
}

#[tokio::test]
async fn tasks_are_searched_retried_and_exported() {
    let node = SingleNode::up(&["--slots", "2"]);
    let cli = &node.cli;
    let flaky = format!("[ -e {} ]", node.system.folder.path().join("gate").display());
    let odd = "printf 'a,\"b\"\\nc'; exit 1";
    let ids = add(&node, "g", &["echo fine", &flaky, odd]).await;
    add(&node, "other", &["true"]).await;
    cli.run(&["wait", "g"]).await.assert_failure(1, &[]);

    let found = async |args: &[&str]| -> Vec<Value> {
        let said = cli.run(&[&["search", "--json", "--all"], args].concat()).await;
        assert_eq!(said.code, 0, "{said:?}");
        said.json_lines()
    };
    assert_eq!(found(&["--group", "g"]).await.len(), 3);
    assert_eq!(found(&["--label", "kind=test"]).await.len(), 4);
    assert_eq!(found(&["--label", "kind=other"]).await.len(), 0);
    let failed = found(&["--group", "g", "--status", "run_failed"]).await;
    assert_eq!((failed.len(), &failed[0]["reason"]), (2, &json!("exited")));
    // The table shows the reason.
    let table = cli.run(&["search", "--group", "g"]).await.assert_success();
    assert!(table.text().contains("exited"), "{table:?}");

    // JSONL has a whole task on each line, CSV a row for each after a heading.
    let said = cli.run(&["export", "--group", "g", "--format", "jsonl"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let tasks = said.json_lines();
    assert_eq!(tasks.len(), 3, "{said:?}");
    let mut exported: Vec<_> = tasks
        .iter()
        .map(|task| task["id"].as_str().expect("an id"))
        .collect();
    exported.sort_unstable();
    let mut expected: Vec<_> = ids.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(exported, expected);
    let said = cli.run(&["export", "--group", "g", "--format", "csv"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    let rows = parse_csv(said.text());
    assert_eq!(rows.len(), 4, "{said:?}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    let column = |name: &str| {
        let found = rows[0].iter().position(|heading| heading == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", rows[0]))
    };
    for row in &rows[1..] {
        assert!(ids.contains(&row[column("id")]), "{row:?}");
        assert!(
            ["success", "run_failed"].contains(&row[column("status")].as_str()),
            "{row:?}"
        );
    }
    let none = cli.run(&["export", "--group", "nobody"]).await;
    none.assert_failure(0, &["No matching tasks."]);

    // A retry of one task, and of what is left of the group.
    node.gate("gate").open();
    let retried = cli.run(&["retry", &ids[1]]).await.assert_success();
    let retried = retried.text().trim_end().to_string();
    cli.run(&["get", "--wait", "60s", &retried])
        .await
        .assert_success();
    let said = cli.run(&["retry", "--group", "g"]).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.text().lines().count(), 1, "{said:?}");
    cli.run(&["wait", "g"]).await.assert_failure(1, &["1 of 3"]);
    let unknown = "01890a5d-ac96-774b-bcce-b302099a8058";
    cli.run(&["retry", unknown]).await.assert_failure(1, &[unknown]);
}

/// Rows of comma-separated values (RFC 4180).
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut is_quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let row = rows.last_mut().expect("a row");
        let field = row.last_mut().expect("a field");
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(String::new()),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => rows.push(vec![String::new()]),
            other => field.push(other),
        }
    }
    assert!(!is_quoted, "an open quote in {text}");
    rows.retain(|row| row.len() > 1);
    rows
}
