use std::time::Instant;

use cluster_tests::wait_until;
use model::TaskStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{
    FaultHarness, MEDIUM_LEASE, MEDIUM_LEASE_FLAGS, SHORT_LEASE, SHORT_LEASE_FLAGS, SOON, output,
};

/// The wardens stop the tasks of an executor that is itself stopped.
#[tokio::test]
async fn tasks_of_a_paused_executor_end_before_another_executor_starts_them() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&SHORT_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("first", &SHORT_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    let run = harness.wait_for_runs(id, 1).await.remove(0);
    let session = harness.executor("first").await.unwrap().session;
    let _second = system.executor("second", &SHORT_LEASE_FLAGS).unwrap();
    first.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    harness.wait_until_gone(&run).await;
    println!("its wardens stopped the task after {:?}", stopped.elapsed());
    harness.wait_for_runs(id, 2).await;
    println!("another executor runs it after {:?}", stopped.elapsed());
    first.signal(Signal::SIGCONT);
    harness.wait_for_other_session("first", &session).await;
    let (task, runs) = harness.finish(id).await;
    assert!(task.attempt as usize >= runs.len(), "{task:?}");
    for name in ["first", "second"] {
        system.leftovers_at(name).wait_until_clean().await;
    }
}

/// The executor continues with a result, but the task belongs to another executor by then.
#[tokio::test]
async fn a_result_of_an_ended_session_is_not_accepted() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let with_one_slot = [&MEDIUM_LEASE_FLAGS[..], &["--slots", "1"]].concat();
    let _judicator = system.judicator(&MEDIUM_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("first", &with_one_slot).unwrap();
    let id = system.add(harness.waiting_twice()).await.id;
    harness.wait_for_runs(id, 1).await;
    let session = harness.executor("first").await.unwrap().session;
    first.signal(Signal::SIGSTOP);
    harness.open("first_gate");
    wait_until("the first run to end", SOON, async || {
        harness.history.runs_of(id)[0].end
    })
    .await;

    let _second = system.executor("second", &with_one_slot).unwrap();
    harness.wait_for_runs(id, 2).await;
    first.signal(Signal::SIGCONT);
    harness.wait_for_other_session("first", &session).await;
    // Only the first executor has a free slot, and it reports results in the order of task ids. So the old result has been
    // answered when this task is done.
    let later = system.run(harness.short_task()).await;
    assert_eq!(later.status, TaskStatus::Success);
    let task = harness.get(id).await;
    assert_eq!((task.done, task.result), (false, None));
    let (_, runs) = harness.finish(id).await;
    assert!(runs[0].end.is_some() && runs.len() >= 2, "{runs:?}");
    for name in ["first", "second"] {
        system.leftovers_at(name).wait_until_clean().await;
    }
}

/// Simulates a paused virtual machine. When it continues, the task continues for a moment, too, until the executor notices how
/// much time has passed.
#[tokio::test]
async fn the_result_of_a_task_on_a_paused_machine_is_not_accepted() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let with_one_slot = [&SHORT_LEASE_FLAGS[..], &["--slots", "1"]].concat();
    let _judicator = system.judicator(&SHORT_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let first = system.executor("first", &with_one_slot).unwrap();
    let id = system.add(harness.waiting_twice()).await.id;
    let run = harness.wait_for_runs(id, 1).await.remove(0);
    let session = harness.executor("first").await.unwrap().session;
    let machine = process_tree(first.pid());
    machine.iter().for_each(|pid| {
        let _ = kill(*pid, Signal::SIGSTOP);
    });
    let _second = system.executor("second", &with_one_slot).unwrap();
    harness.wait_for_runs(id, 2).await;
    assert!(
        harness.history.alive().contains(&run.pid),
        "it should be paused, not killed"
    );

    harness.open("first_gate");
    // Descendants first, so that the task can finish before its executor reacts.
    machine.iter().rev().for_each(|pid| {
        let _ = kill(*pid, Signal::SIGCONT);
    });
    harness.wait_for_other_session("first", &session).await;
    harness.wait_until_gone(&run).await;
    // Only the first executor has a free slot, so the result of the old run has been answered when this task is done.
    assert_eq!(system.run(harness.short_task()).await.status, TaskStatus::Success);
    assert_eq!(harness.get(id).await.result, None);
    harness.open("gate");
    let task = system.done(id).await;
    let last = harness.history.runs_of(id).pop().unwrap();
    assert_eq!(
        (task.status, output(&task)),
        (TaskStatus::Success, &format!("{}\n", last.pid)[..])
    );
    assert_ne!(last.pid, run.pid);
    for name in ["first", "second"] {
        system.leftovers_at(name).wait_until_clean().await;
    }
}

/// A process and its descendants, parents first. Any of them may end meanwhile.
fn process_tree(root: i32) -> Vec<Pid> {
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

/// A judicator that was paused received no reports, and must not take that for silence of the executor.
#[tokio::test]
async fn a_paused_judicator_expires_no_session() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let judicator = system.judicator(&MEDIUM_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let with_two_slots = [&MEDIUM_LEASE_FLAGS[..], &["--slots", "2"]].concat();
    let _executor = system.executor("e", &with_two_slots).unwrap();
    let short = system.add(harness.waiting_twice()).await.id;
    harness.wait_for_runs(short, 1).await;
    let long = harness.add_waiting().await;
    let run = harness.wait_for_runs(long, 1).await.remove(0);
    let session = harness.executor("e").await.unwrap().session;

    judicator.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    harness.open("first_gate");
    // One task ends in time; the other is stopped when the executor had no contact for too long.
    harness.wait_until_gone(&run).await;
    tokio::time::sleep((MEDIUM_LEASE * 5 / 4).saturating_sub(stopped.elapsed())).await;
    judicator.signal(Signal::SIGCONT);
    let continued = Instant::now();

    let (task, runs) = harness.finish(short).await;
    println!(
        "the result is taken {:?} after the end of the pause",
        continued.elapsed()
    );
    assert_eq!((task.attempt, runs.len()), (1, 1));
    let (_, runs) = harness.finish(long).await;
    assert!(runs.len() > 1, "{runs:?}");
    assert_eq!(harness.executor("e").await.unwrap().session, session);
    assert!(!judicator.log().contains("session expired"));
    system.leftovers_at("e").wait_until_clean().await;
}

/// Simulates a pause of the whole machine. The judicator stops last and continues first; the silence that it observes before and
/// after is shorter than the lease.
#[tokio::test]
async fn a_pause_of_judicator_and_executor_expires_no_session() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let judicator = system.judicator(&MEDIUM_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &MEDIUM_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    let run = harness.wait_for_runs(id, 1).await.remove(0);
    let session = harness.executor("e").await.unwrap().session;
    executor.signal(Signal::SIGSTOP);
    // Time for the judicator to observe the sessions.
    tokio::time::sleep(MEDIUM_LEASE / 4).await;
    judicator.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    harness.wait_until_gone(&run).await;
    tokio::time::sleep((MEDIUM_LEASE * 5 / 4).saturating_sub(stopped.elapsed())).await;
    judicator.signal(Signal::SIGCONT);
    tokio::time::sleep(MEDIUM_LEASE / 4).await;
    executor.signal(Signal::SIGCONT);
    harness.wait_for_runs(id, 2).await;
    harness.finish(id).await;
    assert_eq!(harness.executor("e").await.unwrap().session, session);
    assert!(!judicator.log().contains("session expired"));
    system.leftovers_at("e").wait_until_clean().await;
}

/// Simulates a suspended laptop.
#[tokio::test]
async fn a_single_node_that_was_paused_continues() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let flags = [&SHORT_LEASE_FLAGS[..], &["--name", "home"]].concat();
    let up = system.up(&flags).unwrap();
    let id = harness.add_waiting().await;
    let run = harness.wait_for_runs(id, 1).await.remove(0);
    let session = harness.executor("home").await.unwrap().session;
    up.signal(Signal::SIGSTOP);
    let stopped = Instant::now();
    harness.wait_until_gone(&run).await;
    tokio::time::sleep((SHORT_LEASE * 3 / 2).saturating_sub(stopped.elapsed())).await;
    up.signal(Signal::SIGCONT);
    let continued = Instant::now();
    harness.wait_for_runs(id, 2).await;
    println!("the task runs again {:?} after the pause", continued.elapsed());
    harness.finish(id).await;
    assert_eq!(harness.executor("home").await.unwrap().session, session);
    assert!(!up.log().contains("session expired"));
    system.leftovers().wait_until_clean().await;
}
