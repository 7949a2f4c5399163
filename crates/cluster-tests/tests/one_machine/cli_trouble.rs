//! The command line when the other end is not there: the reader of its output, or the server.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::stage::Stage;

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test]
async fn nobody_minds_a_closed_pipe() {
    let stage = Stage::up(&["--slots", "0"]);
    let cli = &stage.cli;
    // More than a pipe holds.
    let tasks = vec![json!({"execute": {"command": "x".repeat(500)}}); 1000];
    assert_eq!(
        stage
            .web
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
async fn an_unreachable_server_is_told_as_such() {
    let nobody = cluster_tests::System::new().unwrap();
    let cli = cluster_tests::Cli::new(&nobody.url(""));
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
            .fails(1, &["cannot reach", nobody.http(), "is the server running"]);
    }
    cli.run(&["run", "--", "true"])
        .await
        .fails(125, &["cannot reach", nobody.http()]);
    // The flag is stronger than the variable, and says as clearly what is wrong with it.
    for (server, words) in [
        ("http://127.0.0.1:1", "127.0.0.1:1"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("ftp://x", "http://"),
        ("http://", "address"),
        ("http://no.such.host.invalid:1", "no.such.host.invalid"),
    ] {
        cli.run(&["stats", "--server", server]).await.fails(1, &[words]);
    }
}
