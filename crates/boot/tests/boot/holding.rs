//! An operator holds a service, with `conclave hold` or with a lock on its pid file.

use std::fs::File;

use boot::{ServiceState, hold, unhold};
use nix::sys::signal::Signal;

use crate::harness::{BootHarness, is_alive, send_signal, service, wait_until};

fn two_services() -> BootHarness {
    BootHarness::new(&[service("a", None, &["ready"]), service("b", None, &["ready"])])
}

/// Kills this service and waits for its restart. Boot could have started another service in the meantime.
fn restart(harness: &BootHarness, name: &str) {
    let before = harness.service(name).unwrap();
    send_signal(before.pid.unwrap(), Signal::SIGKILL);
    harness.wait_for(name, "running again", |service| {
        service.state == ServiceState::Running && service.restarts == before.restarts + 1
    });
}

#[test]
fn a_held_service_keeps_running_and_is_not_restarted() {
    let mut harness = two_services();
    harness.boot();
    let a = harness.wait_running("a");
    harness.wait_running("b");
    hold(&harness.run(), "a").unwrap();
    let held = harness.wait_state("a", ServiceState::Held);
    assert_eq!(held.pid, Some(a));
    assert!(is_alive(a));

    send_signal(a, Signal::SIGKILL);
    let ended = harness.wait_for("a", "killed", |a| a.last_exit.as_deref() == Some("signal 9"));
    assert_eq!((ended.state, ended.pid), (ServiceState::Held, None));
    restart(&harness, "b");
    assert_eq!(harness.count("a start"), 1);

    unhold(&harness.run(), "a").unwrap();
    harness.wait_running("a");
    assert_eq!(harness.count("a start"), 2);
    assert_eq!(harness.service("a").unwrap().restarts, 1);
}

#[test]
fn ending_a_hold_does_not_affect_a_running_service() {
    let mut harness = two_services();
    harness.boot();
    let before = harness.wait_state("a", ServiceState::Running);
    hold(&harness.run(), "a").unwrap();
    harness.wait_state("a", ServiceState::Held);
    unhold(&harness.run(), "a").unwrap();
    let after = harness.wait_state("a", ServiceState::Running);
    assert_eq!(
        (after.pid, after.since, after.restarts),
        (before.pid, before.since, 0)
    );
    // A service that is not held is no error.
    unhold(&harness.run(), "a").unwrap();
}

#[test]
fn a_lock_on_the_pid_file_is_a_hold() {
    let mut harness = two_services();
    harness.boot();
    let a = harness.wait_running("a");
    harness.wait_running("b");
    let file = File::options()
        .write(true)
        .open(harness.run().join("a.pid"))
        .unwrap();
    file.lock().unwrap();
    assert_eq!(harness.wait_state("a", ServiceState::Held).pid, Some(a));
    send_signal(a, Signal::SIGKILL);
    harness.wait_for("a", "ended", |a| {
        a.last_exit.is_some() && a.state == ServiceState::Held
    });
    restart(&harness, "b");
    assert_eq!(harness.count("a start"), 1);
    file.unlock().unwrap();
    harness.wait_running("a");
}

#[test]
fn a_lock_from_before_the_start_of_boot_is_a_hold() {
    let mut harness = two_services();
    std::fs::create_dir(harness.run()).unwrap();
    let file = File::create(harness.run().join("a.pid")).unwrap();
    file.lock().unwrap();
    harness.boot();
    harness.wait_running("b");
    harness.wait_state("a", ServiceState::Held);
    assert_eq!(harness.count("a start"), 0);
    // The lock ends with the process that holds it.
    drop(file);
    harness.wait_running("a");
}

#[test]
fn a_hold_survives_a_restart_of_boot() {
    let mut harness = two_services();
    harness.boot();
    harness.wait_running("a");
    hold(&harness.run(), "a").unwrap();
    harness.wait_state("a", ServiceState::Held);
    harness.kill_boot();
    wait_until("both have exited", || {
        harness.count("a end") == 1 && harness.count("b end") == 1
    });
    harness.boot();
    harness.wait_running("b");
    harness.wait_state("a", ServiceState::Held);
    assert_eq!(harness.count("a start"), 1);
    unhold(&harness.run(), "a").unwrap();
    harness.wait_running("a");
}

#[test]
fn an_unknown_service_or_folder_is_an_error() {
    let mut harness = two_services();
    let error = hold(&harness.run(), "a").unwrap_err().to_string();
    assert!(error.contains("no node was started in"), "{error}");
    harness.boot();
    harness.wait_running("a");
    for verb in [hold, unhold] {
        let error = verb(&harness.run(), "mongo").unwrap_err().to_string();
        assert_eq!(error, "this node has no service \"mongo\"; it has a, b");
    }
    assert!(!harness.run().join("mongo.hold").exists());
}
