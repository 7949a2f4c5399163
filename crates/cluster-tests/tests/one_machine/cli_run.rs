//! `conclave run`: output, exit code, files and signals as if the command ran locally.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cluster_tests::{CommandOutput, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{SingleNode, text};

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(&path, content).expect("a file");
    text(&path).to_string()
}

#[tokio::test]
async fn outputs_and_exit_code_pass_through() {
    let node = SingleNode::up(&[]);
    let cli = &node.cli;
    let said = cli
        .run(&["run", "--", "echo", "a b", "*", "$HOME"])
        .await
        .assert_success();
    assert_eq!(said.text(), "a b * $HOME\n");
    // Byte for byte, each on its own stream.
    let said = cli
        .run(&[
            "run",
            "--shell",
            "printf 'o\\377\\0\\n'; printf 'e\\376' >&2; exit 3",
        ])
        .await;
    assert_eq!((said.code, said.stdout.as_slice()), (3, &b"o\xff\0\n"[..]));
    assert!(said.stderr.starts_with("e\u{fffd}"), "{said:?}");
    for (command, code, words) in [
        ("exit 0", 0, ""),
        ("exit 1", 1, ""),
        ("exit 255", 255, ""),
        ("kill -TERM $$", 143, "signal 15"),
        ("kill -SEGV $$", 139, "signal 11"),
        ("no-such-command", 127, "no-such-command"),
    ] {
        cli.run(&["run", "--shell", command])
            .await
            .assert_failure(code, &[words]);
    }
    for (limit, command, code, words) in [
        (["--wall", "300ms"], "sleep 600", 112, "wall time limit"),
        (["--cpu", "200ms"], "while :; do :; done", 111, "CPU time"),
        (
            ["--memory", "32MiB"],
            "x=$(head -c 200M /dev/zero | tr '\\0' x); sleep 600",
            113,
            "memory",
        ),
        (["--output", "1KiB"], "yes", 114, "output limit"),
        (
            ["--processes", "4"],
            "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait",
            115,
            "processes",
        ),
    ] {
        let args = [&["run"][..], &limit, &["--shell", command]].concat();
        cli.run(&args).await.assert_failure(code, &[words]);
    }
    // Arguments of the command keep their dashes and follow the shell text.
    let said = cli
        .run(&["run", "--shell", "printf '[%s]'", "--", "--json", "a b"])
        .await
        .assert_success();
    assert_eq!(said.text(), "[--json][a b]");
    let said = cli
        .run(&[
            "run",
            "--json",
            "--user",
            "ada",
            "--priority",
            "-3",
            "--",
            "echo",
            "x",
        ])
        .await
        .assert_success();
    let task = said.json();
    assert_eq!(
        (task["user"].as_str(), task["priority"].as_i64()),
        (Some("ada"), Some(-3))
    );
    assert_eq!(task["result"]["execute"]["stdout"], "x\n");
    // Every limit flag sets a limit of the task.
    let mut args = vec!["run", "--json"];
    let limits = [
        ("wall", "20s", 20),
        ("cpu", "10s", 10),
        ("memory", "256MiB", 256 << 20),
        ("output", "1MiB", 1 << 20),
        ("processes", "64", 64),
        ("file-size", "16MiB", 16 << 20),
        ("open-files", "256", 256),
        ("stack", "8MiB", 8 << 20),
        ("space", "64MiB", 64 << 20),
    ];
    let flags = limits.map(|(name, value, _)| (format!("--{name}"), value));
    args.extend(flags.iter().flat_map(|(flag, value)| [flag.as_str(), value]));
    args.extend(["--network", "loopback", "--", "true"]);
    let task = cli.run(&args).await.assert_success().json();
    for (name, _, expected) in limits {
        assert_eq!(
            task["execute"]["limits"][name.replace('-', "_")],
            expected,
            "{name}"
        );
    }
    assert_eq!(task["execute"]["network"], "loopback");
    // The compile step has the same limits, with a prefix.
    let mut args = vec!["add", "--json", "--compile", "true"];
    let flags = limits.map(|(name, value, _)| (format!("--compile-{name}"), value));
    args.extend(flags.iter().flat_map(|(flag, value)| [flag.as_str(), value]));
    args.extend(["--compile-network", "loopback", "--", "true"]);
    let task = cli.run(&args).await.assert_success().json();
    for (name, _, expected) in limits {
        assert_eq!(
            task["compile"]["limits"][name.replace('-', "_")],
            expected,
            "{name}"
        );
    }
    assert_eq!(task["compile"]["network"], "loopback");
    cli.run(&["run", "echo", "hello"])
        .await
        .assert_failure(2, &["put `--` before the command: conclave run -- echo hello"]);
    // With --json the exit code is still the task's.
    let said = cli.run(&["run", "--json", "--", "false"]).await;
    assert_eq!(
        (said.code, said.json()["status"].as_str()),
        (1, Some("run_failed"))
    );
}

#[tokio::test]
async fn files_input_and_environment_are_sent() {
    let node = SingleNode::up(&[]);
    let cli = &node.cli;
    let folder = node.system.folder.path().join("project");
    let source = folder.join("src");
    write(
        &source,
        "main.sh",
        b"cat lib/a data/t.csv data/deep/x; cat; echo $WHO $1",
    );
    write(&source, "lib/a", b"A\n");
    let tool = write(&folder, "tool", b"#!/bin/sh\necho tool");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let table = write(&folder, "t.csv", b"1,2\n");
    write(&folder, "more/deep/x", b"X\n");
    let large = write(&folder, "large", &vec![b'z'; 3 << 20]);
    let input = write(&folder, "input", b"from a file\n");
    let at = |name: &str| text(&folder.join(name)).to_string();

    let said = cli
        .run_in(
            &folder,
            &[
                "run",
                "--source",
                "src",
                "--source",
                "tool",
                "--data",
                &table,
                "--data",
                "more",
                "--input",
                &input,
                "--env",
                "WHO=me",
                "--shell",
                "sh main.sh; ./tool",
            ],
        )
        .await
        .assert_success();
    assert_eq!(said.text(), "A\n1,2\nX\nfrom a file\nme\ntool\n");
    let said = cli
        .run_with_input(&["run", "--input", "-", "--", "cat"], b"\xff\0typed")
        .await
        .assert_success();
    assert_eq!(said.stdout, b"\xff\0typed");
    // Too large to be inline, as a file and as input.
    let megabytes = vec![b'i'; 2 << 20];
    let said = cli
        .run_with_input(
            &[
                "run",
                "--source",
                &large,
                "--input",
                "-",
                "--shell",
                "wc -c < large; wc -c",
            ],
            &megabytes,
        )
        .await
        .assert_success();
    assert_eq!(said.text(), format!("{}\n{}\n", 3 << 20, 2 << 20));

    let compile = [
        "run",
        "--source",
        &at("src"),
        "--compile",
        "echo compiling $HOW $SECRET; cp main.sh built",
        "--compile-env",
        "HOW=well",
        "--env",
        "SECRET=none of its business",
        "--shell",
        "ls",
    ];
    let said = cli.run(&compile).await;
    assert_eq!(
        (said.code, said.text(), said.stderr.as_str()),
        (0, "built\nlib\nmain.sh\n", "compiling well\n")
    );
    let said = cli
        .run(&["run", "--compile", "echo oops >&2; exit 9", "--shell", "echo ran"])
        .await;
    said.assert_failure(110, &["oops", "compile"]);
    assert_eq!(said.text(), "");

    std::os::unix::fs::symlink("/etc/passwd", folder.join("more/link")).unwrap();
    for (args, words) in [
        (
            vec!["run", "--source", "/nowhere/at/all", "--", "true"],
            "/nowhere/at/all",
        ),
        (
            vec!["run", "--data", &at("more"), "--", "true"],
            "more/link is a symbolic link",
        ),
        (vec!["run", "--input", "/nowhere/in", "--", "true"], "/nowhere/in"),
        (
            vec![
                "run",
                "--source",
                &at("src"),
                "--source",
                &at("src/main.sh"),
                "--",
                "true",
            ],
            "both become main.sh",
        ),
        (vec!["run"], "no command"),
        (vec!["run", "--wall", "9d", "--", "true"], "operator allows"),
        (
            vec!["run", "--open-files", "3", "--", "true"],
            "execute.limits.open_files: is too few",
        ),
        (
            vec!["run", "--stack", "1KiB", "--", "true"],
            "execute.limits.stack: is too small",
        ),
    ] {
        cli.run(&args).await.assert_failure(125, &[words]);
    }
    for args in [
        vec!["run", "--wall", "soon", "--", "true"],
        vec!["run", "--env", "X", "--", "true"],
        vec!["run", "--id", "7", "--", "true"],
        vec!["run", "--open-files", "many", "--", "true"],
        vec!["run", "--space", "1XB", "--", "true"],
        vec!["run", "--network", "The LAN", "--", "true"],
    ] {
        cli.run(&args).await.assert_failure(2, &["error"]);
    }
}

#[tokio::test]
async fn ctrl_c_cancels_the_task() {
    let node = SingleNode::up(&["--slots", "1"]);
    let cli = &node.cli;
    let gate = node.gate("gate");
    // One task that runs, and one that is queued.
    let ids = [
        "01890a5d-ac96-774b-bcce-b302099a8001",
        "01890a5d-ac96-774b-bcce-b302099a8002",
    ];
    let (wait, patience) = (gate.wait(), Duration::from_secs(30));
    let mut children = Vec::new();
    for (id, status) in ids.iter().zip(["running", "pending"]) {
        let args = ["run", "--id", id, "--shell", &wait];
        children.push(cli.command(&args).spawn().unwrap());
        wait_until(&format!("a task that is {status}"), patience, async || {
            let task = node.web.get(&format!("/api/v1/tasks/{id}")).await;
            (task.status == 200 && task.json()["status"] == status).then_some(())
        })
        .await;
    }
    for child in &children {
        let pid = Pid::from_raw(child.id().unwrap() as i32);
        kill(pid, Signal::SIGINT).unwrap();
    }
    for (id, child) in ids.iter().zip(children) {
        let said = CommandOutput::of(child).await;
        said.assert_failure(116, &["cancelled"]);
        assert_eq!(said.text(), "");
        let task = node.web.get(&format!("/api/v1/tasks/{id}")).await.json();
        assert_eq!(task["status"], "cancelled");
    }
    let said = cli
        .run(&["run", "--", "echo", "free again"])
        .await
        .assert_success();
    assert_eq!(said.text(), "free again\n");
}

#[tokio::test]
async fn a_restart_of_the_server_is_survived() {
    let node = SingleNode::up(&["--name", "solo"]);
    let gate = node.gate("gate");
    let id = "01890a5d-ac96-774b-bcce-b302099a8003";
    let command = format!("{}; echo done; exit 5", gate.wait());
    let child = node
        .cli
        .command(&["run", "--id", id, "--shell", &command])
        .spawn()
        .unwrap();
    let runs = async |node: &SingleNode, attempt: u64| {
        let what = format!("attempt {attempt} to run");
        wait_until(&what, Duration::from_secs(30), async || {
            let task = node.web.get(&format!("/api/v1/tasks/{id}")).await;
            let json = task.json();
            (json["status"] == "running" && json["attempt"] == attempt).then_some(())
        })
        .await;
    };
    runs(&node, 1).await;
    let node = node.again(&["--name", "solo"]);
    runs(&node, 2).await;
    gate.open();
    let said = CommandOutput::of(child).await;
    assert_eq!((said.code, said.text()), (5, "done\n"), "{said:?}");
}
