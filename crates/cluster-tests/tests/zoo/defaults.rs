//! Those that come without any limits.

use std::fs;
use std::time::Duration;

use cluster_tests::{System, await_that, shell};
use serde_json::json;

use crate::scene::{groups_of, inmates};
use crate::stage::{Animal, Program, Zoo};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn whoever_names_no_limits_meets_those_of_the_node() {
    // So that there is enough for other tests, too.
    let settings = ["sandbox.memory=128MiB".to_string()];
    let zoo = Zoo::open_with(System::new().expect("a folder"), &settings).await;
    // A bomb that meets none would take this machine along.
    there_are_limits(&zoo).await;
    they_are_shown(&zoo).await;
    for (name, program, reason) in [
        (
            "fork bomb",
            Program::Python("import os\nwhile True: os.fork()"),
            "process_limit",
        ),
        (
            "memory hog",
            Program::Python("hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))"),
            "memory_limit",
        ),
        (
            "memfd hoard",
            Program::Python(
                "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, b'x' * (1 << 20))",
            ),
            "memory_limit",
        ),
    ] {
        let mut animal = Animal::new(name, program);
        animal.limits = json!({});
        zoo.ends_by(reason, animal).await;
    }
}

/// The task says what applied to it.
async fn they_are_shown(zoo: &Zoo) {
    let task = zoo.system.run(shell("true")).await;
    let limits = serde_json::to_value(task.execute.limits).expect("limits");
    let found = ["memory", "processes", "space"].map(|limit| limits[limit].clone());
    assert_eq!(
        found,
        [json!(128 << 20), json!(512), json!(256 << 20)],
        "{limits}"
    );
}

/// Looks at the control groups of a task that does no harm.
async fn there_are_limits(zoo: &Zoo) {
    let task = zoo.system.add(shell("exec sleep 600")).await;
    let sleeper = await_that("a sleeper", SOON, async || {
        inmates().into_iter().find(|inmate| inmate.name == "sleep")
    })
    .await;
    // Version 1 of the kernel's interface has a number so large that it stands for none.
    const NONE: u64 = 1 << 60;
    let mut limits = 0;
    for group in groups_of(&sleeper, &zoo.system) {
        for name in ["pids.max", "memory.max", "memory.limit_in_bytes"] {
            if let Ok(limit) = fs::read_to_string(group.join(name)) {
                let is_finite = limit.trim().parse().is_ok_and(|limit: u64| limit < NONE);
                assert!(is_finite, "{name} is {limit}");
                limits += 1;
            }
        }
    }
    assert_eq!(limits, 2, "one of processes, one of memory");
    zoo.system.client.cancel(task.id).await.expect("a task that runs");
    zoo.look_around().await;
}
