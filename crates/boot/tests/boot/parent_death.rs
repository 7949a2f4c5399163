//! A program that is started through `leash` is killed when its parent exits.

use std::process::{Command, Output};

use crate::harness::{FIXTURE, is_alive, pid_in, wait_until};

fn leash(args: &[&str]) -> Output {
    Command::new(FIXTURE).arg("leash").args(args).output().unwrap()
}

#[test]
fn a_program_is_killed_when_its_parent_is_killed() {
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
    wait_until("the program has exited", || !is_alive(program));
}

#[test]
fn arguments_output_and_exit_code_are_those_of_the_program() {
    let own = std::process::id().to_string();
    let output = leash(&[&own, "sh", "-c", "echo \"$0 $1\"; exit 7", "a b", "c"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"a b c\n");
}

#[test]
fn errors_have_an_exit_code_and_a_message() {
    fn check(args: &[&str], code: i32, expected: &str) {
        let output = leash(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    let own = std::process::id().to_string();
    check(&[], 2, "usage");
    check(&[&own], 2, "usage");
    check(&["me", "true"], 2, "process id");
    check(&["1073741824", "true"], 1, "has already exited");
    check(
        &[&own, "no-such-program"],
        127,
        "program not found: no-such-program; install it",
    );
    check(
        &[&own, "/nonexistent/etcd"],
        127,
        "program not found: /nonexistent/etcd",
    );
    check(
        &[&own, "/etc/passwd"],
        127,
        "this user may not execute /etc/passwd",
    );
}
