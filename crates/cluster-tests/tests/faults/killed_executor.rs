use std::time::Instant;

use cluster_tests::NodeProcess;
use model::{RecordedEnd, TaskStatus};

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, MEDIUM_LEASE_FLAGS};

/// The next session on the same data folder succeeds the old one at once. The lease is longer than the test.
#[tokio::test]
async fn children_of_a_killed_executor_die_and_the_next_session_reruns_the_task() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    executor.kill();
    let killed = Instant::now();
    harness.wait_until_all_gone().await;
    println!("its processes are gone after {:?}", killed.elapsed());
    let _executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    harness.wait_for_runs(id, 2).await;
    println!("the task runs again after {:?}", killed.elapsed());
    let (task, runs) = harness.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (2, 2));
    system.leftovers_at("e").wait_until_clean().await;
}

/// The first executor is lost with its data folder, the second is killed twice. After the third loss the task ends.
#[tokio::test]
async fn a_task_whose_executors_are_killed_ends_after_three_attempts() {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let _judicator = system.judicator(&MEDIUM_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let start = |name| -> NodeProcess { system.executor(name, &MEDIUM_LEASE_FLAGS).unwrap() };
    let first = start("first");
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    first.kill();
    let killed = Instant::now();
    std::fs::remove_dir_all(harness.path("first")).unwrap();

    let second = start("second");
    harness.wait_for_runs(id, 2).await;
    println!("another executor runs it after {:?}", killed.elapsed());
    let running = harness.wait_for_status(id, TaskStatus::Running).await;
    assert_eq!(running.attempt, 2);
    assert!(running.trouble.unwrap().contains("first stopped reporting"));
    assert_eq!(harness.executor("first").await.unwrap().health, "gone");

    second.kill();
    let second = start("second");
    harness.wait_for_runs(id, 3).await;
    assert_eq!(harness.wait_for_status(id, TaskStatus::Running).await.attempt, 3);
    second.kill();
    let _second = start("second");
    let task = system.done(id).await;
    assert_eq!((task.status, task.attempt), (TaskStatus::SystemError, 3));
    assert_eq!(task.result, None);
    // The first went silent. The loss of the others was reported by their next session.
    let ends: Vec<_> = task.ran_on.iter().filter_map(|attempt| attempt.end).collect();
    assert_eq!(ends, [RecordedEnd::Lost; 3], "{:?}", task.ran_on);
    let executors: Vec<_> = task
        .ran_on
        .iter()
        .map(|attempt| attempt.executor.as_str())
        .collect();
    assert_eq!(executors, ["first", "second", "second"]);
    let trouble = task.trouble.unwrap();
    assert!(
        trouble.contains("lost 3 times: its executor was killed"),
        "{trouble}"
    );

    // Other tasks are not affected.
    let next = system.run(harness.short_task()).await;
    assert_eq!((next.status, next.attempt), (TaskStatus::Success, 1));
    assert_eq!(harness.history.runs_of(id).len(), 3);
    harness.history.assert_no_overlap();
    harness.wait_until_all_gone().await;
    system.leftovers_at("second").wait_until_clean().await;
}
