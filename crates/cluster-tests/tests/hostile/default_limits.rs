//! Tasks that set no limits get those of the node.

use std::fs;
use std::time::Duration;

use cluster_tests::{TestSystem, shell, wait_until};
use serde_json::json;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};
use crate::node_inventory::{cell_processes, groups_of};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn tasks_without_limits_get_the_defaults_of_the_node() {
    // Leaves memory for other tests.
    let settings = ["sandbox.memory=128MiB".to_string()];
    let node = HostileTestNode::start_with(TestSystem::new().expect("a folder"), &settings).await;
    // Checked first, because a bomb without limits would take down this machine.
    assert_groups_are_limited(&node).await;
    assert_limits_are_shown(&node).await;
    for (name, program, reason) in [
        (
            "fork bomb",
            ProgramSource::Python("import os\nwhile True: os.fork()"),
            "process_limit",
        ),
        (
            "memory hog",
            ProgramSource::Python("hoard = []\nwhile True: hoard.append(b'x' * (1 << 20))"),
            "memory_limit",
        ),
        (
            "memfd hoard",
            ProgramSource::Python(
                "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, b'x' * (1 << 20))",
            ),
            "memory_limit",
        ),
    ] {
        let mut hostile_program = HostileProgram::new(name, program);
        hostile_program.limits = json!({});
        node.assert_reason(reason, hostile_program).await;
    }
}

/// Asserts that the task shows the limits that applied.
async fn assert_limits_are_shown(node: &HostileTestNode) {
    let task = node.system.run(shell("true")).await;
    let limits = serde_json::to_value(task.execute.limits).expect("limits");
    let found = ["memory", "processes", "space"].map(|limit| limits[limit].clone());
    assert_eq!(
        found,
        [json!(128 << 20), json!(512), json!(256 << 20)],
        "{limits}"
    );
}

/// Asserts the limits of the control groups of a harmless task.
async fn assert_groups_are_limited(node: &HostileTestNode) {
    let task = node.system.add(shell("exec sleep 600")).await;
    let sleeper = wait_until("a sleeper", SOON, async || {
        cell_processes().into_iter().find(|inmate| inmate.name == "sleep")
    })
    .await;
    // cgroup v1 shows a huge number for no limit.
    const UNLIMITED: u64 = 1 << 60;
    let mut limits = 0;
    for group in groups_of(&sleeper, &node.system) {
        for name in ["pids.max", "memory.max", "memory.limit_in_bytes"] {
            if let Ok(limit) = fs::read_to_string(group.join(name)) {
                let is_finite = limit.trim().parse().is_ok_and(|limit: u64| limit < UNLIMITED);
                assert!(is_finite, "{name} is {limit}");
                limits += 1;
            }
        }
    }
    assert_eq!(limits, 2, "one of processes, one of memory");
    node.system
        .client
        .cancel(task.id)
        .await
        .expect("a task that runs");
    node.assert_clean().await;
}
