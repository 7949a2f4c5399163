use model::{Status, TaskId};
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

/// Kills the warden of each of the task's next runs.
async fn kill_wardens(stage: &Stage, id: TaskId, runs: usize) {
    for run in 1..=runs {
        let pid = stage.runs(id, run).await[run - 1].pid;
        kill(warden_of(pid), Signal::SIGKILL).unwrap();
    }
}

/// More often than a task may be lost by its own fault.
#[tokio::test]
async fn wardens_that_are_killed_use_up_no_attempts() {
    let stage = Stage::new();
    let _up = stage.system.up(&LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    kill_wardens(&stage, id, 5).await;
    stage.runs(id, 6).await;
    let (task, runs) = stage.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (6, 6));
}

/// It takes the best part of a minute, as the pauses between the attempts grow.
#[tokio::test]
async fn a_task_whose_every_warden_is_killed_ends_and_says_why() {
    let stage = Stage::new();
    let _up = stage.system.up(&LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    kill_wardens(&stage, id, 10).await;
    let task = stage.system.done(id).await;
    assert_eq!((task.status, task.attempt), (Status::SystemError, 10));
    assert_eq!(task.result, None);
    let trouble = task.trouble.unwrap();
    assert!(
        trouble.starts_with("the platform failed to run it 10 times: "),
        "{trouble}"
    );
    stage.history.assert_no_overlap();
    stage.nobody_alive().await;
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
