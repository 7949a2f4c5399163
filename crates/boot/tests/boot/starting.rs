//! Services start in order; a second boot and an invalid plan are refused.

use std::process::Command;

use boot::ServiceState;
use serde_json::json;

use crate::harness::{BootHarness, FIXTURE, is_alive, pid_in, service};

#[test]
fn a_service_starts_when_the_one_it_needs_is_ready() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["doing:loading data", "await:go", "ready"]),
        service("b", Some("a"), &["ready"]),
        service("c", Some("b"), &["ready"]),
        service("d", None, &["ready"]),
    ]);
    let boot = harness.boot();
    harness.wait_running("d");
    let a = harness.wait_for("a", "loading data", |a| {
        a.doing.as_deref() == Some("loading data")
    });
    assert_eq!(a.state, ServiceState::Starting);
    let b = harness.wait_for("b", "waiting for a", |b| {
        b.doing.as_deref() == Some("waiting for a")
    });
    assert_eq!((b.state, b.pid), (ServiceState::Waiting, None));
    assert_eq!(harness.count("b start"), 0);

    harness.touch("go");
    let c = harness.wait_running("c");
    let order: Vec<String> = harness
        .events()
        .into_iter()
        .filter(|event| !event.starts_with('d'))
        .collect();
    let at = |event: &str| order.iter().position(|seen| seen == event).unwrap();
    assert!(
        at("a ready") < at("b start") && at("b ready") < at("c start"),
        "{order:?}"
    );
    let status = harness.status().unwrap();
    assert_eq!(status.pid, Some(boot));
    assert_eq!((status.kind.as_str(), status.name.as_str()), ("judicator", "n1"));
    assert!(
        status
            .services
            .iter()
            .all(|service| service.restarts == 0 && service.last_exit.is_none())
    );
    assert_eq!(pid_in(&harness.run().join("c.pid")), c);
    assert_eq!(pid_in(&harness.run().join("boot.pid")), boot);
}

#[test]
fn services_have_their_own_process_group_so_ctrl_c_does_not_reach_them() {
    let mut harness = BootHarness::new(&[service("a", None, &["ready"])]);
    harness.boot();
    let a = harness.wait_running("a");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(a).unwrap());
    assert_eq!(nix::unistd::getpgid(Some(pid)).unwrap(), pid);
}

#[test]
fn a_second_boot_on_the_folder_is_refused() {
    let mut harness = BootHarness::new(&[service("a", None, &["ready"])]);
    let boot = harness.boot();
    let a = harness.wait_running("a");
    let second = Command::new(FIXTURE)
        .arg("boot")
        .arg(harness.path(""))
        .output()
        .unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(error.contains(&format!("process {boot} already runs")), "{error}");
    assert!(is_alive(a));
    assert_eq!(harness.wait_running("a"), a);
    assert_eq!(harness.status().unwrap().pid, Some(boot));
}

#[test]
fn an_invalid_plan_starts_no_service() {
    let mut harness = BootHarness::with(json!({ "print": ["b"] }), &[service("a", None, &["ready"])]);
    harness.boot();
    assert_eq!(harness.wait_for_boot_exit().code(), Some(1));
    let error = harness.text("stderr");
    assert!(
        error.contains("cannot print the log of \"b\"") && error.contains("it has a"),
        "{error}"
    );
    assert!(harness.status().is_none() && harness.events().is_empty());
}
