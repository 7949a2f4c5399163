//! Exit codes of the commands that stand for a task, and the ways to name a task and a server.

use std::time::Duration;

use cluster_tests::await_that;

use crate::stage::Stage;

#[tokio::test]
async fn watch_and_get_exit_as_the_task_did() {
    let stage = Stage::up(&["--name", "solo", "--slots", "1"]);
    let cli = &stage.cli;
    let add = async |args: &[&str]| {
        let said = cli.run(&[&["add"], args].concat()).await.well();
        said.text().trim_end().to_string()
    };
    for (args, code, words) in [
        (&["--shell", "exit 0"][..], 0, ""),
        (&["--shell", "exit 7"], 7, ""),
        (&["--shell", "kill -TERM $$"], 143, "signal 15"),
        (
            &["--wall", "100ms", "--shell", "sleep 600"],
            112,
            "longer than it may",
        ),
        (&["--compile", "false", "--shell", "true"], 110, "compile"),
    ] {
        let id = add(args).await;
        cli.run(&["watch", &id]).await.fails(code, &[words]);
        cli.run(&["get", "--wait", "60s", &id]).await.fails(code, &[]);
        cli.run(&["get", "--wait", "60s", "--json", &id])
            .await
            .fails(code, &[]);
        cli.run(&["get", &id]).await.well();
    }
    let gate = stage.gate("gate");
    let id = add(&["--shell", &gate.wait()]).await;
    for form in [&[][..], &["--json"], &["--only", "stdout"]] {
        let args = [&["get", "--wait", "300ms", &id], form].concat();
        cli.run(&args).await.fails(124, &[&id, "after 0.3s"]);
    }
    cli.run(&["get", &id]).await.well();
    cli.run(&["cancel", &id]).await.well();
    cli.run(&["watch", &id]).await.fails(116, &["cancelled"]);
    for verb in ["run", "watch", "get"] {
        let help = cli.run(&[verb, "--help"]).await.well();
        assert!(
            help.text().contains("Exit codes") && help.text().contains("119"),
            "{verb}"
        );
    }
}

#[tokio::test]
async fn output_that_was_cut_off_has_a_code_of_its_own() {
    let stage = Stage::up(&["--set", "executor.keep_output=1000B"]);
    let cli = &stage.cli;
    let loud = "yes | head -c 5000; printf 'e\\377' >&2";
    let words = ["execute step's stdout was cut off: 1000 bytes", "--output"];
    let said = cli.run(&["run", "--shell", loud]).await;
    said.fails(119, &words);
    assert_eq!(said.stdout.len(), 1000);
    let said = cli.run(&["run", "--json", "--shell", loud]).await;
    said.fails(119, &words);
    let id = said.json()["id"].as_str().unwrap().to_string();
    for args in [
        &["watch", &id][..],
        &["get", &id],
        &["get", "--json", &id],
        &["get", "--wait", "1s", &id],
        &["get", "--only", "stdout", &id],
    ] {
        cli.run(args).await.fails(119, &words);
    }
    // Of what is shown nothing is missing.
    cli.run(&["get", "--only", "stderr", &id]).await.well();
    // The advice helps, and a failure of the task's own is stronger.
    cli.run(&["run", "--output", "5000", "--shell", loud])
        .await
        .fails(0, &[]);
    cli.run(&["run", "--shell", &format!("{loud}; exit 3")])
        .await
        .fails(3, &words);
}

#[tokio::test]
async fn ids_may_be_shortened() {
    let stage = Stage::up(&["--name", "solo"]);
    let cli = &stage.cli;
    let ids = [
        "a1890a5d-ac96-774b-bcce-b302099a8001",
        "a1890a5d-ac96-774b-bcce-b302099a8002",
        "b1890a5d-ac96-774b-bcce-b302099a8003",
    ];
    let gate = stage.gate("gate");
    for id in ids {
        cli.run(&["add", "--id", id, "--shell", &gate.wait()])
            .await
            .well();
    }
    let shown = cli.run(&["get", "b189"]).await.well();
    assert!(shown.text().contains(ids[2]), "{shown:?}");
    for verb in ["get", "cancel"] {
        cli.run(&[verb, "a1890a5d"])
            .await
            .fails(1, &["several ids", ids[0], ids[1]]);
        cli.run(&[verb, "cccc"]).await.fails(1, &["cccc"]);
        cli.run(&[verb, "a18"]).await.fails(2, &["from 4 to 36"]);
    }
    let said = cli.run(&["cancel", "b1890a5d-ac96", "a1890a5d"]).await;
    said.fails(1, &["several ids"]);
    assert_eq!(said.text(), format!("{} cancelled\n", ids[2]));
    cli.run(&["watch", "b1890a5d"]).await.fails(116, &["cancelled"]);
    gate.open();
    await_that("the rest to be done", Duration::from_secs(60), async || {
        let said = cli.run(&["get", ids[0], "--wait", "10s"]).await;
        (said.code == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_server_may_be_named_before_the_command() {
    let stage = Stage::up(&["--slots", "0"]);
    let nobody = cluster_tests::Cli::new("http://127.0.0.1:1");
    let server = stage.system.url("");
    nobody.run(&["stats"]).await.fails(1, &["127.0.0.1:1"]);
    nobody.run(&["--server", &server, "stats"]).await.well();
    nobody.run(&["stats", "--server", &server]).await.well();
    // The flag nearer to the command wins.
    let both = ["--server", "http://127.0.0.1:2", "stats", "--server", &server];
    nobody.run(&both).await.well();
    nobody
        .run(&["--token-file", "/nowhere/token", "stats"])
        .await
        .fails(1, &["/nowhere/token"]);
    nobody
        .run(&["--server", &server, "config"])
        .await
        .fails(2, &["--server is for commands that talk to a server"]);
}
