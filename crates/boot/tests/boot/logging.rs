//! Where the output of services goes.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::stage::{Stage, send, service, wait_until};

#[test]
fn output_is_kept_from_one_life_and_one_boot_to_the_next() {
    let mut stage = Stage::new(&[service("a", None, &["print:hello", "ready"])]);
    stage.boot();
    send(stage.running("a"), Signal::SIGKILL);
    stage.wait_for("a", "running again", |a| {
        a.state == boot::State::Running && a.restarts == 1
    });
    assert_eq!(stage.text("log/a.log"), "hello\nhello\n");
    let boot = stage.status().unwrap().pid.unwrap();
    send(boot, Signal::SIGTERM);
    stage.ended();
    stage.boot();
    stage.running("a");
    assert_eq!(stage.text("log/a.log"), "hello\nhello\nhello\n");
}

#[test]
fn large_logs_are_put_aside_without_loss() {
    let large = "x".repeat(2000);
    let mut stage = Stage::with(
        json!({ "log_size": 1000, "log_keep": 2 }),
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
    stage.boot();
    for (number, go) in [("1", "two"), ("2", "three"), ("3", "four")] {
        wait_until("it is put aside", || {
            stage.text("log/a.log.1") == format!("{number} {large}\n") && stage.text("log/a.log").is_empty()
        });
        stage.touch(go);
    }
    stage.running("a");
    assert_eq!(stage.text("log/a.log"), "4\n");
    assert_eq!(stage.text("log/a.log.2"), format!("2 {large}\n"));
    assert!(!stage.path("log/a.log.3").exists() && !stage.path("log/a.log.new").exists());
}

#[test]
fn logs_are_printed_by_name_across_rotation() {
    let large = "x".repeat(2000);
    let mut stage = Stage::with(
        json!({ "log_size": 1000, "print": ["a", "long-name"] }),
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
    std::fs::create_dir(stage.path("log")).unwrap();
    std::fs::write(stage.path("log/a.log"), "of an earlier boot\n").unwrap();
    let boot = stage.boot();
    wait_until("it is put aside", || {
        stage.text("log/a.log.1").contains(&large) && stage.text("log/a.log").is_empty()
    });
    stage.touch("go");
    for name in ["a", "silent", "long-name"] {
        stage.running(name);
    }
    send(boot, Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
    let out = stage.text("stdout");
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
fn a_terminal_that_takes_nothing_holds_up_nobody() {
    let mut stage = Stage::with(
        json!({ "print": "all" }),
        &[
            service("a", None, &["flood:3000000", "ready"]),
            service("b", None, &["ready"]),
        ],
    );
    let boot = stage.boot_to(Stdio::piped());
    // Nobody reads from it.
    let _unread = stage.stdout();
    let a = stage.running("a");
    send(a, Signal::SIGKILL);
    stage.wait_for("a", "running again", |a| {
        a.state == boot::State::Running && a.restarts == 1
    });
    send(boot, Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
}

#[test]
fn a_terminal_that_is_gone_is_no_harm() {
    let mut stage = Stage::with(
        json!({ "print": "all" }),
        &[service(
            "a",
            None,
            &["print:hello", "await:go", "print:hello", "ready"],
        )],
    );
    let boot = stage.boot_to(Stdio::piped());
    drop(stage.stdout());
    wait_until("it wrote", || stage.text("log/a.log") == "hello\n");
    stage.touch("go");
    stage.running("a");
    send(boot, Signal::SIGTERM);
    assert_eq!(stage.ended().code(), Some(0));
}
