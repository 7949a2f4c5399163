use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use cluster_tests::{await_that, shell};
use model::Status;
use nix::sys::signal::Signal;

use crate::stage::{LONG_LEASE, SOON, Stage, output};

#[derive(PartialEq)]
enum End {
    Killed,
    ToldToStop,
}

/// A task ends while there is no judicator to hear of it; then the executor ends too. Its next life has the
/// result, and nothing is run again.
async fn outlives(end: End) {
    let stage = Stage::new();
    let system = &stage.system;
    let judicator = system.judicator(&LONG_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let mut executor = system.executor("e", &LONG_LEASE).unwrap();
    let id = stage.add_waiting().await;
    stage.runs(id, 1).await;
    judicator.kill();
    stage.open("gate");
    let spool = system.remains_at("e").spool();
    await_that("the result to be in the spool", SOON, async || {
        (whole_results(&spool) == 1).then_some(())
    })
    .await;
    match end {
        End::Killed => executor.kill(),
        End::ToldToStop => {
            executor.signal(Signal::SIGTERM);
            assert!(executor.ended(SOON).await.success());
            assert!(executor.log().contains("results wait in the spool"));
        }
    }

    let begun = Instant::now();
    let _judicator = system.judicator(&LONG_LEASE).unwrap();
    let _executor = system.executor("e", &LONG_LEASE).unwrap();
    let task = system.done(id).await;
    println!("the result is there {:?} after the start", begun.elapsed());
    let runs = stage.history.runs_of(id);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((task.status, task.attempt), (Status::Success, 1));
    assert_eq!(output(&task), format!("{}\n", runs[0].pid));
    system.remains_at("e").await_none().await;
}

#[tokio::test]
async fn a_result_outlives_both_the_judicator_and_the_executor() {
    outlives(End::Killed).await;
}

#[tokio::test]
async fn a_result_waits_where_an_executor_was_stopped_without_a_judicator() {
    outlives(End::ToldToStop).await;
}

/// Together they are too large for the first report of the executor's next life.
#[tokio::test]
async fn many_large_results_outlive_both() {
    const TASKS: usize = 17;
    const BYTES: usize = 2 << 20;
    let stage = Stage::new();
    let system = &stage.system;
    let judicator = system.judicator(&LONG_LEASE).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let flags = [
        &LONG_LEASE[..],
        &["--slots", "17", "--set", "executor.keep_output=2MiB"],
    ]
    .concat();
    let executor = system.executor("e", &flags).unwrap();
    let work = format!(
        "until [ -e {} ]; do sleep 0.1; done; head -c {BYTES} /dev/zero | tr '\\0' x",
        stage.path("gate").display()
    );
    let mut ids = Vec::new();
    for _ in 0..TASKS {
        ids.push(system.add(shell(&stage.history.record(&work))).await.id);
    }
    await_that("all tasks to run", SOON, async || {
        (stage.history.runs().len() == ids.len()).then_some(())
    })
    .await;
    judicator.kill();
    stage.open("gate");
    let spool = system.remains_at("e").spool();
    await_that("all results to be in the spool", SOON, async || {
        (whole_results(&spool) == TASKS).then_some(())
    })
    .await;
    executor.kill();

    let _judicator = system.judicator(&LONG_LEASE).unwrap();
    let _executor = system.executor("e", &flags).unwrap();
    for id in ids {
        let task = system.done(id).await;
        assert_eq!((task.status, task.attempt), (Status::Success, 1));
        assert_eq!(output(&task).len(), BYTES);
        assert_eq!(stage.history.runs_of(id).len(), 1);
    }
    system.remains_at("e").await_none().await;
}

/// A large one is written bit by bit, and half of one is no result. Before each are its length, in four bytes, and a
/// checksum, in eight.
fn whole_results(spool: &Path) -> usize {
    let file = File::open(spool).expect("a spool");
    let written = file.metadata().expect("its length").len();
    let (mut whole, mut at) = (0, 0);
    let mut length = [0; 4];
    while file.read_exact_at(&mut length, at).is_ok() {
        at += 12 + u64::from(u32::from_le_bytes(length));
        if at > written {
            break;
        }
        whole += 1;
    }
    whole
}
