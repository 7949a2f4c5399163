use std::time::Instant;

use cluster_tests::Node;
use model::Status;

use crate::stage::{FAIR_LEASE, LONG_LEASE, Stage};

/// The next life on the same folder knows that the old one is over: nobody waits for a lease, which is so long
/// here that the test would not live to see its end.
#[tokio::test]
async fn all_children_die_with_it_and_its_successor_runs_the_task_again() {
    let stage = Stage::new();
    let system = &stage.system;
    let _judicator = system.judicator(&LONG_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let executor = system.executor("e", &LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    executor.kill();
    let killed = Instant::now();
    stage.nobody_alive().await;
    println!("its processes are gone after {:?}", killed.elapsed());
    let _executor = system.executor("e", &LONG_LEASE).unwrap();
    stage.runs(id, 2).await;
    println!("the task runs again after {:?}", killed.elapsed());
    let (task, runs) = stage.finish(id).await;
    assert_eq!((task.attempt, runs.len()), (2, 2));
    system.remains_at("e").await_none().await;
}

/// Gone for good the first time, data folder and all; then started anew and killed again. The third time is too
/// much.
#[tokio::test]
async fn a_task_goes_to_another_executor_but_not_for_ever() {
    let stage = Stage::new();
    let system = &stage.system;
    let _judicator = system.judicator(&FAIR_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let start = |name| -> Node { system.executor(name, &FAIR_LEASE).unwrap() };
    let first = start("first");
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    first.kill();
    let killed = Instant::now();
    std::fs::remove_dir_all(stage.path("first")).unwrap();

    let second = start("second");
    stage.runs(id, 2).await;
    println!("another executor runs it after {:?}", killed.elapsed());
    let running = stage.status(id, Status::Running).await;
    assert_eq!(running.attempt, 2);
    assert!(running.trouble.unwrap().contains("first was not heard of"));
    assert_eq!(stage.executor("first").await.unwrap().health, "gone");

    second.kill();
    let second = start("second");
    stage.runs(id, 3).await;
    assert_eq!(stage.status(id, Status::Running).await.attempt, 3);
    second.kill();
    let _second = start("second");
    let task = system.done(id).await;
    assert_eq!((task.status, task.attempt), (Status::SystemError, 3));
    assert_eq!(task.result, None);
    let trouble = task.trouble.unwrap();
    assert!(
        trouble.contains("lost 3 times: its executor was killed"),
        "{trouble}"
    );

    // It took nobody with it.
    let next = system.run(stage.quick()).await;
    assert_eq!((next.status, next.attempt), (Status::Success, 1));
    assert_eq!(stage.history.runs_of(id).len(), 3);
    stage.history.assert_no_overlap();
    stage.nobody_alive().await;
    system.remains_at("second").await_none().await;
}
