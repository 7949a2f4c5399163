//! Service logs: kept across restarts, rotated, and printed to the terminal.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{BootHarness, send_signal, service, wait_until};

#[test]
fn logs_are_kept_across_restarts_of_services_and_of_boot() {
    let mut harness = BootHarness::new(&[service("a", None, &["print:hello", "ready"])]);
    harness.boot();
    send_signal(harness.wait_running("a"), Signal::SIGKILL);
    harness.wait_for("a", "running again", |a| {
        a.state == boot::ServiceState::Running && a.restarts == 1
    });
    assert_eq!(harness.text("log/a.log"), "hello\nhello\n");
    let boot = harness.status().unwrap().pid.unwrap();
    send_signal(boot, Signal::SIGTERM);
    harness.wait_for_boot_exit();
    harness.boot();
    harness.wait_running("a");
    assert_eq!(harness.text("log/a.log"), "hello\nhello\nhello\n");
}

#[test]
fn large_logs_are_rotated_without_loss() {
    let large = "x".repeat(2000);
    let mut harness = BootHarness::with(
        json!({ "max_log_size": 1000, "rotated_logs_kept": 2 }),
        &[service(
            "a",
            None,
            &[
                &format!("print:1 {large}"),
                "await:two",
                &format!("print:2 {large}"),
                "await:three",
                &format!("print:3 {large}"),
                "await:four",
                "print:4",
                "ready",
            ],
        )],
    );
    harness.boot();
    for (number, go) in [("1", "two"), ("2", "three"), ("3", "four")] {
        wait_until("the log is rotated", || {
            harness.text("log/a.log.1") == format!("{number} {large}\n")
                && harness.text("log/a.log").is_empty()
        });
        harness.touch(go);
    }
    harness.wait_running("a");
    assert_eq!(harness.text("log/a.log"), "4\n");
    assert_eq!(harness.text("log/a.log.2"), format!("2 {large}\n"));
    assert!(!harness.path("log/a.log.3").exists() && !harness.path("log/a.log.new").exists());
}

#[test]
fn logs_are_printed_by_name_across_rotation() {
    let large = "x".repeat(2000);
    let mut harness = BootHarness::with(
        json!({ "max_log_size": 1000, "print": ["a", "long-name"] }),
        &[
            service(
                "a",
                None,
                &[&format!("print:1 {large}"), "await:go", "print:2", "ready"],
            ),
            service("silent", None, &["print:not this", "ready"]),
            service("long-name", None, &["print:me too", "ready"]),
        ],
    );
    std::fs::create_dir(harness.path("log")).unwrap();
    std::fs::write(harness.path("log/a.log"), "log line of an earlier boot\n").unwrap();
    let boot = harness.boot();
    wait_until("the log is rotated", || {
        harness.text("log/a.log.1").contains(&large) && harness.text("log/a.log").is_empty()
    });
    harness.touch("go");
    for name in ["a", "silent", "long-name"] {
        harness.wait_running(name);
    }
    send_signal(boot, Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
    let out = harness.text("stdout");
    let of = |name: &str| -> Vec<&str> {
        let prefix = format!("{name:9} | ");
        out.lines()
            .filter_map(|line| line.strip_prefix(&prefix))
            .collect()
    };
    assert_eq!(of("a"), [&format!("1 {large}"), "2"]);
    assert_eq!(of("long-name"), ["me too"]);
    assert_eq!(out.lines().count(), 3, "{out}");
}

#[test]
fn a_blocked_terminal_delays_neither_services_nor_boot() {
    let mut harness = BootHarness::with(
        json!({ "print": "all" }),
        &[
            service("a", None, &["flood:3000000", "ready"]),
            service("b", None, &["ready"]),
        ],
    );
    let boot = harness.boot_to(Stdio::piped());
    // The pipe is never read.
    let _unread = harness.stdout();
    let a = harness.wait_running("a");
    send_signal(a, Signal::SIGKILL);
    harness.wait_for("a", "running again", |a| {
        a.state == boot::ServiceState::Running && a.restarts == 1
    });
    send_signal(boot, Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
}

#[test]
fn a_closed_terminal_does_not_affect_boot() {
    let mut harness = BootHarness::with(
        json!({ "print": "all" }),
        &[service(
            "a",
            None,
            &["print:hello", "await:go", "print:hello", "ready"],
        )],
    );
    let boot = harness.boot_to(Stdio::piped());
    drop(harness.stdout());
    wait_until("the service has written", || {
        harness.text("log/a.log") == "hello\n"
    });
    harness.touch("go");
    harness.wait_running("a");
    send_signal(boot, Signal::SIGTERM);
    assert_eq!(harness.wait_for_boot_exit().code(), Some(0));
}
