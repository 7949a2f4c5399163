//! Services exit when their boot is killed. The next boot stops surviving processes before it starts services.

use std::process::{Child, Command};

use boot::ServiceState;
use boot::process::ProcessIdentity;
use serde_json::json;

use crate::harness::{BootHarness, freeze, is_alive, service, wait_until};

#[test]
fn services_exit_when_their_boot_is_killed() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["server", "ready"]),
        service("b", Some("a"), &["ready"]),
    ]);
    harness.boot();
    let (a, b) = (
        harness.wait_state("a", ServiceState::Running),
        harness.wait_running("b"),
    );
    harness.kill_boot();
    wait_until("both have exited", || !is_alive(a.pid.unwrap()) && !is_alive(b));
    wait_until("the server has exited", || !is_alive(a.server_pid.unwrap()));
    assert_eq!(
        (harness.count("a boot-exited"), harness.count("b boot-exited")),
        (1, 1)
    );
    let status = harness.status().unwrap();
    assert_eq!(status.pid, None);
    assert!(
        status
            .services
            .iter()
            .all(|service| service.state == ServiceState::Stopped && service.pid.is_none())
    );

    harness.boot();
    let next = harness.wait_state("b", ServiceState::Running);
    assert_eq!((next.restarts, next.last_exit), (0, None));
}

/// Starts another boot and checks that the old process has exited before the new one starts.
#[track_caller]
fn check_successor(harness: &mut BootHarness, old: u32) {
    harness.boot();
    let new = harness.wait_running("a");
    assert_ne!(new, old);
    assert!(!is_alive(old));
}

#[test]
fn a_surviving_service_that_ignores_sigterm_is_killed_first() {
    let mut harness = BootHarness::with(
        json!({ "stop_grace": 3000 }),
        &[service("a", None, &["ignore-term", "ready"])],
    );
    harness.boot();
    let old = harness.wait_running("a");
    harness.kill_boot();
    let orphan = harness.service("a").unwrap();
    assert_eq!((orphan.state, orphan.pid), (ServiceState::Stopping, Some(old)));
    check_successor(&mut harness, old);
    assert_eq!(harness.count("a term"), 1);
}

// It is stopped after its boot was killed: the kernel sends SIGHUP to a stopped process whose group becomes orphaned.
#[test]
fn a_stopped_surviving_service_is_continued_and_exits_in_order() {
    let mut harness = BootHarness::new(&[service("a", None, &["ignore-boot-exit", "ready"])]);
    harness.boot();
    let old = harness.wait_running("a");
    harness.kill_boot();
    freeze(old);
    check_successor(&mut harness, old);
    assert_eq!((harness.count("a term"), harness.count("a end")), (1, 1));
}

#[test]
fn a_stopped_surviving_service_that_ignores_sigterm_is_killed() {
    let mut harness = BootHarness::with(
        json!({ "stop_grace": 300 }),
        &[service("a", None, &["ignore-term", "ready"])],
    );
    harness.boot();
    let old = harness.wait_running("a");
    harness.kill_boot();
    freeze(old);
    check_successor(&mut harness, old);
    assert_eq!(harness.count("a end"), 0);
}

#[test]
fn a_service_that_was_stopped_before_its_boot_was_killed_exits_too() {
    let mut harness = BootHarness::new(&[service("a", None, &["ready"])]);
    harness.boot();
    let old = harness.wait_running("a");
    freeze(old);
    harness.kill_boot();
    check_successor(&mut harness, old);
}

#[test]
fn boot_can_be_stopped_while_it_waits_for_a_surviving_service() {
    let mut harness = BootHarness::with(
        json!({ "stop_grace": 3_600_000 }),
        &[service("a", None, &["ignore-term", "ready"])],
    );
    harness.boot();
    let old = harness.wait_running("a");
    harness.kill_boot();
    let boot = harness.boot();
    let doing = format!("waiting for process {old} of an earlier boot to exit");
    harness.wait_for("a", "waiting", |a| a.doing.as_deref() == Some(&doing));
    crate::harness::send_signal(boot, nix::sys::signal::Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
}

/// A process of the takeover tests that boot has not started and must never signal.
struct UnrelatedProcess(Child);

impl UnrelatedProcess {
    fn new() -> UnrelatedProcess {
        UnrelatedProcess(Command::new("sleep").arg("600").spawn().unwrap())
    }
}

impl Drop for UnrelatedProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_process_with_the_same_pid_is_never_signalled() {
    let unrelated = UnrelatedProcess::new();
    let real = ProcessIdentity::of(unrelated.0.id()).unwrap();
    let texts = [
        ProcessIdentity {
            start_time: real.start_time + 1,
            ..real.clone()
        }
        .to_string(),
        ProcessIdentity {
            kernel_boot_id: "00000000-0000-0000-0000-000000000000".into(),
            ..real.clone()
        }
        .to_string(),
        // A truncated pid file.
        format!("{}\n", real.pid),
        "1\n1\n".to_string(),
        "0\n0\nx\n".to_string(),
        "garbage".to_string(),
    ]
    .map(String::into_bytes)
    .into_iter()
    .chain([b"\xff\xfe\0".to_vec()]);
    for text in texts {
        let mut harness = BootHarness::new(&[service("a", None, &["ready"])]);
        std::fs::create_dir(harness.run()).unwrap();
        std::fs::write(harness.run().join("a.pid"), &text).unwrap();
        harness.boot();
        harness.wait_running("a");
        assert!(real.is_alive(), "{}", text.escape_ascii());
    }
}
