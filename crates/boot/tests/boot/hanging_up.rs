//! SIGHUP is passed on to every service, and ends none.

use nix::sys::signal::Signal;

use crate::stage::{Stage, is_alive, send, service, wait_until};

#[test]
fn services_hear_of_it_and_go_on() {
    let mut stage = Stage::new(&[
        service("a", None, &["ready"]),
        // Has not said anything yet, so nobody knows whether it listens.
        service("b", Some("a"), &["await:go", "ready"]),
    ]);
    let boot = stage.boot();
    let a = stage.running("a");
    wait_until("b started", || stage.events().contains(&"b start".to_string()));
    send(boot, Signal::SIGHUP);
    wait_until("a heard of it", || stage.events().contains(&"a hup".to_string()));
    assert!(stage.path("told").exists());
    assert!(!stage.events().contains(&"b hup".to_string()));
    stage.touch("go");
    wait_until("b heard of it", || stage.events().contains(&"b hup".to_string()));
    assert!(is_alive(boot) && is_alive(a));
    let starts = stage
        .events()
        .iter()
        .filter(|event| event.ends_with("start"))
        .count();
    assert_eq!(starts, 2);
}
