//! Nodes that cannot start report why, and do not affect running ones.

use std::time::Duration;

use cluster_tests::{CommandOutput, ConclaveCli, TestSystem, wait_until};
use serde_json::json;

use crate::harness::{SingleNode, text};

const SOON: Duration = Duration::from_secs(30);

/// Runs a `conclave up` that must fail. Its addresses are free unless the flags set others.
async fn up(system: &TestSystem, flags: &[&str]) -> CommandOutput {
    let data = system.data();
    let fixed = [
        "up",
        "--data",
        text(&data),
        "--listen",
        system.http(),
        "--rpc",
        "127.0.0.1:0",
    ];
    // A repeated flag is refused, so given flags replace the defaults.
    let mut args = vec!["up"];
    for pair in fixed[1..].chunks(2) {
        if !flags.contains(&pair[0]) {
            args.extend(pair);
        }
    }
    args.extend(flags);
    ConclaveCli::new(&system.url("")).run(&args).await
}

#[tokio::test]
async fn addresses_and_folders_in_use_are_named() {
    let node = SingleNode::up(&[]);
    let other = TestSystem::new().unwrap();
    // The HTTP port, the RPC port, and the same port for both.
    up(&other, &["--listen", node.system.http()])
        .await
        .assert_failure(1, &[node.system.http(), "already in use", "--listen"]);
    let rpc = node.up.address("rpc");
    up(&other, &["--rpc", &rpc])
        .await
        .assert_failure(1, &[&rpc, "already in use", "--rpc"]);
    let both = ["--listen", "127.0.0.1:7999", "--rpc", "127.0.0.1:7999"];
    up(&other, &both)
        .await
        .assert_failure(1, &["gateway.listen", "judicator.listen"]);
    // The data folder.
    let data = node.system.data();
    let said = up(&other, &["--data", text(&data)]).await;
    said.assert_failure(1, &[text(&data)]);
    assert!(
        said.stderr.contains("in use") || said.stderr.contains("another"),
        "{said:?}"
    );
    // The first node keeps running.
    let task = node.web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(task["result"]["execute"]["stdout"], "well\n");
    let executors = node.web.get("/api/v1/executors").await.json()["executors"].clone();
    assert_eq!(executors.as_array().unwrap().len(), 1, "{executors}");
    // The folder is free when its node has ended.
    let node = node.again(&[]);
    wait_until("the node to be ready", SOON, async || {
        (node.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn non_loopback_addresses_need_secrets() {
    let system = TestSystem::new().unwrap();
    let port = system.http().split(':').next_back().unwrap();
    for host in ["0.0.0.0", "[::]"] {
        let address = format!("{host}:{port}");
        up(&system, &["--listen", &address])
            .await
            .assert_failure(1, &[&address, "--insecure", "secrets.tokens_file"]);
        up(&system, &["--rpc", &address])
            .await
            .assert_failure(1, &[&address, "--insecure", "secrets.cluster_file"]);
    }
    // Allowed with secrets, or with --insecure.
    let folder = system.folder.path();
    let (tokens, secret) = (folder.join("tokens"), folder.join("secret"));
    std::fs::write(&tokens, "a-token-long-enough ada\n").unwrap();
    std::fs::write(&secret, "a-secret-long-enough\n").unwrap();
    let data = system.data();
    let address = format!("0.0.0.0:{port}");
    let base = [
        "up",
        "--data",
        text(&data),
        "--listen",
        &address,
        "--rpc",
        "0.0.0.0:0",
    ];
    for more in [
        &["--insecure"][..],
        &["--tokens-file", text(&tokens), "--cluster-file", text(&secret)],
    ] {
        let args = [&base[..], more].concat();
        cluster_tests::NodeProcess::start("open", folder, &args).unwrap();
    }
    for (content, words) in [
        ("", "no token"),
        ("short ada\n", "at least"),
        ("a-token-long-enough\n", "user"),
        (
            "a-token-long-enough ada\na-token-long-enough bob\n",
            "repeats the token",
        ),
    ] {
        std::fs::write(&tokens, content).unwrap();
        let said = up(&system, &["--tokens-file", text(&tokens)]).await;
        said.assert_failure(1, &[text(&tokens), words]);
        assert!(!said.stderr.contains("long-enough"), "a token is shown: {said:?}");
    }
    for content in ["", "short", "two\nlines of secrets, long\n"] {
        std::fs::write(&secret, content).unwrap();
        let said = up(&system, &["--cluster-file", text(&secret)]).await;
        said.assert_failure(1, &[text(&secret)]);
    }
    up(&system, &["--tokens-file", "/nowhere/tokens"])
        .await
        .assert_failure(1, &["/nowhere/tokens"]);
}

#[tokio::test]
async fn an_unusable_folder_is_named() {
    let system = TestSystem::new().unwrap();
    let file = system.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("data");
    for folder in [text(&file), text(&below), "/proc/conclave"] {
        up(&system, &["--data", folder])
            .await
            .assert_failure(1, &[folder, "--data"]);
    }
    // A file that is not a database is neither served nor changed.
    let store = system.data().join("store");
    let first = system.up(&[]).unwrap();
    first.kill();
    let database = store.join("tasks.db");
    assert!(database.exists());
    for entry in std::fs::read_dir(&store).unwrap().flatten() {
        let path = entry.path();
        if path.is_file() && path != database {
            std::fs::remove_file(path).unwrap();
        }
    }
    let nonsense = "this is no database ".repeat(1000);
    std::fs::write(&database, &nonsense).unwrap();
    let said = up(&system, &[]).await;
    said.assert_failure(1, &[text(&store), "damaged", "tasks.db", "restore a backup"]);
    assert_eq!(std::fs::read_to_string(&database).unwrap(), nonsense);
}

#[tokio::test]
async fn everything_that_is_missing_is_listed_at_once() {
    let node = SingleNode::up(&[]);
    let other = TestSystem::new().unwrap();
    let flags = [
        "--listen",
        node.system.http(),
        "--data",
        "/dev/null/data",
        "--tokens-file",
        "/no/tokens",
        "--cluster-file",
        "/no/secret",
    ];
    let said = up(&other, &flags).await;
    said.assert_failure(
        1,
        &[
            "4 problems prevent this node from starting",
            "1. ",
            "/no/secret",
            "/no/tokens",
            "the data folder /dev/null/data",
            "4. ",
            "already in use by another process",
        ],
    );
    assert_eq!(said.text(), "");
}
