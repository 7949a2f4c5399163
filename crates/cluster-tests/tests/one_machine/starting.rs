//! A node that cannot start says why, and harms nobody who did.

use std::time::Duration;

use cluster_tests::{Cli, Said, System, await_that};
use serde_json::json;

use crate::stage::{Stage, text};

const SOON: Duration = Duration::from_secs(30);

/// `conclave up` that is expected to fail. Addresses are free unless they are given again.
async fn up(system: &System, flags: &[&str]) -> Said {
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
    // A flag that comes twice is refused, so what is given replaces what is fixed.
    let mut args = vec!["up"];
    for pair in fixed[1..].chunks(2) {
        if !flags.contains(&pair[0]) {
            args.extend(pair);
        }
    }
    args.extend(flags);
    Cli::new(&system.url("")).run(&args).await
}

#[tokio::test]
async fn what_is_taken_is_named() {
    let stage = Stage::up(&[]);
    let other = System::new().unwrap();
    // The port of the API, that of the calls, and both for one node.
    up(&other, &["--listen", stage.system.http()])
        .await
        .fails(1, &[stage.system.http(), "taken", "--listen"]);
    let rpc = stage.up.address("rpc");
    up(&other, &["--rpc", &rpc])
        .await
        .fails(1, &[&rpc, "taken", "--rpc"]);
    let both = ["--listen", "127.0.0.1:7999", "--rpc", "127.0.0.1:7999"];
    up(&other, &both)
        .await
        .fails(1, &["gateway.listen", "judicator.listen"]);
    // The data folder.
    let data = stage.system.data();
    let said = up(&other, &["--data", text(&data)]).await;
    said.fails(1, &[text(&data)]);
    assert!(
        said.stderr.contains("in use") || said.stderr.contains("another"),
        "{said:?}"
    );
    // The node that was first goes on.
    let task = stage.web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(task["result"]["execute"]["stdout"], "well\n");
    let executors = stage.web.get("/api/v1/executors").await.json()["executors"].clone();
    assert_eq!(executors.as_array().unwrap().len(), 1, "{executors}");
    // And the folder is free when its node has ended.
    let stage = stage.again(&[]);
    await_that("the node to be ready", SOON, async || {
        (stage.web.get("/readyz").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn strangers_are_not_let_in_by_mistake() {
    let system = System::new().unwrap();
    let port = system.http().split(':').next_back().unwrap();
    for host in ["0.0.0.0", "[::]"] {
        let address = format!("{host}:{port}");
        up(&system, &["--listen", &address])
            .await
            .fails(1, &[&address, "--insecure", "secrets.tokens_file"]);
        up(&system, &["--rpc", &address])
            .await
            .fails(1, &[&address, "--insecure", "secrets.cluster_file"]);
    }
    // With secrets it is let be; without, when it is said to be on purpose.
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
        cluster_tests::Node::start("open", folder, &args).unwrap();
    }
    for (content, words) in [
        ("", "no token"),
        ("short ada\n", "at least"),
        ("a-token-long-enough\n", "user"),
        ("a-token-long-enough ada\na-token-long-enough bob\n", "same token"),
    ] {
        std::fs::write(&tokens, content).unwrap();
        let said = up(&system, &["--tokens-file", text(&tokens)]).await;
        said.fails(1, &[text(&tokens), words]);
        assert!(!said.stderr.contains("long-enough"), "a token is shown: {said:?}");
    }
    for content in ["", "short", "two\nlines of secrets, long\n"] {
        std::fs::write(&secret, content).unwrap();
        let said = up(&system, &["--cluster-file", text(&secret)]).await;
        said.fails(1, &[text(&secret)]);
    }
    up(&system, &["--tokens-file", "/nowhere/tokens"])
        .await
        .fails(1, &["/nowhere/tokens"]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named() {
    let system = System::new().unwrap();
    let file = system.folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("data");
    for folder in [text(&file), text(&below), "/proc/conclave"] {
        up(&system, &["--data", folder])
            .await
            .fails(1, &[folder, "--data"]);
    }
    // A store that is none is neither served nor touched.
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
    said.fails(1, &[text(&store), "damaged", "tasks.db", "restore a backup"]);
    assert_eq!(std::fs::read_to_string(&database).unwrap(), nonsense);
}

#[tokio::test]
async fn everything_that_is_missing_is_listed_at_once() {
    let stage = Stage::up(&[]);
    let other = System::new().unwrap();
    let flags = [
        "--listen",
        stage.system.http(),
        "--data",
        "/dev/null/data",
        "--tokens-file",
        "/no/tokens",
        "--cluster-file",
        "/no/secret",
    ];
    let said = up(&other, &flags).await;
    said.fails(
        1,
        &[
            "4 things keep this node from starting",
            "1. ",
            "/no/secret",
            "/no/tokens",
            "the data folder /dev/null/data",
            "4. ",
            "taken by another process",
        ],
    );
    assert_eq!(said.text(), "");
}
