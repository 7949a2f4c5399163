//! SIGHUP is forwarded to every service and terminates none.

use nix::sys::signal::Signal;

use crate::harness::{BootHarness, is_alive, send_signal, service, wait_until};

#[test]
fn sighup_is_forwarded_to_services_once_they_handle_signals() {
    let mut harness = BootHarness::new(&[
        service("a", None, &["ready"]),
        // It has sent no message yet, so boot does not know whether it handles signals.
        service("b", Some("a"), &["await:go", "ready"]),
    ]);
    let boot = harness.boot();
    let a = harness.wait_running("a");
    wait_until("b started", || harness.events().contains(&"b start".to_string()));
    send_signal(boot, Signal::SIGHUP);
    wait_until("a received SIGHUP", || {
        harness.events().contains(&"a hup".to_string())
    });
    assert!(harness.path("hangup-callback").exists());
    assert!(!harness.events().contains(&"b hup".to_string()));
    harness.touch("go");
    wait_until("b received SIGHUP", || {
        harness.events().contains(&"b hup".to_string())
    });
    assert!(is_alive(boot) && is_alive(a));
    let starts = harness
        .events()
        .iter()
        .filter(|event| event.ends_with("start"))
        .count();
    assert_eq!(starts, 2);
}
