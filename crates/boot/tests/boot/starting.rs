//! Services start in order, once for each folder, and what is wrong is said.

use std::process::Command;

use boot::State;
use serde_json::json;

use crate::stage::{FIXTURE, Stage, is_alive, pid_in, service};

#[test]
fn a_service_starts_when_the_one_it_needs_is_ready() {
    let mut stage = Stage::new(&[
        service("a", None, &["doing:counting sheep", "await:go", "ready"]),
        service("b", Some("a"), &["ready"]),
        service("c", Some("b"), &["ready"]),
        service("d", None, &["ready"]),
    ]);
    let boot = stage.boot();
    stage.running("d");
    let a = stage.wait_for("a", "counting", |a| a.doing.as_deref() == Some("counting sheep"));
    assert_eq!(a.state, State::Starting);
    let b = stage.wait_for("b", "waiting for a", |b| {
        b.doing.as_deref() == Some("waits for a")
    });
    assert_eq!((b.state, b.pid), (State::Waiting, None));
    assert_eq!(stage.count("b start"), 0);

    stage.touch("go");
    let c = stage.running("c");
    let order: Vec<String> = stage
        .events()
        .into_iter()
        .filter(|event| !event.starts_with('d'))
        .collect();
    let at = |event: &str| order.iter().position(|seen| seen == event).unwrap();
    assert!(
        at("a ready") < at("b start") && at("b ready") < at("c start"),
        "{order:?}"
    );
    let status = stage.status().unwrap();
    assert_eq!(status.pid, Some(boot));
    assert_eq!((status.kind.as_str(), status.name.as_str()), ("judicator", "n1"));
    assert!(
        status
            .services
            .iter()
            .all(|service| service.restarts == 0 && service.last_exit.is_none())
    );
    assert_eq!(pid_in(&stage.run().join("c.pid")), c);
    assert_eq!(pid_in(&stage.run().join("boot.pid")), boot);
}

#[test]
fn ctrl_c_at_a_terminal_does_not_reach_services() {
    let mut stage = Stage::new(&[service("a", None, &["ready"])]);
    stage.boot();
    let a = stage.running("a");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(a).unwrap());
    assert_eq!(nix::unistd::getpgid(Some(pid)).unwrap(), pid);
}

#[test]
fn a_second_boot_on_the_folder_is_refused() {
    let mut stage = Stage::new(&[service("a", None, &["ready"])]);
    let boot = stage.boot();
    let a = stage.running("a");
    let second = Command::new(FIXTURE)
        .arg("boot")
        .arg(stage.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(said.contains(&format!("process {boot} already runs")), "{said}");
    assert!(is_alive(a));
    assert_eq!(stage.running("a"), a);
    assert_eq!(stage.status().unwrap().pid, Some(boot));
}

#[test]
fn a_plan_with_a_mistake_starts_nothing() {
    let mut stage = Stage::with(json!({ "print": ["b"] }), &[service("a", None, &["ready"])]);
    stage.boot();
    assert_eq!(stage.ended().code(), Some(1));
    let said = stage.text("stderr");
    assert!(
        said.contains("cannot print the log of \"b\"") && said.contains("it has a"),
        "{said}"
    );
    assert!(stage.status().is_none() && stage.events().is_empty());
}
