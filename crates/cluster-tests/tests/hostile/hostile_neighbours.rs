//! Runs each hostile program in one slot and a task with a known result in the other, and measures the usage of the whole
//! machine, not only of the control group.
//!
//! For some programs no counter of the machine exists, so only the neighbour is checked: `record_locks` (bounded by the reserve, see
//! guest/memory_reserve), `disk_flushes` (see `shared_disk`), `crashes` and `module_requests` (see guest/hostile_programs).

use std::time::Duration;

use api::Task;
use cluster_tests::{HostUsage, HostUsageMonitor, wait_until};
use hostile::{HOSTILE_TASKS, HostileTask, SHORT_MEASURING_TASK};
use model::TaskStatus;

use crate::harness::{HostileTestNode, executed};

const SOON: Duration = Duration::from_secs(30);
/// How long a program runs if no limit ends it.
const ATTACK_SECONDS: u64 = 2;

/// The largest allowed increase of the machine's usage. A task may use 128 MiB, and other programs run here, too. Without the
/// protections, programs used 510 MiB of slab by access control lists, 530 MiB by socket options, 210 MiB by memory policies,
/// 2.2 GiB in sockets, and 400,000 open files.
const PEAK: HostUsage = HostUsage {
    memory_bytes: 1 << 30,
    slab_bytes: 200 << 20,
    fixed_slab_bytes: 200 << 20,
    // With cgroup v2 they count as the task's memory.
    socket_bytes: 160 << 20,
    open_files: 100_000,
    processes: 1500,
};

/// The allowed increase some time after the program; reclaimable caches may remain.
const REMAINING: HostUsage = HostUsage {
    memory_bytes: 1 << 30,
    slab_bytes: 200 << 20,
    fixed_slab_bytes: 100 << 20,
    socket_bytes: 16 << 20,
    open_files: 10_000,
    processes: 400,
};

#[tokio::test]
async fn a_neighbour_is_correct_beside_every_hostile_program() {
    let node = HostileTestNode::start().await;
    for hostile in HOSTILE_TASKS {
        let name = hostile.name;
        let watch = HostUsageMonitor::start();
        let before = watch.before();
        let ended = run_beside(&node, hostile).await;
        let peak = watch.end();
        assert!(peak.is_within(&bound(hostile)), "{name} took {peak:#?}");
        assert_outcome(hostile, ended);
        wait_until(&format!("what {name} took to be given back"), SOON, async || {
            let left = HostUsage::read().increase_since(&before);
            left.is_within(&REMAINING).then_some(())
        })
        .await;
    }
    node.assert_clean().await;
}

fn bound(hostile: HostileTask) -> HostUsage {
    HostUsage {
        open_files: hostile.max_files_by_memory.unwrap_or(PEAK.open_files),
        ..PEAK
    }
}

/// Runs the program to its end, and a measuring task at the same time.
async fn run_beside(node: &HostileTestNode, hostile: HostileTask) -> Task {
    let (name, system) = (hostile.name, &node.system);
    let attack = system.add(hostile.task(ATTACK_SECONDS)).await;
    wait_until(&format!("{name} to run"), SOON, async || {
        let task = system.client.get(attack.id, None).await.ok()?;
        (task.done || task.status == TaskStatus::Running).then_some(())
    })
    .await;
    let measuring = system.run(SHORT_MEASURING_TASK.task()).await;
    assert_eq!(
        (measuring.status, measuring.attempt),
        (TaskStatus::Success, 1),
        "beside {name}: {measuring:?}"
    );
    assert_eq!(
        executed(measuring).stdout,
        SHORT_MEASURING_TASK.expected_output,
        "beside {name}"
    );
    let stats = system.client.stats().await.expect("an answer of the gateway");
    assert_eq!(stats.executors, 1, "beside {name}: {stats:?}");
    system.done(attack.id).await
}

/// Asserts that the program has an outcome without a platform failure, and that its calls were refused where expected.
fn assert_outcome(hostile: HostileTask, ended: Task) {
    let name = hostile.name;
    assert_eq!(ended.attempt, 1, "{name}: {ended:?}");
    assert!(
        matches!(ended.status, TaskStatus::Success | TaskStatus::RunFailed),
        "{name}: {ended:?}"
    );
    let outcome = executed(ended);
    if let Some(refused) = hostile.expected_refusal {
        assert_eq!(outcome.stdout, refused, "{name}: {outcome:?}");
    }
}
