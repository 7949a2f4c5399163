//! A program on a leash ends with its parent.

use std::process::{Command, Output};

use crate::stage::{FIXTURE, is_alive, pid_in, wait_until};

fn leash(args: &[&str]) -> Output {
    Command::new(FIXTURE).arg("leash").args(args).output().unwrap()
}

#[test]
fn a_program_is_killed_with_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let ready = folder.path().join("ready");
    let script = format!(
        "trap '' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let mut parent = Command::new(FIXTURE)
        .arg("parent")
        .arg(&file)
        .args(["sh", "-c", &script])
        .spawn()
        .unwrap();
    let program = pid_in(&file);
    wait_until("the program runs", || ready.exists());
    assert!(is_alive(program));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("the program is gone", || !is_alive(program));
}

#[test]
fn a_program_runs_as_if_there_were_no_leash() {
    let own = std::process::id().to_string();
    let output = leash(&[&own, "sh", "-c", "echo \"$0 $1\"; exit 7", "a b", "c"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"a b c\n");
}

#[test]
fn what_cannot_be_started_is_told() {
    fn check(args: &[&str], code: i32, expected: &str) {
        let output = leash(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    let own = std::process::id().to_string();
    check(&[], 2, "usage");
    check(&[&own], 2, "usage");
    check(&["me", "true"], 2, "process number");
    check(&["1073741824", "true"], 1, "is gone already");
    check(
        &[&own, "no-such-program"],
        127,
        "there is no program no-such-program; install it",
    );
    check(
        &[&own, "/nonexistent/etcd"],
        127,
        "there is no program /nonexistent/etcd",
    );
    check(&[&own, "/etc/passwd"], 127, "/etc/passwd may not be executed");
}
