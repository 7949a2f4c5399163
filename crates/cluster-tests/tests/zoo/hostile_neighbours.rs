//! Each hostile program of the list in one slot, and a task with a known result in the other. What the program takes is
//! looked for on the whole machine, not only in its control group.
//!
//! Some want what has no figure here, so that only their neighbour is judged: `record_locks` (bounded by the reserve, see
//! guest/memory_reserve), `disk_flushes` (see `shared_disk`), `crashes` and `module_requests` (see guest/hostile_programs).

use std::time::Duration;

use api::Task;
use cluster_tests::{HostUsage, HostWatch, await_that};
use hostile::{HOSTILE, Hostile, SHORT_MEASURING};
use model::Status;

use crate::stage::{Zoo, executed};

const SOON: Duration = Duration::from_secs(30);
/// How long a program goes on that no limit ends.
const ATTACK_SECONDS: u64 = 2;

/// How much more a machine may have given at the worst time. A task may take 128 MiB, and others work here too. Without
/// the walls against them, programs took 510 MiB of slab by access control lists, 530 MiB by options of sockets, 210 MiB
/// by memory policies, 2.2 GiB in sockets, and 400,000 open files.
const PEAK: HostUsage = HostUsage {
    memory_bytes: 1 << 30,
    slab_bytes: 200 << 20,
    fixed_slab_bytes: 200 << 20,
    // With cgroup v2 they count as memory of the task.
    socket_bytes: 160 << 20,
    open_files: 100_000,
    processes: 1500,
};

/// How much more there may be a while after the program. Caches are kept that can be given up.
const LEFT: HostUsage = HostUsage {
    memory_bytes: 1 << 30,
    slab_bytes: 200 << 20,
    fixed_slab_bytes: 100 << 20,
    socket_bytes: 16 << 20,
    open_files: 10_000,
    processes: 400,
};

#[tokio::test]
async fn a_neighbour_is_right_beside_every_hostile_program() {
    let zoo = Zoo::open().await;
    for hostile in HOSTILE {
        let name = hostile.name;
        let watch = HostWatch::start();
        let before = watch.before();
        let ended = run_beside(&zoo, hostile).await;
        let peak = watch.end();
        assert!(peak.is_within(&bound(hostile)), "{name} took {peak:#?}");
        judge(hostile, ended);
        await_that(&format!("what {name} took to be given back"), SOON, async || {
            let left = HostUsage::read().over(&before);
            left.is_within(&LEFT).then_some(())
        })
        .await;
    }
    zoo.look_around().await;
}

fn bound(hostile: Hostile) -> HostUsage {
    HostUsage {
        open_files: hostile.files_by_memory.unwrap_or(PEAK.open_files),
        ..PEAK
    }
}

/// The program to its end, and a measuring task meanwhile.
async fn run_beside(zoo: &Zoo, hostile: Hostile) -> Task {
    let (name, system) = (hostile.name, &zoo.system);
    let attack = system.add(hostile.task(ATTACK_SECONDS)).await;
    await_that(&format!("{name} to run"), SOON, async || {
        let task = system.client.get(attack.id, None).await.ok()?;
        (task.done || task.status == Status::Running).then_some(())
    })
    .await;
    let measuring = system.run(SHORT_MEASURING.task()).await;
    assert_eq!(
        (measuring.status, measuring.attempt),
        (Status::Success, 1),
        "beside {name}: {measuring:?}"
    );
    assert_eq!(executed(measuring).stdout, SHORT_MEASURING.right, "beside {name}");
    let stats = system.client.stats().await.expect("an answer of the gateway");
    assert_eq!(stats.executors, 1, "beside {name}: {stats:?}");
    system.done(attack.id).await
}

/// It has an outcome of its own, and no trouble of ours; and where it is refused what it wants, it was.
fn judge(hostile: Hostile, ended: Task) {
    let name = hostile.name;
    assert_eq!(ended.attempt, 1, "{name}: {ended:?}");
    assert!(
        matches!(ended.status, Status::Success | Status::RunFailed),
        "{name}: {ended:?}"
    );
    let outcome = executed(ended);
    if let Some(refused) = hostile.refused {
        assert_eq!(outcome.stdout, refused, "{name}: {outcome:?}");
    }
}
