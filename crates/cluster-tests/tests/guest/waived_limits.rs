//! An ordinary user without a delegated control group: the error names what is missing, the limits can be waived by name, and then
//! the remaining enforcement is as documented.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestOutputs};
use serde_json::{Value, json};

use crate::{cell_view, limit_cases};

const DONE: Duration = Duration::from_secs(450);
const WAIVE_ALL: &str = "--allow-weaker memory --allow-weaker processes --allow-weaker cpu";

/// Seconds of CPU time for every limit up to one second: the kernel sends SIGXCPU after two seconds, and SIGKILL after this many.
const HARD_CPU_LIMIT: f64 = 3.0;

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

fn without_group(name: &str, arguments: &str) -> GuestCommand {
    GuestCommand::root(
        name,
        &format!("su user -c 'conclave sandbox {arguments} </dev/null'"),
    )
}

fn outcome(ran: &GuestOutputs, name: &str) -> Value {
    ran[name].json()
}

#[tokio::test]
async fn a_missing_limit_is_named_and_can_be_waived() {
    let cells = CELLS.map(|(name, limits, command)| {
        let arguments = format!("{WAIVE_ALL} --json --wall 120s {limits} -- {command}");
        without_group(name, &arguments)
    });
    let mut steps = vec![
        without_group("refused", "--check"),
        without_group("one of three", "--allow-weaker memory --check"),
        without_group("check", &format!("{WAIVE_ALL} --check --json")),
        // A limit that can be enforced is enforced, waived or not.
        GuestCommand::user(
            "delegated",
            &format!("conclave sandbox {WAIVE_ALL} --json --wall 120s --memory 48MiB -- hog </dev/null"),
        ),
    ];
    steps.extend(cells);
    let ran = cell_view::add_files(limit_cases::guest()).run(&steps, DONE).await;

    ran["refused"].assert_failure(1, &["memory", "Delegate=yes", "--allow-weaker memory"]);
    ran["one of three"].assert_failure(1, &["processes", "Delegate=yes", "--allow-weaker processes"]);
    let walls = Value::from(ran["check"].json_lines());
    let given_up = json!([
        {"wall": "memory", "by": "nothing (waived): a peak above the limit is reported afterwards"},
        {"wall": "processes", "by": "nothing (waived)"},
        {"wall": "cpu", "by": "rlimit, for each process and in whole seconds (waived for all processes together)"},
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

    let outcome_of_true = outcome(&ran, "true");
    assert_eq!(outcome_of_true["exit_code"], 0, "{outcome_of_true:#}");
    // rlimit ends each process separately, in whole seconds, at least one.
    for name in ["burn", "burn a part of a second", "burning children"] {
        let burn = outcome(&ran, name);
        assert_eq!(burn["reason"], "time_limit", "{name}: {burn:#}");
        // After a pause of the emulator the first signal may be missing.
        let is_beyond_both = burn["cpu_seconds"].as_f64().unwrap() >= HARD_CPU_LIMIT;
        assert!(
            burn["signal"] == 24 || burn["signal"] == 9 && is_beyond_both,
            "{name}: {burn:#}"
        );
    }
    // The excess is not prevented, but reported afterwards.
    let large = outcome(&ran, "large");
    assert_eq!(large["stdout"], "had it\n", "{large:#}");
    assert_eq!(large["exit_code"], 0, "{large:#}");
    assert_eq!(large["reason"], "memory_limit", "{large:#}");
    let memory = large["memory_bytes"].as_u64().unwrap();
    assert!((96 << 20..98 << 20).contains(&memory), "{large:#}");
    // Each process is below the limit, and only the largest counts.
    let shares = outcome(&ran, "shares");
    assert_eq!(shares["stdout"], "had it\n", "{shares:#}");
    assert_eq!(shares["reason"], "exited", "{shares:#}");
    let memory = shares["memory_bytes"].as_u64().unwrap();
    assert!((32 << 20..34 << 20).contains(&memory), "{shares:#}");
    let crowd = outcome(&ran, "crowd");
    assert_eq!(crowd["stdout"], "40\n", "{crowd:#}");
    assert_eq!(crowd["reason"], "exited", "{crowd:#}");
    // Everything else is enforced as usual.
    let flood = outcome(&ran, "flood");
    assert_eq!(flood["reason"], "output_limit", "{flood:#}");
    let seen = outcome(&ran, "seen");
    assert_eq!(seen["stdout"], cell_view::by_user(), "{seen:#}");
}
