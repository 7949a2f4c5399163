//! `conclave sandbox`: one command in a cell, without any server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster_tests::{Cli, Said, await_that, groups_named};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;

const SOON: Duration = Duration::from_secs(30);

fn cli() -> Cli {
    Cli::new("http://127.0.0.1:1")
}

async fn sandbox(words: &[&str]) -> Said {
    cli().run(&[&["sandbox"], words].concat()).await
}

#[tokio::test]
async fn it_exits_as_run_does() {
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
        sandbox(words).await.fails(code, &[said]);
    }
}

#[tokio::test]
async fn bytes_go_through_as_they_are() {
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let said = cli().feed(&["sandbox", "--", "cat"], &bytes).await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.stdout, bytes);
    let cut = cli()
        .feed(
            &["sandbox", "--set", "executor.keep_output=1KiB", "--", "cat"],
            &bytes,
        )
        .await;
    cut.fails(119, &["stdout was cut off: 1024 bytes were kept", "--output"]);
    assert_eq!(cut.stdout, bytes[..1024]);
    let too_much = cli()
        .feed(&["sandbox", "--space", "64KiB", "--", "cat"], &bytes)
        .await;
    too_much.fails(125, &["standard input does not fit into --space"]);
}

#[tokio::test]
async fn files_go_in_by_their_names() {
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
        .fails(125, &["two files of the name x"]);
}

#[tokio::test]
async fn what_cannot_be_is_named() {
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
            &["/proc/x", "each cell's own"],
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
            &["/etc/passwd", "no network namespace"],
        ),
        (
            &["--set", "sandbox.networks=n=/proc/self/ns/mnt"],
            &["no network namespace"],
        ),
        (&["--set", "sandbox.first_user=65534"], &["sandbox.first_user"]),
        (&["--allow-weaker", "roof"], &["memory, processes or cpu"]),
    ] {
        let mut command = cli().command(&[&["sandbox"], words, &["--", "true"]].concat());
        let child = command.spawn().unwrap();
        let pid = child.id().unwrap().to_string();
        Said::of(child).await.fails(125, said);
        assert_eq!(groups(&pid), Vec::<PathBuf>::new(), "{words:?}");
    }
}

#[tokio::test]
async fn one_bind_may_lie_upon_another() {
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
        .fails(125, &["/link\" is a link; name where it leads"]);
}

/// As `nohup` starts it, and a shell in its background.
#[tokio::test]
async fn signals_that_are_to_be_ignored_are() {
    let folder = tempfile::tempdir().unwrap();
    // Ours alone is the outer one, which the cell does not see.
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
    assert_eq!(Said::of(child).await.text(), "done\n");
}

/// More than any machine can have is no limit, and nobody's failure.
#[tokio::test]
async fn a_limit_beyond_all_machines_is_none() {
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

/// Whoever asks it to end is obeyed, and nothing is left.
#[tokio::test]
async fn a_signal_ends_it_in_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let running = running(&["--", "sleep", "1000"]).await;
        let pid = signal_to(&running, signal);
        assert_eq!(Said::of(running).await.code, 128 + signal as i32);
        assert_eq!(groups(&pid), Vec::<PathBuf>::new());
    }
}

/// So it is while it waits for its input.
#[tokio::test]
async fn a_signal_ends_the_wait_for_input() {
    let mut command = cli().command(&["sandbox", "--", "cat"]);
    let mut waiting = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let _stdin = waiting.stdin.take();
    await_groups(&waiting).await;
    let pid = signal_to(&waiting, Signal::SIGTERM);
    assert_eq!(Said::of(waiting).await.code, 143);
    assert_eq!(groups(&pid), Vec::<PathBuf>::new());
}

/// What it could not remove itself the next one does, and leaves alone those that are at work.
#[tokio::test]
async fn the_next_one_removes_what_a_killed_one_left() {
    let at_work = running(&["--", "sleep", "1000"]).await;
    let killed = running(&["--", "sleep", "1000"]).await;
    let left = signal_to(&killed, Signal::SIGKILL);
    assert_eq!(Said::of(killed).await.code, 137);
    // Another test's may be quicker, or about to.
    assert_eq!(sandbox(&["--", "true"]).await.code, 0);
    await_that("what was left to be gone", SOON, async || {
        groups(&left).is_empty().then_some(())
    })
    .await;
    let others = signal_to(&at_work, Signal::SIGTERM);
    assert_eq!(Said::of(at_work).await.code, 143);
    assert_eq!(groups(&others), Vec::<PathBuf>::new());
}

/// Returns when its command is.
async fn running(words: &[&str]) -> Child {
    let child = cli()
        .command(&[&["sandbox"], words].concat())
        .spawn()
        .expect("conclave starts");
    let pid = child.id().expect("it was not waited for").to_string();
    await_that("the command to run", SOON, async || {
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
    await_that("its control groups", SOON, async || {
        (!groups(&pid).is_empty()).then_some(())
    })
    .await;
}

fn name_of(process: &str) -> String {
    let name = fs::read_to_string(Path::new("/proc").join(process).join("comm"));
    name.unwrap_or_default().trim().to_string()
}

/// Gives the number of the process.
fn signal_to(child: &Child, signal: Signal) -> String {
    let pid = child.id().expect("it was not waited for");
    kill(Pid::from_raw(pid as i32), signal).expect("it is there");
    pid.to_string()
}

/// Those of one process.
fn groups(pid: &str) -> Vec<PathBuf> {
    groups_named(|name| name.starts_with(&format!("conclave-once-{pid}-")))
}
