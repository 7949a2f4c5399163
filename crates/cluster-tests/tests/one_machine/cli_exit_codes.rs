//! Exit codes of commands that report a task, and the ways to name a task and a server.

use std::time::Duration;

use cluster_tests::wait_until;

use crate::harness::SingleNode;

#[tokio::test]
async fn watch_and_get_exit_as_the_task_did() {
    let node = SingleNode::up(&["--name", "solo", "--slots", "1"]);
    let cli = &node.cli;
    let add = async |args: &[&str]| {
        let said = cli.run(&[&["add"], args].concat()).await.assert_success();
        said.text().trim_end().to_string()
    };
    for (args, code, words) in [
        (&["--shell", "exit 0"][..], 0, ""),
        (&["--shell", "exit 7"], 7, ""),
        (&["--shell", "kill -TERM $$"], 143, "signal 15"),
        (
            &["--wall", "100ms", "--shell", "sleep 600"],
            112,
            "wall time limit",
        ),
        (&["--compile", "false", "--shell", "true"], 110, "compile"),
    ] {
        let id = add(args).await;
        cli.run(&["watch", &id]).await.assert_failure(code, &[words]);
        cli.run(&["get", "--wait", "60s", &id])
            .await
            .assert_failure(code, &[]);
        cli.run(&["get", "--wait", "60s", "--json", &id])
            .await
            .assert_failure(code, &[]);
        cli.run(&["get", &id]).await.assert_success();
    }
    let gate = node.gate("gate");
    let id = add(&["--shell", &gate.wait()]).await;
    for form in [&[][..], &["--json"], &["--only", "stdout"]] {
        let args = [&["get", "--wait", "300ms", &id], form].concat();
        cli.run(&args).await.assert_failure(124, &[&id, "after 0.3s"]);
    }
    cli.run(&["get", &id]).await.assert_success();
    cli.run(&["cancel", &id]).await.assert_success();
    cli.run(&["watch", &id]).await.assert_failure(116, &["cancelled"]);
    for verb in ["run", "watch", "get"] {
        let help = cli.run(&[verb, "--help"]).await.assert_success();
        assert!(
            help.text().contains("Exit codes") && help.text().contains("119"),
            "{verb}"
        );
    }
}

#[tokio::test]
async fn truncated_output_has_its_own_exit_code() {
    let node = SingleNode::up(&["--set", "executor.keep_output=1000B"]);
    let cli = &node.cli;
    let loud = "yes | head -c 5000; printf 'e\\377' >&2";
    let words = [
        "execute step's stdout was cut off after 1000 bytes",
        "executor.keep_output",
    ];
    let said = cli.run(&["run", "--shell", loud]).await;
    said.assert_failure(119, &words);
    assert_eq!(said.stdout.len(), 1000);
    let said = cli.run(&["run", "--json", "--shell", loud]).await;
    said.assert_failure(119, &words);
    let id = said.json()["id"].as_str().unwrap().to_string();
    for args in [
        &["watch", &id][..],
        &["get", &id],
        &["get", "--json", &id],
        &["get", "--wait", "1s", &id],
        &["get", "--only", "stdout", &id],
    ] {
        cli.run(args).await.assert_failure(119, &words);
    }
    // The output that is shown is complete.
    cli.run(&["get", "--only", "stderr", &id]).await.assert_success();
    // A higher limit of the step keeps more, and a failure of the task has precedence.
    cli.run(&["run", "--output", "5000", "--shell", loud])
        .await
        .assert_failure(0, &[]);
    cli.run(&["run", "--shell", &format!("{loud}; exit 3")])
        .await
        .assert_failure(3, &words);
}

#[tokio::test]
async fn ids_may_be_shortened() {
    let node = SingleNode::up(&["--name", "solo"]);
    let cli = &node.cli;
    let ids = [
        "a1890a5d-ac96-774b-bcce-b302099a8001",
        "a1890a5d-ac96-774b-bcce-b302099a8002",
        "b1890a5d-ac96-774b-bcce-b302099a8003",
    ];
    let gate = node.gate("gate");
    for id in ids {
        cli.run(&["add", "--id", id, "--shell", &gate.wait()])
            .await
            .assert_success();
    }
    let shown = cli.run(&["get", "b189"]).await.assert_success();
    assert!(shown.text().contains(ids[2]), "{shown:?}");
    for verb in ["get", "cancel"] {
        cli.run(&[verb, "a1890a5d"])
            .await
            .assert_failure(1, &["several tasks have an id", ids[0], ids[1]]);
        cli.run(&[verb, "cccc"]).await.assert_failure(1, &["cccc"]);
        cli.run(&[verb, "a18"]).await.assert_failure(2, &["from 4 to 36"]);
    }
    let said = cli.run(&["cancel", "b1890a5d-ac96", "a1890a5d"]).await;
    said.assert_failure(1, &["several tasks have an id"]);
    assert_eq!(said.text(), format!("{} cancelled\n", ids[2]));
    cli.run(&["watch", "b1890a5d"])
        .await
        .assert_failure(116, &["cancelled"]);
    gate.open();
    wait_until("the rest to be done", Duration::from_secs(60), async || {
        let said = cli.run(&["get", ids[0], "--wait", "10s"]).await;
        (said.code == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn client_flags_may_precede_the_command() {
    let node = SingleNode::up(&["--slots", "0"]);
    let nobody = cluster_tests::ConclaveCli::new("http://127.0.0.1:1");
    let server = node.system.url("");
    nobody.run(&["stats"]).await.assert_failure(1, &["127.0.0.1:1"]);
    nobody.run(&["--server", &server, "stats"]).await.assert_success();
    nobody.run(&["stats", "--server", &server]).await.assert_success();
    // The flag nearer to the command wins.
    let both = ["--server", "http://127.0.0.1:2", "stats", "--server", &server];
    nobody.run(&both).await.assert_success();
    nobody
        .run(&["--token-file", "/nowhere/token", "stats"])
        .await
        .assert_failure(1, &["/nowhere/token"]);
    nobody
        .run(&["--server", &server, "config"])
        .await
        .assert_failure(2, &["--server applies only to commands that call a server"]);
}
