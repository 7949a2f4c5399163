//! Services that exit are restarted: at once the first time, with a growing delay afterwards.

use boot::ServiceState;
use nix::sys::signal::Signal;

use crate::harness::{BootHarness, is_alive, send_signal, service, wait_until};

#[test]
fn only_the_killed_service_is_restarted() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["ready"]),
        service("b", Some("a"), &["ready"]),
    ]);
    harness.boot();
    let (a, b) = (harness.wait_running("a"), harness.wait_running("b"));
    send_signal(a, Signal::SIGKILL);
    let again = harness.wait_for("a", "running again", |a| {
        a.state == ServiceState::Running && a.restarts == 1
    });
    assert_ne!(again.pid, Some(a));
    assert_eq!(again.last_exit.as_deref(), Some("signal 9"));
    let b_now = harness.service("b").unwrap();
    assert_eq!((b_now.pid, b_now.restarts), (Some(b), 0));
    assert!(is_alive(b));
}

#[test]
fn a_service_that_exits_by_itself_is_restarted() {
    let mut harness = BootHarness::new(&[service("a", None, &["ready"])]);
    harness.boot();
    send_signal(harness.wait_running("a"), Signal::SIGTERM);
    let again = harness.wait_for("a", "running again", |a| {
        a.state == ServiceState::Running && a.restarts == 1
    });
    assert_eq!(again.last_exit.as_deref(), Some("exit code 0"));
}

#[test]
fn a_restart_waits_for_the_service_that_is_needed() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["await:go", "ready"]),
        service("b", Some("a"), &["ready"]),
    ]);
    harness.touch("go");
    harness.boot();
    let (a, b) = (harness.wait_running("a"), harness.wait_running("b"));
    std::fs::remove_file(harness.path("go")).unwrap();
    send_signal(a, Signal::SIGKILL);
    harness.wait_for("a", "starting again", |a| {
        a.state == ServiceState::Starting && a.pid.is_some()
    });
    assert!(is_alive(b));
    send_signal(b, Signal::SIGKILL);
    harness.wait_state("b", ServiceState::Waiting);
    assert_eq!(harness.count("b start"), 1);
    harness.touch("go");
    harness.wait_running("b");
}

#[test]
fn a_service_that_keeps_failing_backs_off_and_shows_the_reason() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["fail:the port 2379 is taken"]),
        service("b", Some("a"), &["ready"]),
    ]);
    harness.boot();
    let a = harness.wait_for("a", "backing off", |a| {
        a.state == ServiceState::BackingOff && a.restarts >= 2
    });
    assert_eq!(
        a.last_exit.as_deref(),
        Some("exit code 1: the port 2379 is taken")
    );
    assert_eq!(a.pid, None);
    assert_eq!(harness.count("b start"), 0);
    // There is no limit on restarts.
    harness.wait_for("a", "started again", |a| a.restarts >= 5);
}

#[test]
fn a_missing_program_is_shown_as_the_last_exit() {
    let mut missing = service("a", None, &[]);
    missing["program"] = "/nonexistent/program".into();
    let mut harness = BootHarness::new(&[missing, service("b", None, &["ready"])]);
    harness.boot();
    let a = harness.wait_state("a", ServiceState::BackingOff);
    let last = a.last_exit.unwrap();
    assert!(
        last.starts_with("could not be started: /nonexistent/program: No such file"),
        "{last}"
    );
    assert_eq!(a.restarts, 0);
    harness.wait_running("b");
}

#[test]
fn the_wrapped_server_exits_before_its_service_is_restarted() {
    let mut harness = BootHarness::new(&[service("a", None, &["server", "ready"])]);
    harness.boot();
    let first = harness.wait_state("a", ServiceState::Running);
    let server = first.server_pid.unwrap();
    assert!(is_alive(server));
    send_signal(first.pid.unwrap(), Signal::SIGKILL);
    let second = harness.wait_for("a", "running again", |a| {
        a.state == ServiceState::Running && a.restarts == 1
    });
    assert!(!is_alive(server));
    assert!(
        second
            .server_pid
            .is_some_and(|next| next != server && is_alive(next))
    );
}

#[test]
fn the_status_does_not_show_a_dead_server() {
    let mut harness = BootHarness::new(&[service("a", None, &["server", "ready"])]);
    harness.boot();
    let server = harness.wait_state("a", ServiceState::Running).server_pid.unwrap();
    send_signal(server, Signal::SIGKILL);
    wait_until("the server has exited", || !is_alive(server));
    let a = harness.service("a").unwrap();
    assert_eq!((a.state, a.server_pid), (ServiceState::Running, None));
}
