//! All other commands: tables, JSON, and errors.

use std::process::Stdio;

use serde_json::json;

use crate::harness::{SingleNode, text};

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test]
async fn tasks_are_added_shown_and_followed() {
    let node = SingleNode::up(&["--name", "exec-1"]);
    let cli = &node.cli;
    let added = cli
        .run(&[
            "add",
            "--user",
            "ada",
            "--shell",
            "echo out; printf 'e\\377' >&2; exit 4",
        ])
        .await
        .assert_success();
    let id = added.text().trim_end();
    assert_eq!(id.len(), 36, "{added:?}");

    let watched = cli.run(&["watch", id]).await;
    watched.assert_failure(4, &[]);
    // The outputs are passed on, each to its own stream; statuses are messages.
    assert_eq!(watched.text(), "out\n");
    assert!(
        watched.stderr.contains("e\u{fffd}") && watched.stderr.contains("run_failed"),
        "{watched:?}"
    );
    let watched = cli.run(&["watch", "--json", id]).await;
    watched.assert_failure(4, &[]);
    assert_eq!(watched.json_lines().last().unwrap()["status"], "run_failed");

    cli.run(&["get", "--wait", "10s", id])
        .await
        .assert_failure(4, &[]);
    let shown = cli.run(&["get", id]).await.assert_success();
    for words in [id, "ada", "run_failed", "exited with 4", "out"] {
        assert!(shown.text().contains(words), "no '{words}' in {shown:?}");
    }
    let task = cli.json(&["get", "--json", id]).await;
    assert_eq!(task, node.web.get(&format!("/api/v1/tasks/{id}")).await.json());
    assert_eq!(
        cli.run(&["get", "--only", "stdout", id])
            .await
            .assert_success()
            .stdout,
        b"out\n"
    );
    assert_eq!(
        cli.run(&["get", "--only", "stderr", id])
            .await
            .assert_success()
            .stdout,
        b"e\xff"
    );
    cli.run(&["get", "--only", "compile-stdout", id])
        .await
        .assert_failure(1, &["compile"]);

    // From JSON, one task and many; a repeated add adds nothing.
    let folder = node.system.folder.path();
    let file = folder.join("task.json");
    std::fs::write(
        &file,
        json!({"id": UNKNOWN, "execute": {"command": "true"}}).to_string(),
    )
    .unwrap();
    for _ in 0..2 {
        let said = cli.run(&["add", "--file", text(&file)]).await.assert_success();
        assert_eq!(said.text(), format!("{UNKNOWN}\n"));
    }
    let lines =
        "{\"execute\": {\"command\": \"echo 1\"}}\n\n{\"execute\": {\"command\": [\"echo\", \"2\"]}}\n";
    let said = cli
        .run_with_input(&["add", "--json", "--lines", "-"], lines.as_bytes())
        .await;
    said.assert_failure(0, &["--key"]);
    let briefs = said.json_lines();
    let commands: Vec<_> = briefs
        .iter()
        .map(|brief| brief["command"].as_str().unwrap())
        .collect();
    assert_eq!(commands, ["echo 1", "echo 2"]);
    let task = cli.json(&["add", "--json", "--", "echo", "3"]).await;
    assert_eq!(task["execute"]["command"], json!(["echo", "3"]));
    for (input, words) in [
        ("{\"execute\": {\"comand\": \"x\"}}", "'command'"),
        ("{\"execute\"", "not valid JSON"),
        ("", "empty"),
    ] {
        cli.run_with_input(&["add", "--file", "-"], input.as_bytes())
            .await
            .assert_failure(1, &[words]);
    }
    let bad_line = format!("{lines}{{}}\n");
    cli.run_with_input(&["add", "--lines", "-"], bad_line.as_bytes())
        .await
        .assert_failure(1, &["line 4", "execute"]);

    // Every task that can be cancelled is; a done task cannot.
    cli.run(&["get", "--wait", "60s", UNKNOWN]).await.assert_success();
    let gate = node.gate("gate");
    let one = cli.run(&["add", "--shell", &gate.wait()]).await.assert_success();
    let two = cli.run(&["add", "--shell", &gate.wait()]).await.assert_success();
    let (one, two) = (one.text().trim_end(), two.text().trim_end());
    let said = cli.run(&["cancel", one, id, UNKNOWN, two]).await;
    said.assert_failure(
        1,
        &[&format!("task {id} cannot be cancelled"), "run_failed", UNKNOWN],
    );
    assert_eq!(said.stderr.matches(id).count(), 1, "{said:?}");
    assert_eq!(said.text(), format!("{one} cancelled\n{two} cancelled\n"));
    assert_eq!(cli.json(&["cancel", "--json", one]).await["status"], "cancelled");
    for (verb, code) in [("get", 1), ("watch", 125)] {
        let missing = "01890a5d-ac96-774b-bcce-b302099a8058";
        cli.run(&[verb, missing])
            .await
            .assert_failure(code, &[missing, "does not exist"]);
        cli.run(&[verb, "7"]).await.assert_failure(2, &["from 4 to 36"]);
        cli.run(&[verb, "task-7"]).await.assert_failure(2, &["UUID"]);
    }
}

#[tokio::test]
async fn lists_are_tables_or_json() {
    let node = SingleNode::up(&["--name", "exec-1", "--slots", "2"]);
    let cli = &node.cli;
    node.system.ready(1).await;
    for (user, command) in [
        ("ada", "echo one"),
        ("bob", "echo two"),
        ("ada", "echo \x1b[31mred\nnext line"),
    ] {
        cli.run(&["run", "--user", user, "--shell", command]).await;
    }
    let table = cli
        .run(&["search", "--user", "ada", "--oldest"])
        .await
        .assert_success();
    let rows: Vec<_> = table.text().lines().collect();
    assert_eq!(rows.len(), 3, "{table:?}");
    assert!(
        rows[0].starts_with("ID") && rows[0].contains("COMMAND"),
        "{table:?}"
    );
    assert!(
        rows[1].contains("echo one") && rows[1].contains("success"),
        "{table:?}"
    );
    assert!(
        !table.text().contains('\x1b'),
        "a command steers the terminal: {table:?}"
    );
    let page = cli.run(&["search", "--json", "--limit", "2"]).await;
    page.assert_failure(0, &["there are more", "--after"]);
    assert_eq!(page.json_lines().len(), 2);
    let next = page.flag_value_on_stderr("--after");
    let rest = cli
        .run(&["search", "--json", "--limit", "2", "--after", next])
        .await
        .assert_success();
    assert_eq!(rest.json_lines().len(), 1);
    assert_eq!(rest.json_lines()[0]["command"], "echo one");
    let more = cli.run(&["search", "--limit", "2"]).await;
    assert!(more.code == 0 && more.stderr.contains("--after"), "{more:?}");
    // With --all there is one list: a task on each line.
    let all = cli
        .run(&["search", "--json", "--all", "--oldest", "--limit", "1"])
        .await
        .assert_success();
    let commands: Vec<_> = all
        .json_lines()
        .iter()
        .map(|task| task["command"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(commands.len(), 3, "{all:?}");
    assert_eq!(commands[..2], ["echo one", "echo two"]);
    let pages = cli
        .run(&["search", "--all", "--limit", "1"])
        .await
        .assert_success();
    let headings = pages.text().lines().filter(|line| line.starts_with("ID "));
    assert_eq!(
        (headings.count(), pages.text().lines().count()),
        (1, 4),
        "{pages:?}"
    );
    // A prefix of an id finds all tasks that begin with it.
    let ids: Vec<_> = all
        .json_lines()
        .iter()
        .map(|task| task["id"].as_str().unwrap().to_string())
        .collect();
    let begun_alike = cli
        .run(&["search", "--json", &ids[0][..6]])
        .await
        .assert_success();
    assert_eq!(begun_alike.json_lines().len(), 3, "{begun_alike:?}");
    let two = cli
        .run(&["search", "--json", &ids[0][..35], &ids[1]])
        .await
        .assert_success();
    assert_eq!(two.json_lines().len(), 2, "{two:?}");
    for form in [
        &["search", "--text", "nothing-like-it"][..],
        &["search", "--json", "--user", "eve"],
    ] {
        let none = cli.run(form).await;
        none.assert_failure(0, &["No matching tasks."]);
        assert_eq!(none.text(), "");
    }
    cli.run(&["search", "--oldest", "--after", next])
        .await
        .assert_failure(1, &["search"]);
    cli.run(&["search", "--status", "done"])
        .await
        .assert_failure(2, &["done"]);
    cli.run(&["search", "--limit", "0"])
        .await
        .assert_failure(2, &["--limit"]);

    for (verb, words) in [
        ("executors", "exec-1"),
        ("judicators", "sqlite"),
        ("stats", "success"),
    ] {
        let said = cli.run(&[verb]).await.assert_success();
        assert!(said.text().contains(words), "{said:?}");
    }
    // A list with one entry is one object.
    assert_eq!(cli.json(&["executors", "--json"]).await["name"], "exec-1");
    assert_eq!(cli.json(&["judicators", "--json"]).await["leader"], true);
    assert_eq!(cli.json(&["stats", "--json"]).await["counts"]["success"], 2);

    for shell in ["bash", "zsh", "fish"] {
        let said = cli.run(&["completions", shell]).await.assert_success();
        assert!(
            said.text().contains("conclave") && said.text().contains("judicators"),
            "{shell}"
        );
    }
    let script = cli.run(&["completions", "bash"]).await.assert_success().stdout;
    let check = std::process::Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .spawn();
    let mut check = check.unwrap();
    std::io::Write::write_all(&mut check.stdin.take().unwrap(), &script).unwrap();
    assert!(
        check.wait().unwrap().success(),
        "bash does not understand its completions"
    );
    cli.run(&["completions", "tcl"]).await.assert_failure(2, &["tcl"]);
    cli.run(&["serach"]).await.assert_failure(2, &["search"]);
    let help = cli.run(&["--help"]).await.assert_success();
    for verb in [
        "up",
        "run",
        "add",
        "get",
        "search",
        "cancel",
        "watch",
        "executors",
        "judicators",
        "stats",
        "bench",
        "config",
        "completions",
        "judicator",
        "executor",
        "gateway",
    ] {
        assert!(
            help.text().contains(&format!("\n  {verb} ")),
            "no {verb} in the help"
        );
    }
}
