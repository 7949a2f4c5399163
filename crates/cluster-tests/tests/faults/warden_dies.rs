use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stage::{LONG_LEASE, Stage};

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
    let stage = Stage::new();
    let up = stage.system.up(&LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    let pid = stage.runs(id, 1).await[0].pid;
    kill(warden_of(pid), Signal::SIGKILL).unwrap();
    let runs = stage.runs(id, 2).await;
    let alive = stage.history.alive();
    assert!(runs[0].pids.iter().all(|pid| !alive.contains(pid)), "{alive:?}");
    let (task, runs) = stage.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (2, 2));
    stage.system.remains().await_none().await;
    up.kill();
    stage.system.remains().await_nobody().await;
}

/// Nobody is left who knows of the children but the next life of the executor.
#[tokio::test]
async fn strays_of_a_dead_executor_and_its_dead_wardens_end_before_the_next_run() {
    let stage = Stage::new();
    let up = stage.system.up(&LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    let first = stage.runs(id, 1).await.remove(0);
    let warden = warden_of(first.pid);
    // Stopped first, so that it does not clear up when the executor goes.
    kill(warden, Signal::SIGSTOP).unwrap();
    up.kill();
    kill(warden, Signal::SIGKILL).unwrap();
    let alive = stage.history.alive();
    assert!(!alive.is_empty(), "the child was to outlive its warden");

    let up = stage.system.up(&LONG_LEASE).unwrap();
    stage.runs(id, 2).await;
    let alive = stage.history.alive();
    assert!(first.pids.iter().all(|pid| !alive.contains(pid)), "{alive:?}");
    assert!(
        up.log()
            .contains("ended processes that an earlier executor left behind")
    );
    let (task, runs) = stage.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (2, 2));
    stage.system.remains().await_none().await;
}
