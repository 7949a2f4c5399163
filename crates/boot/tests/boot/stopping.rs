//! Services stop in reverse order with a grace period, and are killed by a second signal.

use std::time::Duration;

use boot::{ServiceState, hold};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{BootHarness, freeze, is_alive, send_signal, service};

#[test]
fn services_are_stopped_in_reverse_order() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["ready"]),
        service("b", Some("a"), &["ready"]),
        service("c", Some("b"), &["ready"]),
    ]);
    let boot = harness.boot();
    let pids = ["a", "b", "c"].map(|name| harness.wait_running(name));
    send_signal(boot, Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    let events = harness.events();
    let ends: Vec<&str> = events
        .iter()
        .map(String::as_str)
        .filter(|event| event.ends_with("term") || event.ends_with("end"))
        .collect();
    assert_eq!(ends, ["c term", "c end", "b term", "b end", "a term", "a end"]);

    let status = harness.status().unwrap();
    assert_eq!(status.pid, None);
    for service in status.services {
        assert_eq!((service.state, service.pid), (ServiceState::Stopped, None));
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
fn services_that_ignore_sigterm_are_killed_after_the_grace_period() {
    // Enough for the other service to exit by itself on a busy machine.
    let mut harness = BootHarness::with(
        json!({ "stop_grace": 3000 }),
        &[
            service("a", None, &["ready"]),
            service("b", Some("a"), &["ignore-term", "ready"]),
        ],
    );
    let boot = harness.boot();
    let pids = ["a", "b"].map(|name| harness.wait_running(name));
    send_signal(boot, Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    for (name, last) in [("a", "exit code 0"), ("b", "signal 9")] {
        let service = harness.service(name).unwrap();
        assert_eq!(
            (service.state, service.pid, service.restarts),
            (ServiceState::Stopped, None, 0)
        );
        assert_eq!(service.last_exit.as_deref(), Some(last), "{name}");
    }
}

#[test]
fn a_second_signal_kills_all_services() {
    let mut harness = BootHarness::with(
        json!({ "stop_grace": 3_600_000 }),
        &[
            service("a", None, &["ignore-term", "ready"]),
            service("b", Some("a"), &["ignore-term", "ready"]),
        ],
    );
    let boot = harness.boot();
    let pids = ["a", "b"].map(|name| harness.wait_running(name));
    send_signal(boot, Signal::SIGTERM);
    harness.wait_state("b", ServiceState::Stopping);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    send_signal(boot, Signal::SIGINT);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(102));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

#[test]
fn boot_stops_whatever_state_its_services_are_in() {
    let mut harness = BootHarness::with(
        json!({ "max_restart_delay": 3_600_000 }),
        &[
            service("held", None, &["ready"]),
            service("never-ready", None, &["await:never"]),
            service("waiting", Some("never-ready"), &["ready"]),
            service("failing", None, &["fail:no"]),
            service("frozen", None, &["ready"]),
        ],
    );
    let boot = harness.boot();
    let held = harness.wait_running("held");
    hold(&harness.run(), "held").unwrap();
    harness.wait_state("held", ServiceState::Held);
    harness.wait_state("waiting", ServiceState::Waiting);
    harness.wait_state("failing", ServiceState::BackingOff);
    freeze(harness.wait_running("frozen"));
    send_signal(boot, Signal::SIGINT);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
    assert!(!is_alive(held));
    assert_eq!((harness.count("held end"), harness.count("frozen end")), (1, 1));
    assert_eq!(harness.count("waiting start"), 0);
    assert!(
        harness
            .status()
            .unwrap()
            .services
            .iter()
            .all(|service| service.state == ServiceState::Stopped)
    );
}

#[test]
fn a_process_that_an_operator_started_for_a_held_service_is_not_stopped() {
    let mut harness = BootHarness::new(&[service("a", None, &["ready"]), service("b", None, &["ready"])]);
    harness.boot();
    harness.wait_running("a");
    hold(&harness.run(), "a").unwrap();
    harness.wait_state("a", ServiceState::Held);
    send_signal(harness.service("a").unwrap().pid.unwrap(), Signal::SIGTERM);
    harness.wait_for("a", "ended", |a| a.last_exit.is_some());
    // Started by hand, and recorded in the pid file that boot reads.
    let mut by_hand = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let identity = boot::process::ProcessIdentity::of(by_hand.id()).unwrap();
    std::fs::write(harness.run().join("a.pid"), identity.to_string()).unwrap();
    let boot = harness.status().unwrap().pid.unwrap();
    send_signal(boot, Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
    assert!(is_alive(by_hand.id()));
    by_hand.kill().unwrap();
    by_hand.wait().unwrap();
}

#[tokio::test]
async fn conclave_stop_stops_a_node() {
    const TIMEOUT: Duration = Duration::from_secs(30);
    let mut harness = BootHarness::with(
        json!({ "stop_grace": 3_600_000 }),
        &[
            service("a", None, &["ignore-term", "ready"]),
            service("b", None, &["ready"]),
        ],
    );
    let run = harness.run();
    let error = boot::stop(&run, TIMEOUT).await.unwrap_err().to_string();
    assert!(error.contains("no node was started in"), "{error}");

    let boot = harness.boot();
    let pids = ["a", "b"].map(|name| harness.wait_running(name));
    let error = boot::stop(&run, Duration::from_millis(10))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("process {boot} has not exited within 10ms")),
        "{error}"
    );
    // A second stop does not wait for the service that ignores SIGTERM, even if boot was stopped by SIGSTOP meanwhile.
    harness.wait_state("a", ServiceState::Stopping);
    freeze(boot);
    boot::stop(&run, TIMEOUT).await.unwrap();
    assert_eq!(harness.wait_for_boot_exit().code(), Some(115));
    assert!(pids.iter().all(|pid| !is_alive(*pid)));

    let error = boot::stop(&run, TIMEOUT).await.unwrap_err().to_string();
    assert!(error.contains("is not running"), "{error}");
}
