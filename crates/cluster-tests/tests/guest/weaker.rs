//! An ordinary user without a control group of their own: told what is missing and what to do, they may do without it by
//! name, and then have what the documentation says is left.

use std::time::Duration;

use cluster_tests::{Ran, Step};
use serde_json::{Value, json};

use crate::{animals, seen};

const DONE: Duration = Duration::from_secs(450);
const ALL_GIVEN_UP: &str = "--allow-weaker memory --allow-weaker processes --allow-weaker cpu";

/// Seconds of CPU time, for every limit of up to one second: the kernel asks a process to end (SIGXCPU) when it has had
/// two, and kills it after this many.
const HARD: f64 = 3.0;

/// Name, limits, command.
const CELLS: [(&str, &str, &str); 9] = [
    ("true", "", "true"),
    ("burn", "--cpu 1s", "burn"),
    ("burn a part of a second", "--cpu 300ms", "burn"),
    ("burning children", "--cpu 1s", "burn_children"),
    ("large", "--memory 48MiB", "large"),
    ("shares", "--memory 48MiB", "shares"),
    ("crowd", "--processes 16", "crowd"),
    ("flood", "--output 1KiB", "yes"),
    ("seen", "", "checker"),
];

fn without_group(name: &str, arguments: &str) -> Step {
    Step::root(
        name,
        &format!("su user -c 'conclave sandbox {arguments} </dev/null'"),
    )
}

fn outcome(ran: &Ran, name: &str) -> Value {
    ran[name].json()
}

#[tokio::test]
async fn a_missing_wall_is_named() {
    let cells = CELLS.map(|(name, limits, command)| {
        let arguments = format!("{ALL_GIVEN_UP} --json --wall 120s {limits} -- {command}");
        without_group(name, &arguments)
    });
    let mut steps = vec![
        without_group("refused", "--check"),
        without_group("one of three", "--allow-weaker memory --check"),
        without_group("check", &format!("{ALL_GIVEN_UP} --check --json")),
        // What is there is kept, given up or not.
        Step::user(
            "delegated",
            &format!("conclave sandbox {ALL_GIVEN_UP} --json --wall 120s --memory 48MiB -- hog </dev/null"),
        ),
    ];
    steps.extend(cells);
    let ran = seen::put(animals::guest()).run(&steps, DONE).await;

    ran["refused"].fails(1, &["memory", "Delegate=yes", "--allow-weaker memory"]);
    ran["one of three"].fails(1, &["processes", "Delegate=yes", "--allow-weaker processes"]);
    let walls = Value::from(ran["check"].json_lines());
    let given_up = json!([
        {"wall": "memory", "by": "nothing: a peak beyond the limit is told afterwards (given up)"},
        {"wall": "processes", "by": "nothing (given up)"},
        {"wall": "cpu", "by": "rlimit, for each process alone and in whole seconds (given up for all together)"},
    ]);
    assert_eq!(
        walls.as_array().unwrap()[..3],
        given_up.as_array().unwrap()[..],
        "{walls:#}"
    );
    let delegated = outcome(&ran, "delegated");
    assert_eq!(delegated["reason"], "memory_limit", "{delegated:#}");
    let memory = delegated["memory_bytes"].as_u64().unwrap();
    assert!((48 << 20..50 << 20).contains(&memory), "{delegated:#}");

    let well = outcome(&ran, "true");
    assert_eq!(well["exit_code"], 0, "{well:#}");
    // By the kernel, which ends each process alone. Its limit is one of whole seconds, of which there is at least one.
    for name in ["burn", "burn a part of a second", "burning children"] {
        let burn = outcome(&ran, name);
        assert_eq!(burn["reason"], "time_limit", "{name}: {burn:#}");
        // An emulator that stood still for a second may have left out its first word.
        let is_beyond_both = burn["cpu_seconds"].as_f64().unwrap() >= HARD;
        assert!(
            burn["signal"] == 24 || burn["signal"] == 9 && is_beyond_both,
            "{name}: {burn:#}"
        );
    }
    // It is not hindered, and told afterwards.
    let large = outcome(&ran, "large");
    assert_eq!(large["stdout"], "had it\n", "{large:#}");
    assert_eq!(large["exit_code"], 0, "{large:#}");
    assert_eq!(large["reason"], "memory_limit", "{large:#}");
    let memory = large["memory_bytes"].as_u64().unwrap();
    assert!((96 << 20..98 << 20).contains(&memory), "{large:#}");
    // Each is below the limit, and only the largest counts.
    let shares = outcome(&ran, "shares");
    assert_eq!(shares["stdout"], "had it\n", "{shares:#}");
    assert_eq!(shares["reason"], "exited", "{shares:#}");
    let memory = shares["memory_bytes"].as_u64().unwrap();
    assert!((32 << 20..34 << 20).contains(&memory), "{shares:#}");
    let crowd = outcome(&ran, "crowd");
    assert_eq!(crowd["stdout"], "40\n", "{crowd:#}");
    assert_eq!(crowd["reason"], "exited", "{crowd:#}");
    // All else is as it was.
    let flood = outcome(&ran, "flood");
    assert_eq!(flood["reason"], "output_limit", "{flood:#}");
    let seen = outcome(&ran, "seen");
    assert_eq!(seen["stdout"], seen::by_user(), "{seen:#}");
}
