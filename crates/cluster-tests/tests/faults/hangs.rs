//! What hangs for ever holds neither its task nor, where that can be helped, its slot.

use std::time::{Duration, Instant};

use api::Task;
use cluster_tests::{HangingMount, LoopDisk, await_that, groups_beneath, groups_named, shell};
use model::Status;
use nix::sys::signal::{Signal, kill};

use crate::stage::{FAIR, FAIR_LEASE, LONG_LEASE, SOON, Stage};
use crate::warden_dies::warden_of;

/// Short, but not so short that a busy machine's pause is taken for a slot that hangs.
const SHORT_STALL: [&str; 2] = ["--set", "executor.stall=6s"];

/// A warden that is stopped keeps no limit and answers nobody, as one that hangs in the kernel.
#[tokio::test]
async fn a_task_whose_warden_hangs_is_run_again_after_its_limit_and_a_margin() {
    let stage = Stage::new();
    let args = [&LONG_LEASE[..], &SHORT_STALL, &["--slots", "1"]].concat();
    let up = stage.system.up(&args).unwrap();
    let mut task = stage.waiting_twice();
    task["execute"]["limits"]["wall"] = "15s".into();
    let id = stage.system.add(task).await.id;
    let first = stage.runs(id, 1).await.remove(0);
    kill(warden_of(first.pid), Signal::SIGSTOP).unwrap();
    let hung = Instant::now();
    stage.open("gate");
    let task = stage.system.done(id).await;
    println!("the task was done {:?} after its warden hung", hung.elapsed());
    assert_eq!((task.status, task.attempt), (Status::Success, 2), "{task:?}");
    stage.history.assert_no_overlap();
    let log = up.log();
    assert!(log.contains("did not end the command within"), "{log}");
    // Its only slot has another warden.
    assert_eq!(stage.system.run(stage.quick()).await.status, Status::Success);
    assert!(!up.log().contains("out of service"));
    stage.system.remains().await_none().await;
}

/// Nothing can be written to the executor's disk, and what tries hangs in the kernel.
#[tokio::test]
async fn a_disk_that_hangs_ends_no_running_task_and_holds_no_other() {
    let stage = Stage::new();
    let system = &stage.system;
    let disk = LoopDisk::mount(&stage.path("e"));
    let args = [&FAIR_LEASE[..], &SHORT_STALL, &["--slots", "1"]].concat();
    let _judicator = system.judicator(&FAIR_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &args).unwrap();
    let runs_on = stage.add_waiting().await;
    stage.runs(runs_on, 1).await;
    let before = stage.executor("e").await.unwrap();
    disk.freeze();
    let frozen = Instant::now();
    await_that("reports for longer than a lease", SOON, async || {
        let now = stage.executor("e").await?;
        let long_enough = frozen.elapsed() > FAIR + Duration::from_secs(2);
        (long_enough && now.report_time > before.report_time && now.health == before.health).then_some(())
    })
    .await;
    // Its result is told although it cannot be written.
    let (task, runs) = stage.finish(runs_on).await;
    assert_eq!((task.attempt, runs.len()), (1, 1));
    assert_eq!(stage.executor("e").await.unwrap().session, before.session);

    let held = system.add(stage.quick()).await.id;
    await_that("the slot to be given up", SOON, async || {
        executor
            .log()
            .contains("out of service until it goes on")
            .then_some(())
    })
    .await;
    let other = system.executor("other", &args).unwrap();
    let Task { status, attempt, .. } = system.done(held).await;
    assert_eq!((status, attempt), (Status::Success, 2));
    other.kill();

    disk.thaw();
    await_that("the slot to be back", SOON, async || {
        executor
            .log()
            .contains("a slot that was given up goes on")
            .then_some(())
    })
    .await;
    assert_eq!(stage.executor("e").await.unwrap().session, before.session);
    let task = system.run(shell("echo $$")).await;
    assert_eq!((task.status, task.attempt), (Status::Success, 1), "{task:?}");
    stage.history.assert_no_overlap();
    system.remains_at("e").await_none().await;
}

/// The store cannot commit a report for longer than a lease. Nobody else can be given the task meanwhile.
#[tokio::test]
async fn up_lets_its_tasks_go_on_while_its_own_disk_hangs() {
    let stage = Stage::new();
    let disk = LoopDisk::mount(&stage.system.data());
    let up = stage.system.up(&FAIR_LEASE).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    disk.freeze();
    let frozen = Instant::now();
    await_that("a lease to be over", SOON, async || {
        (frozen.elapsed() > FAIR + Duration::from_secs(3)).then_some(())
    })
    .await;
    let (log, alive) = (up.log(), stage.history.alive());
    // Before anything can fail: a node that waits for a frozen disk cannot be ended.
    disk.thaw();
    assert!(!alive.is_empty(), "the task was stopped");
    assert!(log.contains("the store does not answer"), "{log}");
    let (task, runs) = stage.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (1, 1), "{task:?}");
    assert!(!up.log().contains("session is over"));
    stage.system.remains().await_none().await;
}

/// The states of the processes that were sent SIGKILL and cannot die.
fn states(stage: &Stage) -> Vec<String> {
    let processes = stage.system.remains().processes();
    let state = |process: &String| {
        let path = process.split(':').next().unwrap_or_default();
        let status = std::fs::read_to_string(format!("{path}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("State:"));
        line.unwrap_or_default().trim().to_string()
    };
    processes.iter().map(state).collect()
}

fn assert_hanging(stage: &Stage, count: usize) {
    let states = states(stage);
    let hanging = states.iter().filter(|state| state.starts_with('D')).count();
    assert_eq!(hanging, count, "{states:?}");
}

/// In state D, where not even SIGKILL ends a process.
#[tokio::test]
async fn a_node_starts_although_a_killed_process_hangs_in_the_kernel() {
    let stage = Stage::new();
    let mount = HangingMount::mount(&stage.path("hanging"));
    let args = [&LONG_LEASE[..], &SHORT_STALL, &["--slots", "1"]].concat();
    let up = stage.system.up(&args).unwrap();
    let [once, file] = [stage.path("once"), mount.file()].map(|path| path.display().to_string());
    let mut hanging = shell(&format!("mkdir {once} && exec cat {file}; echo well"));
    hanging["execute"]["limits"]["wall"] = "2s".into();
    let id = stage.system.add(hanging).await.id;
    await_that("the warden of the attempt to be killed", SOON, async || {
        up.log().contains("its warden was killed").then_some(())
    })
    .await;
    up.kill();

    let up = stage.system.up(&args).unwrap();
    assert_hanging(&stage, 1);
    assert!(up.log().contains("hang in the kernel"), "{}", up.log());
    let task = stage.system.done(id).await;
    assert_eq!((task.status, task.attempt), (Status::Success, 2), "{task:?}");
    drop(mount);
    stage.system.remains().await_none().await;
}

/// The processes of a cell that cannot die keep its control group.
#[tokio::test]
async fn attempts_that_hang_in_the_kernel_take_no_cell_from_others() {
    let stage = Stage::new();
    let mount = HangingMount::mount(&stage.path("hanging"));
    let bind = format!("sandbox.binds={}:/hanging", stage.path("hanging").display());
    let cells = ["--isolation", "cell", "--slots", "1", "--set", &bind];
    let args = [&LONG_LEASE[..], &SHORT_STALL, &cells].concat();
    let mut up = stage.system.up(&args).unwrap();
    let mut hanging = shell("exec cat /hanging/file");
    hanging["execute"]["limits"]["wall"] = "2s".into();
    // Each has three attempts.
    let task = stage.system.run(hanging).await;
    assert_eq!((task.status, task.attempt), (Status::SystemError, 3), "{task:?}");
    assert_hanging(&stage, 3);
    let task = stage.system.run(shell("echo well")).await;
    assert_eq!((task.status, task.attempt), (Status::Success, 1), "{task:?}");
    assert!(!up.log().contains("out of service"), "{}", up.log());

    up.signal(Signal::SIGTERM);
    up.ended(SOON).await;
    let up = stage.system.up(&args).unwrap();
    assert_hanging(&stage, 3);
    let task = stage.system.run(shell("echo well")).await;
    assert_eq!((task.status, task.attempt), (Status::Success, 1), "{task:?}");

    let groups = || groups_of(&stage);
    assert!(
        groups().iter().any(|group| group.ends_with("slot-0.2")),
        "{:?}",
        groups()
    );
    drop(mount);
    stage.system.remains().await_none().await;
    up.kill();
    // The next life finds them empty.
    let mut up = stage.system.up(&args).unwrap();
    assert!(
        !groups().iter().any(|group| group.ends_with("slot-0.2")),
        "{:?}",
        groups()
    );
    up.signal(Signal::SIGTERM);
    up.ended(SOON).await;
    assert_eq!(groups(), Vec::<std::path::PathBuf>::new());
}

/// The control groups of the node's cells.
fn groups_of(stage: &Stage) -> Vec<std::path::PathBuf> {
    let id = std::fs::read_to_string(stage.system.data().join("executor/id")).unwrap();
    let name = format!("conclave-{}", id.trim());
    let places = groups_named(|group| group == name);
    places.iter().flat_map(|place| groups_beneath(place)).collect()
}
