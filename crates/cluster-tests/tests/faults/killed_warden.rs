use model::{TaskId, TaskStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS};

/// The parent of a run's first process.
pub(crate) fn warden_of(pid: i32) -> Pid {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let parent: i32 = parent.unwrap().trim().parse().unwrap();
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
    assert_eq!(name.trim(), "conclave-warden");
    Pid::from_raw(parent)
}

#[tokio::test]
async fn a_task_whose_warden_is_killed_is_run_again() {
    let harness = FaultHarness::new();
    let up = harness.system.up(&LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    let pid = harness.wait_for_runs(id, 1).await[0].pid;
    kill(warden_of(pid), Signal::SIGKILL).unwrap();
    let runs = harness.wait_for_runs(id, 2).await;
    let alive = harness.history.alive();
    assert!(runs[0].pids.iter().all(|pid| !alive.contains(pid)), "{alive:?}");
    let (task, runs) = harness.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (2, 2));
    harness.system.leftovers().wait_until_clean().await;
    up.kill();
    harness.system.leftovers().wait_until_unused().await;
}

/// Kills the warden of each of the task's next runs.
async fn kill_wardens(harness: &FaultHarness, id: TaskId, runs: usize) {
    for run in 1..=runs {
        let pid = harness.wait_for_runs(id, run).await[run - 1].pid;
        kill(warden_of(pid), Signal::SIGKILL).unwrap();
    }
}

/// More often than a task may lose attempts by its own fault.
#[tokio::test]
async fn killed_wardens_use_up_no_attempts() {
    let harness = FaultHarness::new();
    let _up = harness.system.up(&LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    kill_wardens(&harness, id, 5).await;
    harness.wait_for_runs(id, 6).await;
    let (task, runs) = harness.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (6, 6));
}

/// Takes almost a minute, because the pauses between attempts grow.
#[tokio::test]
async fn a_task_whose_every_warden_is_killed_ends_with_the_reason() {
    let harness = FaultHarness::new();
    let _up = harness.system.up(&LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    kill_wardens(&harness, id, 10).await;
    let task = harness.system.done(id).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::SystemError, 10));
    assert_eq!(task.result, None);
    let trouble = task.trouble.unwrap();
    assert!(
        trouble.starts_with("the platform failed to run it 10 times: "),
        "{trouble}"
    );
    harness.history.assert_no_overlap();
    harness.wait_until_all_gone().await;
}

/// Only the next session of the executor can find the children.
#[tokio::test]
async fn orphans_of_a_killed_executor_and_warden_are_killed_before_the_next_run() {
    let harness = FaultHarness::new();
    let up = harness.system.up(&LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    let first = harness.wait_for_runs(id, 1).await.remove(0);
    let warden = warden_of(first.pid);
    // Stopped first, so that it does not clean up when the executor ends.
    kill(warden, Signal::SIGSTOP).unwrap();
    up.kill();
    kill(warden, Signal::SIGKILL).unwrap();
    let alive = harness.history.alive();
    assert!(!alive.is_empty(), "the child should survive its warden");

    let up = harness.system.up(&LONG_LEASE_FLAGS).unwrap();
    harness.wait_for_runs(id, 2).await;
    let alive = harness.history.alive();
    assert!(first.pids.iter().all(|pid| !alive.contains(pid)), "{alive:?}");
    assert!(
        up.log()
            .contains("killed processes that an earlier executor left behind")
    );
    let (task, runs) = harness.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (2, 2));
    harness.system.leftovers().wait_until_clean().await;
}
