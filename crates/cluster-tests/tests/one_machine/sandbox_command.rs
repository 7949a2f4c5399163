//! `conclave sandbox`: one command in a cell, without a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster_tests::{CommandOutput, ConclaveCli, control_groups_named, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;

const SOON: Duration = Duration::from_secs(30);

fn cli() -> ConclaveCli {
    ConclaveCli::new("http://127.0.0.1:1")
}

async fn sandbox(words: &[&str]) -> CommandOutput {
    cli().run(&[&["sandbox"], words].concat()).await
}

#[tokio::test]
async fn exit_codes_are_those_of_run() {
    for (words, code, said) in [
        (&["--", "sh", "-c", "exit 7"][..], 7, "\"reason\":\"exited\""),
        (&["--", "sh", "-c", "kill -9 $$"], 137, "\"reason\":\"signalled\""),
        (
            &["--wall", "50ms", "--", "sleep", "60"],
            112,
            "\"reason\":\"wall_limit\"",
        ),
        (
            &["--memory", "1", "--", "true"],
            113,
            "\"reason\":\"memory_limit\"",
        ),
        (
            &[
                "--file-size",
                "1MiB",
                "--",
                "sh",
                "-c",
                "head -c 2M /dev/zero > x",
            ],
            114,
            "\"reason\":\"output_limit\"",
        ),
        (
            &["--space", "1MiB", "--", "sh", "-c", "head -c 2M /dev/zero > x"],
            118,
            "\"reason\":\"disk_limit\"",
        ),
        (&["--", "/etc"], 126, "Permission denied"),
        (&["--", "no-such-program"], 127, "No such file"),
        (&["--network", "moon", "--", "true"], 125, "sandbox.networks"),
    ] {
        sandbox(words).await.assert_failure(code, &[said]);
    }
}

#[tokio::test]
async fn input_and_output_pass_through_unchanged() {
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let said = cli().run_with_input(&["sandbox", "--", "cat"], &bytes).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.stdout, bytes);
    let disconnect = cli()
        .run_with_input(
            &["sandbox", "--set", "executor.keep_output=1KiB", "--", "cat"],
            &bytes,
        )
        .await;
    disconnect.assert_failure(119, &["stdout was cut off after 1024 bytes", "--output"]);
    assert_eq!(disconnect.stdout, bytes[..1024]);
    let too_much = cli()
        .run_with_input(&["sandbox", "--space", "64KiB", "--", "cat"], &bytes)
        .await;
    too_much.assert_failure(125, &["standard input does not fit into --space"]);
}

#[tokio::test]
async fn files_are_placed_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a/x", "one"), ("b/x", "two"), ("b/y", "three")] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let two = ["sandbox", "--file", "a/x", "--file", "b/y", "--", "cat", "x", "y"];
    let said = cli().run_in(folder.path(), &two).await;
    assert_eq!(said.text(), "onethree", "{said:?}");
    let twice = ["sandbox", "--file", "a/x", "--file", "b/x", "--", "true"];
    cli()
        .run_in(folder.path(), &twice)
        .await
        .assert_failure(125, &["two files named x"]);
}

#[tokio::test]
async fn invalid_arguments_are_named() {
    for (words, said) in [
        (&["--space", "0"][..], &["space", "more than zero"][..]),
        (&["--wall", "0s"], &["wall", "more than zero"]),
        (
            &["--set", "sandbox.space=0"],
            &["sandbox.space", "more than zero"],
        ),
        (&["--set", "sandbox.files=2"], &["sandbox.files"]),
        (&["--set", "sandbox.root=/nowhere"], &["/nowhere"]),
        (
            &["--set", "sandbox.binds=/nowhere"],
            &["sandbox.binds", "/nowhere"],
        ),
        (
            &["--set", "sandbox.binds=/usr:/proc/x"],
            &["/proc/x", "has its own folder there"],
        ),
        (
            &["--set", "sandbox.binds=/usr:/usr/nothing"],
            &["no folder \"/usr/nothing\""],
        ),
        (
            &["--set", "sandbox.networks=n=/nowhere"],
            &["network n", "/nowhere", "No such file"],
        ),
        (
            &["--set", "sandbox.networks=n=/etc/passwd"],
            &["/etc/passwd", "not a network namespace"],
        ),
        (
            &["--set", "sandbox.networks=n=/proc/self/ns/mnt"],
            &["not a network namespace"],
        ),
        (&["--set", "sandbox.first_user=65534"], &["sandbox.first_user"]),
        (&["--allow-weaker", "roof"], &["memory, processes or cpu"]),
    ] {
        let mut command = cli().command(&[&["sandbox"], words, &["--", "true"]].concat());
        let child = command.spawn().unwrap();
        let pid = child.id().unwrap().to_string();
        CommandOutput::of(child).await.assert_failure(125, said);
        assert_eq!(groups(&pid), Vec::<PathBuf>::new(), "{words:?}");
    }
}

#[tokio::test]
async fn binds_may_be_nested() {
    let folder = tempfile::tempdir().unwrap();
    let outer = folder.path().join("outer");
    fs::create_dir_all(outer.join("place")).unwrap();
    let binds = format!(
        "sandbox.binds={0}:/usr/local,{0}/place:/usr/local/place,{0}:/over/there,/etc/passwd:/usr/bin/yes",
        outer.display()
    );
    let script = "ls /usr/local /over/there; head -c 4 /usr/bin/yes";
    let said = sandbox(&["--set", &binds, "--", "sh", "-c", script]).await;
    assert_eq!(
        (said.code, said.text()),
        (0, "/over/there:\nplace\n\n/usr/local:\nplace\nroot"),
        "{said:?}"
    );
    std::os::unix::fs::symlink("/etc", outer.join("link")).unwrap();
    let through_link = format!("sandbox.binds={0}:/over,/usr:/over/link/ssl", outer.display());
    sandbox(&["--set", &through_link, "--", "true"])
        .await
        .assert_failure(125, &["/link\" is a symbolic link; use the path of its target"]);
}

/// As under `nohup`, or in the background of a shell.
#[tokio::test]
async fn signals_ignored_by_the_parent_stay_ignored() {
    let folder = tempfile::tempdir().unwrap();
    // Only the outer process ignores them, not the command in the cell.
    let gate = folder.path().join("gate");
    fs::create_dir(&gate).unwrap();
    let wait = "until [ -e /gate/open ]; do sleep 0.1; done; echo done";
    let script = format!(
        "trap '' HUP INT; exec {} sandbox --set sandbox.binds={}:/gate -- sh -c '{wait}'",
        cluster_tests::conclave().display(),
        gate.display()
    );
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(script).stdin(std::process::Stdio::null());
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    await_groups(&child).await;
    signal_to(&child, Signal::SIGHUP);
    signal_to(&child, Signal::SIGINT);
    fs::write(gate.join("open"), "").unwrap();
    assert_eq!(CommandOutput::of(child).await.text(), "done\n");
}

/// A limit beyond what any machine has must not fail.
#[tokio::test]
async fn a_huge_limit_is_accepted() {
    let most = i64::MAX.to_string();
    for words in [
        ["--processes", "4294967295"],
        ["--memory", &most],
        ["--file-size", &most],
        ["--space", "1000000GiB"],
    ] {
        let said = sandbox(&[&words[..], &["--", "echo", "fine"]].concat()).await;
        assert_eq!((said.code, said.text()), (0, "fine\n"), "{words:?}: {said:?}");
    }
}

/// A signal ends the command, and nothing is left behind.
#[tokio::test]
async fn a_signal_ends_the_command_in_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let running = running(&["--", "sleep", "1000"]).await;
        let pid = signal_to(&running, signal);
        assert_eq!(CommandOutput::of(running).await.code, 128 + signal as i32);
        assert_eq!(groups(&pid), Vec::<PathBuf>::new());
    }
}

/// The same while it reads its input.
#[tokio::test]
async fn a_signal_ends_the_wait_for_input() {
    let mut command = cli().command(&["sandbox", "--", "cat"]);
    let mut waiting = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let _stdin = waiting.stdin.take();
    await_groups(&waiting).await;
    let pid = signal_to(&waiting, Signal::SIGTERM);
    assert_eq!(CommandOutput::of(waiting).await.code, 143);
    assert_eq!(groups(&pid), Vec::<PathBuf>::new());
}

/// The next `conclave sandbox` removes control groups of killed ones, and keeps those of running ones.
#[tokio::test]
async fn control_groups_of_a_killed_command_are_removed_by_the_next() {
    let with_executors_and_gateway = running(&["--", "sleep", "1000"]).await;
    let killed = running(&["--", "sleep", "1000"]).await;
    let left = signal_to(&killed, Signal::SIGKILL);
    assert_eq!(CommandOutput::of(killed).await.code, 137);
    // A concurrent test may remove them first.
    assert_eq!(sandbox(&["--", "true"]).await.code, 0);
    wait_until("what was left to be gone", SOON, async || {
        groups(&left).is_empty().then_some(())
    })
    .await;
    let others = signal_to(&with_executors_and_gateway, Signal::SIGTERM);
    assert_eq!(CommandOutput::of(with_executors_and_gateway).await.code, 143);
    assert_eq!(groups(&others), Vec::<PathBuf>::new());
}

/// Starts a command, and returns when it runs.
async fn running(words: &[&str]) -> Child {
    let child = cli()
        .command(&[&["sandbox"], words].concat())
        .spawn()
        .expect("conclave starts");
    let pid = child.id().expect("it was not waited for").to_string();
    wait_until("the command to run", SOON, async || {
        let of_command = |group: &PathBuf| {
            let inside = fs::read_to_string(group.join("slot/cgroup.procs")).unwrap_or_default();
            inside.lines().any(|process| name_of(process) == "sleep")
        };
        groups(&pid).iter().any(of_command).then_some(())
    })
    .await;
    child
}

async fn await_groups(child: &Child) {
    let pid = child.id().expect("it was not waited for").to_string();
    wait_until("its control groups", SOON, async || {
        (!groups(&pid).is_empty()).then_some(())
    })
    .await;
}

fn name_of(process: &str) -> String {
    let name = fs::read_to_string(Path::new("/proc").join(process).join("comm"));
    name.unwrap_or_default().trim().to_string()
}

/// Sends a signal, and returns the pid.
fn signal_to(child: &Child, signal: Signal) -> String {
    let pid = child.id().expect("it was not waited for");
    kill(Pid::from_raw(pid as i32), signal).expect("it is there");
    pid.to_string()
}

/// The control groups of one `conclave sandbox` process.
fn groups(pid: &str) -> Vec<PathBuf> {
    control_groups_named(|name| name.starts_with(&format!("conclave-once-{pid}-")))
}
