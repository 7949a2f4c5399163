//! An operator has a service for himself, by `hold` or by a lock on its pid file.

use std::fs::File;

use boot::{State, hold, unhold};
use nix::sys::signal::Signal;

use crate::stage::{Stage, is_alive, send, service, wait_until};

fn pair() -> Stage {
    Stage::new(&[service("a", None, &["ready"]), service("b", None, &["ready"])])
}

/// Returns when boot has had every occasion to start another service: it has just started this one again.
fn restart(stage: &Stage, name: &str) {
    let before = stage.service(name).unwrap();
    send(before.pid.unwrap(), Signal::SIGKILL);
    stage.wait_for(name, "running again", |service| {
        service.state == State::Running && service.restarts == before.restarts + 1
    });
}

#[test]
fn a_held_service_goes_on_and_is_not_started_again() {
    let mut stage = pair();
    stage.boot();
    let a = stage.running("a");
    stage.running("b");
    hold(&stage.run(), "a").unwrap();
    let held = stage.wait_state("a", State::Held);
    assert_eq!(held.pid, Some(a));
    assert!(is_alive(a));

    send(a, Signal::SIGKILL);
    let ended = stage.wait_for("a", "killed", |a| a.last_exit.as_deref() == Some("signal 9"));
    assert_eq!((ended.state, ended.pid), (State::Held, None));
    restart(&stage, "b");
    assert_eq!(stage.count("a start"), 1);

    unhold(&stage.run(), "a").unwrap();
    stage.running("a");
    assert_eq!(stage.count("a start"), 2);
    assert_eq!(stage.service("a").unwrap().restarts, 1);
}

#[test]
fn a_hold_that_is_given_up_disturbs_nothing() {
    let mut stage = pair();
    stage.boot();
    let before = stage.wait_state("a", State::Running);
    hold(&stage.run(), "a").unwrap();
    stage.wait_state("a", State::Held);
    unhold(&stage.run(), "a").unwrap();
    let after = stage.wait_state("a", State::Running);
    assert_eq!(
        (after.pid, after.since, after.restarts),
        (before.pid, before.since, 0)
    );
    // Nothing to give up is no mistake.
    unhold(&stage.run(), "a").unwrap();
}

#[test]
fn a_lock_on_the_pid_file_holds_too() {
    let mut stage = pair();
    stage.boot();
    let a = stage.running("a");
    stage.running("b");
    let file = File::options()
        .write(true)
        .open(stage.run().join("a.pid"))
        .unwrap();
    file.lock().unwrap();
    assert_eq!(stage.wait_state("a", State::Held).pid, Some(a));
    send(a, Signal::SIGKILL);
    stage.wait_for("a", "ended", |a| a.last_exit.is_some() && a.state == State::Held);
    restart(&stage, "b");
    assert_eq!(stage.count("a start"), 1);
    file.unlock().unwrap();
    stage.running("a");
}

#[test]
fn a_lock_from_before_boot_holds_from_the_start() {
    let mut stage = pair();
    std::fs::create_dir(stage.run()).unwrap();
    let file = File::create(stage.run().join("a.pid")).unwrap();
    file.lock().unwrap();
    stage.boot();
    stage.running("b");
    stage.wait_state("a", State::Held);
    assert_eq!(stage.count("a start"), 0);
    // Whoever lets the service go by ending need not do more.
    drop(file);
    stage.running("a");
}

#[test]
fn a_hold_outlives_boot() {
    let mut stage = pair();
    stage.boot();
    stage.running("a");
    hold(&stage.run(), "a").unwrap();
    stage.wait_state("a", State::Held);
    stage.kill_boot();
    wait_until("both ended", || {
        stage.count("a end") == 1 && stage.count("b end") == 1
    });
    stage.boot();
    stage.running("b");
    stage.wait_state("a", State::Held);
    assert_eq!(stage.count("a start"), 1);
    unhold(&stage.run(), "a").unwrap();
    stage.running("a");
}

#[test]
fn a_wrong_name_or_folder_is_told() {
    let mut stage = pair();
    let said = hold(&stage.run(), "a").unwrap_err().to_string();
    assert!(said.contains("no node was started in"), "{said}");
    stage.boot();
    stage.running("a");
    for verb in [hold, unhold] {
        let said = verb(&stage.run(), "mongo").unwrap_err().to_string();
        assert_eq!(said, "this node has no service \"mongo\"; it has a, b");
    }
    assert!(!stage.run().join("mongo.hold").exists());
}
