//! What dies is started again: at once, unless it keeps dying.

use boot::State;
use nix::sys::signal::Signal;

use crate::stage::{Stage, is_alive, send, service, wait_until};

#[test]
fn a_killed_service_is_started_again_and_nobody_else() {
    let mut stage = Stage::new(&[
        service("a", None, &["ready"]),
        service("b", Some("a"), &["ready"]),
    ]);
    stage.boot();
    let (a, b) = (stage.running("a"), stage.running("b"));
    send(a, Signal::SIGKILL);
    let again = stage.wait_for("a", "running again", |a| {
        a.state == State::Running && a.restarts == 1
    });
    assert_ne!(again.pid, Some(a));
    assert_eq!(again.last_exit.as_deref(), Some("signal 9"));
    let b_now = stage.service("b").unwrap();
    assert_eq!((b_now.pid, b_now.restarts), (Some(b), 0));
    assert!(is_alive(b));
}

#[test]
fn a_service_that_ends_by_itself_is_started_again() {
    let mut stage = Stage::new(&[service("a", None, &["ready"])]);
    stage.boot();
    send(stage.running("a"), Signal::SIGTERM);
    let again = stage.wait_for("a", "running again", |a| {
        a.state == State::Running && a.restarts == 1
    });
    assert_eq!(again.last_exit.as_deref(), Some("exit code 0"));
}

#[test]
fn a_service_that_dies_waits_for_the_one_it_needs() {
    let mut stage = Stage::new(&[
        service("a", None, &["await:go", "ready"]),
        service("b", Some("a"), &["ready"]),
    ]);
    stage.touch("go");
    stage.boot();
    let (a, b) = (stage.running("a"), stage.running("b"));
    std::fs::remove_file(stage.path("go")).unwrap();
    send(a, Signal::SIGKILL);
    stage.wait_for("a", "starting again", |a| {
        a.state == State::Starting && a.pid.is_some()
    });
    assert!(is_alive(b));
    send(b, Signal::SIGKILL);
    stage.wait_state("b", State::Waiting);
    assert_eq!(stage.count("b start"), 1);
    stage.touch("go");
    stage.running("b");
}

#[test]
fn a_service_that_keeps_failing_rests_and_says_why() {
    let mut stage = Stage::new(&[
        service("a", None, &["fail:the port 2379 is taken"]),
        service("b", Some("a"), &["ready"]),
    ]);
    stage.boot();
    let a = stage.wait_for("a", "backing off", |a| {
        a.state == State::BackingOff && a.restarts >= 2
    });
    assert_eq!(
        a.last_exit.as_deref(),
        Some("exit code 1: the port 2379 is taken")
    );
    assert_eq!(a.pid, None);
    assert_eq!(stage.count("b start"), 0);
    // It is tried for ever.
    stage.wait_for("a", "started again", |a| a.restarts >= 5);
}

#[test]
fn a_program_that_is_missing_is_told() {
    let mut missing = service("a", None, &[]);
    missing["program"] = "/nonexistent/program".into();
    let mut stage = Stage::new(&[missing, service("b", None, &["ready"])]);
    stage.boot();
    let a = stage.wait_state("a", State::BackingOff);
    let last = a.last_exit.unwrap();
    assert!(
        last.starts_with("could not be started: /nonexistent/program: No such file"),
        "{last}"
    );
    assert_eq!(a.restarts, 0);
    stage.running("b");
}

#[test]
fn a_server_ends_with_its_service_before_the_next_one() {
    let mut stage = Stage::new(&[service("a", None, &["server", "ready"])]);
    stage.boot();
    let first = stage.wait_state("a", State::Running);
    let server = first.server_pid.unwrap();
    assert!(is_alive(server));
    send(first.pid.unwrap(), Signal::SIGKILL);
    let second = stage.wait_for("a", "running again", |a| {
        a.state == State::Running && a.restarts == 1
    });
    assert!(!is_alive(server));
    assert!(
        second
            .server_pid
            .is_some_and(|next| next != server && is_alive(next))
    );
}

#[test]
fn a_dead_server_is_not_shown() {
    let mut stage = Stage::new(&[service("a", None, &["server", "ready"])]);
    stage.boot();
    let server = stage.wait_state("a", State::Running).server_pid.unwrap();
    send(server, Signal::SIGKILL);
    wait_until("the server is gone", || !is_alive(server));
    let a = stage.service("a").unwrap();
    assert_eq!((a.state, a.server_pid), (State::Running, None));
}
