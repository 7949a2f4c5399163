//! Stopping: in reverse, with grace, and at once by a second signal.

use std::time::Duration;

use boot::{State, hold};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::stage::{Stage, freeze, is_alive, send, service};

#[test]
fn services_are_stopped_in_reverse() {
    let mut stage = Stage::new(&[
        service("a", None, &["ready"]),
        service("b", Some("a"), &["ready"]),
        service("c", Some("b"), &["ready"]),
    ]);
    let boot = stage.boot();
    let pids = ["a", "b", "c"].map(|name| stage.running(name));
    send(boot, Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    let events = stage.events();
    let ends: Vec<&str> = events
        .iter()
        .map(String::as_str)
        .filter(|event| event.ends_with("term") || event.ends_with("end"))
        .collect();
    assert_eq!(ends, ["c term", "c end", "b term", "b end", "a term", "a end"]);

    let status = stage.status().unwrap();
    assert_eq!(status.pid, None);
    for service in status.services {
        assert_eq!((service.state, service.pid), (State::Stopped, None));
        assert_eq!(
            service.last_exit.as_deref(),
            Some("exit code 0"),
            "{}",
            service.name
        );
        assert_eq!(service.restarts, 0);
    }
}

#[test]
fn the_deaf_are_killed() {
    // As much as a busy machine may take to let the others end by themselves.
    let mut stage = Stage::with(
        json!({ "stop_grace": 3000 }),
        &[
            service("a", None, &["ready"]),
            service("b", Some("a"), &["deaf", "ready"]),
        ],
    );
    let boot = stage.boot();
    let pids = ["a", "b"].map(|name| stage.running(name));
    send(boot, Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    for (name, last) in [("a", "exit code 0"), ("b", "signal 9")] {
        let service = stage.service(name).unwrap();
        assert_eq!(
            (service.state, service.pid, service.restarts),
            (State::Stopped, None, 0)
        );
        assert_eq!(service.last_exit.as_deref(), Some(last), "{name}");
    }
}

#[test]
fn a_second_signal_stops_at_once() {
    let mut stage = Stage::with(
        json!({ "stop_grace": 3_600_000 }),
        &[
            service("a", None, &["deaf", "ready"]),
            service("b", Some("a"), &["deaf", "ready"]),
        ],
    );
    let boot = stage.boot();
    let pids = ["a", "b"].map(|name| stage.running(name));
    send(boot, Signal::SIGTERM);
    stage.wait_state("b", State::Stopping);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    send(boot, Signal::SIGINT);
    assert_eq!(stage.ended().code(), Some(102));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn whatever_state_a_service_is_in_boot_stops() {
    let mut stage = Stage::with(
        json!({ "restart_most": 3_600_000 }),
        &[
            service("held", None, &["ready"]),
            service("never-ready", None, &["await:never"]),
            service("waiting", Some("never-ready"), &["ready"]),
            service("failing", None, &["fail:no"]),
            service("frozen", None, &["ready"]),
        ],
    );
    let boot = stage.boot();
    let held = stage.running("held");
    hold(&stage.run(), "held").unwrap();
    stage.wait_state("held", State::Held);
    stage.wait_state("waiting", State::Waiting);
    stage.wait_state("failing", State::BackingOff);
    freeze(stage.running("frozen"));
    send(boot, Signal::SIGINT);
    assert_eq!(stage.ended().code(), Some(0));
    assert!(!is_alive(held));
    assert_eq!((stage.count("held end"), stage.count("frozen end")), (1, 1));
    assert_eq!(stage.count("waiting start"), 0);
    assert!(
        stage
            .status()
            .unwrap()
            .services
            .iter()
            .all(|service| service.state == State::Stopped)
    );
}

#[test]
fn a_service_of_an_operator_is_left_alone() {
    let mut stage = Stage::new(&[service("a", None, &["ready"]), service("b", None, &["ready"])]);
    stage.boot();
    stage.running("a");
    hold(&stage.run(), "a").unwrap();
    stage.wait_state("a", State::Held);
    send(stage.service("a").unwrap().pid.unwrap(), Signal::SIGTERM);
    stage.wait_for("a", "ended", |a| a.last_exit.is_some());
    // By hand, and noted where boot would look.
    let mut by_hand = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let identity = boot::process::Identity::of(by_hand.id()).unwrap();
    std::fs::write(stage.run().join("a.pid"), identity.to_string()).unwrap();
    let boot = stage.status().unwrap().pid.unwrap();
    send(boot, Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
    assert!(is_alive(by_hand.id()));
    by_hand.kill().unwrap();
    by_hand.wait().unwrap();
}

#[tokio::test]
async fn a_node_is_stopped_from_outside() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let mut stage = Stage::with(
        json!({ "stop_grace": 3_600_000 }),
        &[
            service("a", None, &["deaf", "ready"]),
            service("b", None, &["ready"]),
        ],
    );
    let run = stage.run();
    let said = boot::stop(&run, PATIENCE).await.unwrap_err().to_string();
    assert!(said.contains("no node was started in"), "{said}");

    let boot = stage.boot();
    let pids = ["a", "b"].map(|name| stage.running(name));
    let said = boot::stop(&run, Duration::from_millis(10))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        said.contains(&format!("process {boot} has not ended within 10ms")),
        "{said}"
    );
    // The second time it does not wait for the deaf one, even if boot itself was stopped meanwhile.
    stage.wait_state("a", State::Stopping);
    freeze(boot);
    boot::stop(&run, PATIENCE).await.unwrap();
    assert_eq!(stage.ended().code(), Some(115));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));

    let said = boot::stop(&run, PATIENCE).await.unwrap_err().to_string();
    assert!(said.contains("is not running"), "{said}");
}
