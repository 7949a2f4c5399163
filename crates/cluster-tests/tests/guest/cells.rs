//! Cells on cgroup v2: limits, measurements and protections, as root and as an ordinary user.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestMachine, GuestOutputs};
use serde_json::{Value, json};

use crate::{cell_view, limit_cases};

const DONE: Duration = Duration::from_secs(450);

/// Name, limits, command, reason.
const CELLS: [(&str, &str, &str, &str); 9] = [
    ("attack", "--wall 60s", "attack", "exited"),
    ("true", "--wall 60s", "true", "exited"),
    ("hog", "--wall 60s --memory 48MiB", "hog", "memory_limit"),
    ("forks", "--wall 60s --processes 16", "forks", "process_limit"),
    ("burn", "--wall 60s --cpu 300ms", "burn", "time_limit"),
    ("sleep", "--wall 1s", "sleep 600", "wall_limit"),
    ("flood", "--wall 60s --output 64KiB", "yes", "output_limit"),
    (
        "fill",
        "--wall 60s --space 4MiB",
        "dd if=/dev/zero of=x bs=1M count=64",
        "disk_limit",
    ),
    ("hold", "--wall 60s --memory 64MiB", "hold", "exited"),
];

fn steps(step: fn(&str, &str) -> GuestCommand) -> Vec<GuestCommand> {
    let cells = CELLS.map(|(name, limits, command, _)| {
        step(
            name,
            &format!("conclave sandbox --json {limits} -- {command} </dev/null"),
        )
    });
    let crashes = [
        GuestCommand::root("helper", HELPER),
        step(
            "crash",
            "conclave sandbox --json -- sh -c 'kill -SEGV $$' </dev/null",
        ),
        // A crash outside of a cell shows that the helper works and has handled earlier crashes.
        GuestCommand::root(
            "helped",
            "sh -c 'ulimit -c 0; kill -SEGV $$'; until grep guest /run/helped; do sleep 0.1; done; cat /run/helped",
        ),
    ];
    let looks = [
        step("check", "conclave sandbox --check --json </dev/null"),
        step("seen", "conclave sandbox --json -- checker </dev/null"),
        // Last, because it changes whatever it can.
        GuestCommand::root("outside", "checker"),
    ];
    cells.into_iter().chain(crashes).chain(looks).collect()
}

/// A core dump helper that records the host name of the crashed process.
const HELPER: &str = "printf '#!/bin/sh\\necho $1 >>/run/helped\\n' >/run/helper; chmod 755 /run/helper; \
                      touch /run/helped; echo '|/run/helper %h' >/proc/sys/kernel/core_pattern";

fn assert_cells_work(ran: &GuestOutputs, expected: &str) {
    let crash: Value = ran["crash"].json();
    assert_eq!(
        (&crash["reason"], &crash["signal"]),
        (&json!("signalled"), &json!(11)),
        "{crash:#}"
    );
    assert_eq!(ran["helped"].stdout, b"guest\nguest\n", "{:?}", ran["helped"]);
    for (name, _, _, reason) in CELLS {
        let outcome: Value = ran[name].json();
        assert_eq!(outcome["reason"], reason, "{name}: {outcome:#}");
    }
    let attack: Value = ran["attack"].json();
    assert_eq!(attack["exit_code"], 0, "{attack:#}");
    let hold: Value = ran["hold"].json();
    let memory = hold["memory_bytes"].as_u64().expect("bytes");
    assert!((24 << 20..26 << 20).contains(&memory), "{hold:#}");
    let burn: Value = ran["burn"].json();
    assert!(burn["cpu_seconds"].as_f64() >= Some(0.3), "{burn:#}");

    let walls = ran["check"].json_lines();
    for wall in ["memory", "processes", "cpu"] {
        let said = walls.iter().find(|said| said["wall"] == wall).expect("each wall");
        assert_eq!(said["by"], "cgroup v2", "{wall}");
    }
    let seen: Value = ran["seen"].json();
    assert_eq!(seen["stdout"], expected, "{seen:#}");
    cell_view::assert_seen_outside(&ran["outside"]);
}

#[tokio::test]
async fn root_has_every_protection() {
    let ran = guest().run(&steps(GuestCommand::root), DONE).await;
    assert_cells_work(&ran, &cell_view::by_root(1_900_000_000));
}

#[tokio::test]
async fn an_ordinary_user_with_a_delegated_group_has_every_protection() {
    let ran = guest().run(&steps(GuestCommand::user), DONE).await;
    assert_cells_work(&ran, &cell_view::by_user());
}

#[tokio::test]
async fn an_ordinary_user_with_subordinate_ids_has_every_protection() {
    let ran = guest()
        .subordinate_ids()
        .run(&steps(GuestCommand::user), DONE)
        .await;
    // The last ids of the range: eight for each slot, one slot for each of the two CPUs, and one more.
    assert_cells_work(&ran, &cell_view::by_subordinate(165_519));
}

fn guest() -> GuestMachine {
    cell_view::add_files(limit_cases::guest())
}
