use std::time::Instant;

use cluster_tests::await_that;
use model::Status;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::stage::{FAIR, FAIR_LEASE, LEASE, SHORT_LEASE, SOON, Stage, output};

/// The executor cannot stop its tasks, since it stands still itself: its wardens do.
#[tokio::test]
async fn tasks_of_an_executor_that_stands_still_end_before_another_begins_them() {
    let stage = Stage::new();
    let system = &stage.system;
    let _judicator = system.judicator(&SHORT_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("first", &SHORT_LEASE).unwrap();
    let id = stage.add_waiting().await;
    let run = stage.runs(id, 1).await.remove(0);
    let session = stage.executor("first").await.unwrap().session;
    let _second = system.executor("second", &SHORT_LEASE).unwrap();
    first.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    stage.gone(&run).await;
    println!("its wardens stopped the task after {:?}", stopped.elapsed());
    stage.runs(id, 2).await;
    println!("another executor runs it after {:?}", stopped.elapsed());
    first.signal(Signal::SIGCONT);
    stage.another_session("first", &session).await;
    let (task, runs) = stage.finish(id).await;
    assert!(task.attempt as usize >= runs.len(), "{task:?}");
    for name in ["first", "second"] {
        system.remains_at(name).await_none().await;
    }
}

/// It comes back with a result, but the task is another's by then.
#[tokio::test]
async fn a_result_of_an_ended_session_is_not_accepted() {
    let stage = Stage::new();
    let system = &stage.system;
    let with_one_slot = [&FAIR_LEASE[..], &["--slots", "1"]].concat();
    let _judicator = system.judicator(&FAIR_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("first", &with_one_slot).unwrap();
    let id = system.add(stage.waiting_twice()).await.id;
    stage.runs(id, 1).await;
    let session = stage.executor("first").await.unwrap().session;
    first.signal(Signal::SIGSTOP);
    stage.open("first_gate");
    await_that("the first run to end well", SOON, async || {
        stage.history.runs_of(id)[0].end
    })
    .await;

    let _second = system.executor("second", &with_one_slot).unwrap();
    stage.runs(id, 2).await;
    first.signal(Signal::SIGCONT);
    stage.another_session("first", &session).await;
    // Only the first has a free slot, and it reports its results in the order of the tasks' ids: when this one
    // is done, the old result has been answered.
    let later = system.run(stage.quick()).await;
    assert_eq!(later.status, Status::Success);
    let task = stage.look(id).await;
    assert_eq!((task.done, task.result), (false, None));
    let (_, runs) = stage.finish(id).await;
    assert!(runs[0].end.is_some() && runs.len() >= 2, "{runs:?}");
    for name in ["first", "second"] {
        system.remains_at(name).await_none().await;
    }
}

/// As when a virtual machine is paused with all that runs on it. When it goes on, so does the task, for a moment:
/// nobody there knows yet how late it is.
#[tokio::test]
async fn a_task_on_a_machine_that_was_paused_comes_to_nothing() {
    let stage = Stage::new();
    let system = &stage.system;
    let with_one_slot = [&SHORT_LEASE[..], &["--slots", "1"]].concat();
    let _judicator = system.judicator(&SHORT_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("first", &with_one_slot).unwrap();
    let id = system.add(stage.waiting_twice()).await.id;
    let run = stage.runs(id, 1).await.remove(0);
    let session = stage.executor("first").await.unwrap().session;
    let machine = tree(first.pid());
    machine.iter().for_each(|pid| {
        let _ = kill(*pid, Signal::SIGSTOP);
    });
    let _second = system.executor("second", &with_one_slot).unwrap();
    stage.runs(id, 2).await;
    assert!(
        stage.history.alive().contains(&run.pid),
        "it was to be paused, not killed"
    );

    stage.open("first_gate");
    // Those that come last were there first to end: the task has the best chances.
    machine.iter().rev().for_each(|pid| {
        let _ = kill(*pid, Signal::SIGCONT);
    });
    stage.another_session("first", &session).await;
    stage.gone(&run).await;
    // Only the first has a free slot: when this one is done, whatever came of the old run has been answered.
    assert_eq!(system.run(stage.quick()).await.status, Status::Success);
    assert_eq!(stage.look(id).await.result, None);
    stage.open("gate");
    let task = system.done(id).await;
    let last = stage.history.runs_of(id).pop().unwrap();
    assert_eq!(
        (task.status, output(&task)),
        (Status::Success, &format!("{}\n", last.pid)[..])
    );
    assert_ne!(last.pid, run.pid);
    for name in ["first", "second"] {
        system.remains_at(name).await_none().await;
    }
}

/// A process and all that descend from it, parents first. Any of them may end meanwhile.
fn tree(root: i32) -> Vec<Pid> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let pids = children.split_whitespace().map(str::parse::<i32>);
            found.extend(pids.map(|pid| pid.expect("a pid")));
        }
        next += 1;
    }
    found.into_iter().map(Pid::from_raw).collect()
}

/// Whoever stood still himself has heard nobody, and must not take that for silence.
#[tokio::test]
async fn a_judicator_that_stands_still_expires_nobody() {
    let stage = Stage::new();
    let system = &stage.system;
    let judicator = system.judicator(&FAIR_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let with_two_slots = [&FAIR_LEASE[..], &["--slots", "2"]].concat();
    let _executor = system.executor("e", &with_two_slots).unwrap();
    let short = system.add(stage.waiting_twice()).await.id;
    stage.runs(short, 1).await;
    let long = stage.add_waiting().await;
    let run = stage.runs(long, 1).await.remove(0);
    let session = stage.executor("e").await.unwrap().session;

    judicator.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    stage.open("first_gate");
    // The one ends in time; the other goes on until the executor has been unheard for too long.
    stage.gone(&run).await;
    tokio::time::sleep((FAIR * 5 / 4).saturating_sub(stopped.elapsed())).await;
    judicator.signal(Signal::SIGCONT);
    let continued = Instant::now();

    let (task, runs) = stage.finish(short).await;
    println!(
        "the result is taken {:?} after the end of the pause",
        continued.elapsed()
    );
    assert_eq!((task.attempt, runs.len()), (1, 1));
    let (_, runs) = stage.finish(long).await;
    assert!(runs.len() > 1, "{runs:?}");
    assert_eq!(stage.executor("e").await.unwrap().session, session);
    assert!(!judicator.log().contains("went silent"));
    system.remains_at("e").await_none().await;
}

/// As when the machine under all of them is paused. The judicator is the last to stop and the first to go on; what
/// it hears of the silence, before and after, is less than the lease.
#[tokio::test]
async fn a_pause_of_everything_counts_for_nobody() {
    let stage = Stage::new();
    let system = &stage.system;
    let judicator = system.judicator(&FAIR_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &FAIR_LEASE).unwrap();
    let id = stage.add_waiting().await;
    let run = stage.runs(id, 1).await.remove(0);
    let session = stage.executor("e").await.unwrap().session;
    executor.signal(Signal::SIGSTOP);
    // Time to look at the sessions.
    tokio::time::sleep(FAIR / 4).await;
    judicator.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    stage.gone(&run).await;
    tokio::time::sleep((FAIR * 5 / 4).saturating_sub(stopped.elapsed())).await;
    judicator.signal(Signal::SIGCONT);
    tokio::time::sleep(FAIR / 4).await;
    executor.signal(Signal::SIGCONT);
    stage.runs(id, 2).await;
    stage.finish(id).await;
    assert_eq!(stage.executor("e").await.unwrap().session, session);
    assert!(!judicator.log().contains("went silent"));
    system.remains_at("e").await_none().await;
}

/// As when a laptop sleeps: all of it stands still, but time does not.
#[tokio::test]
async fn a_whole_system_that_stands_still_goes_on_where_it_was() {
    let stage = Stage::new();
    let system = &stage.system;
    let flags = [&SHORT_LEASE[..], &["--name", "home"]].concat();
    let up = system.up(&flags).unwrap();
    let id = stage.add_waiting().await;
    let run = stage.runs(id, 1).await.remove(0);
    let session = stage.executor("home").await.unwrap().session;
    up.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    stage.gone(&run).await;
    tokio::time::sleep((LEASE * 3 / 2).saturating_sub(stopped.elapsed())).await;
    up.signal(Signal::SIGCONT);
    let continued = Instant::now();
    stage.runs(id, 2).await;
    println!("the task runs again {:?} after the pause", continued.elapsed());
    stage.finish(id).await;
    assert_eq!(stage.executor("home").await.unwrap().session, session);
    assert!(!up.log().contains("went silent"));
    system.remains().await_none().await;
}
