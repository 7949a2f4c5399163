//! The command line when the reader of its output or the server is gone.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::harness::SingleNode;

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test]
async fn a_closed_output_pipe_is_no_error() {
    let node = SingleNode::up(&["--slots", "0"]);
    let cli = &node.cli;
    // More than the pipe's buffer.
    let tasks = vec![json!({"execute": {"command": "x".repeat(500)}}); 1000];
    assert_eq!(
        node.web
            .post("/api/v1/tasks/batch", &json!({"tasks": tasks}))
            .await
            .status,
        201
    );
    for args in [
        &["search", "--limit", "1000"][..],
        &["search", "--limit", "1000", "--json"],
        &["search", "--all", "--limit", "50"],
        &["completions", "bash"],
        &["config"],
    ] {
        let mut child = cli.command(args).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        assert!(!line.is_empty());
        drop(stdout);
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .await
            .unwrap();
        assert_eq!(
            (child.wait().await.unwrap().code(), stderr.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let nobody = cluster_tests::TestSystem::new().unwrap();
    let cli = cluster_tests::ConclaveCli::new(&nobody.url(""));
    for verb in [
        vec!["stats"],
        vec!["search"],
        vec!["executors"],
        vec!["add", "--", "true"],
        vec!["get", UNKNOWN],
        vec!["cancel", UNKNOWN],
    ] {
        cli.run(&verb)
            .await
            .assert_failure(1, &["cannot reach", nobody.http(), "is the server running"]);
    }
    cli.run(&["run", "--", "true"])
        .await
        .assert_failure(125, &["cannot reach", nobody.http()]);
    // The flag overrides the variable, and errors name the one that is used.
    for (server, words) in [
        ("http://127.0.0.1:1", "127.0.0.1:1"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("ftp://x", "http://"),
        ("http://", "address"),
        ("http://no.such.host.invalid:1", "no.such.host.invalid"),
    ] {
        cli.run(&["stats", "--server", server])
            .await
            .assert_failure(1, &[words]);
    }
}
