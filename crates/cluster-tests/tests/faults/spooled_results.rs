use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use cluster_tests::{shell, wait_until};
use model::TaskStatus;
use nix::sys::signal::Signal;

use crate::harness::{FaultHarness, LONG_LEASE_FLAGS, SOON, output};

/// How a test ends the executor that holds a result which no judicator has received.
#[derive(PartialEq)]
enum ExecutorEnd {
    Killed,
    Stopped,
}

/// A task ends while no judicator runs; then the executor ends too. Its next session reports the spooled result, and the task
/// is not run again.
async fn assert_result_survives(end: ExecutorEnd) {
    let harness = FaultHarness::new();
    let system = &harness.system;
    let judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let mut executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let id = harness.add_waiting().await;
    harness.wait_for_runs(id, 1).await;
    judicator.kill();
    harness.open("gate");
    let spool = system.leftovers_at("e").spool();
    wait_until("the result to be in the spool", SOON, async || {
        (complete_results(&spool) == 1).then_some(())
    })
    .await;
    match end {
        ExecutorEnd::Killed => executor.kill(),
        ExecutorEnd::Stopped => {
            executor.signal(Signal::SIGTERM);
            assert!(executor.wait_for_end(SOON).await.success());
            assert!(executor.log().contains("results stay in the spool"));
        }
    }

    let begun = Instant::now();
    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _executor = system.executor("e", &LONG_LEASE_FLAGS).unwrap();
    let task = system.done(id).await;
    println!("the result is there {:?} after the start", begun.elapsed());
    let runs = harness.history.runs_of(id);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1));
    assert_eq!(output(&task), format!("{}\n", runs[0].pid));
    system.leftovers_at("e").wait_until_clean().await;
}

#[tokio::test]
async fn a_result_survives_kills_of_judicator_and_executor() {
    assert_result_survives(ExecutorEnd::Killed).await;
}

#[tokio::test]
async fn a_result_survives_a_stop_of_the_executor_without_a_judicator() {
    assert_result_survives(ExecutorEnd::Stopped).await;
}

/// Together the results are too large for one report.
#[tokio::test]
async fn many_large_results_survive_kills_of_judicator_and_executor() {
    const TASKS: usize = 17;
    const BYTES: usize = 2 << 20;
    let harness = FaultHarness::new();
    let system = &harness.system;
    let judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _gateway = system.gateway(&[]).unwrap();
    let flags = [
        &LONG_LEASE_FLAGS[..],
        &["--slots", "17", "--set", "executor.keep_output=2MiB"],
    ]
    .concat();
    let executor = system.executor("e", &flags).unwrap();
    let work = format!(
        "until [ -e {} ]; do sleep 0.1; done; head -c {BYTES} /dev/zero | tr '\\0' x",
        harness.path("gate").display()
    );
    let mut ids = Vec::new();
    for _ in 0..TASKS {
        ids.push(system.add(shell(&harness.history.record(&work))).await.id);
    }
    wait_until("all tasks to run", SOON, async || {
        (harness.history.runs().len() == ids.len()).then_some(())
    })
    .await;
    judicator.kill();
    harness.open("gate");
    let spool = system.leftovers_at("e").spool();
    wait_until("all results to be in the spool", SOON, async || {
        (complete_results(&spool) == TASKS).then_some(())
    })
    .await;
    executor.kill();

    let _judicator = system.judicator(&LONG_LEASE_FLAGS).unwrap();
    let _executor = system.executor("e", &flags).unwrap();
    for id in ids {
        let task = system.done(id).await;
        assert_eq!((task.status, task.attempt), (TaskStatus::Success, 1));
        let outcome = task.result.unwrap().execute.unwrap();
        assert_eq!(
            (outcome.stdout_bytes, outcome.stdout_truncated),
            (BYTES as u64, false)
        );
        assert_eq!(harness.history.runs_of(id).len(), 1);
    }
    system.leftovers_at("e").wait_until_clean().await;
}

/// How many complete results the journal contains. Each has a header: four bits of a version and 28 of the length, and a
/// checksum in eight bytes.
fn complete_results(spool: &Path) -> usize {
    let file = File::open(spool).expect("a spool");
    let written = file.metadata().expect("its length").len();
    let (mut complete, mut at) = (0, 0);
    let mut length = [0; 4];
    while file.read_exact_at(&mut length, at).is_ok() {
        at += 12 + u64::from(u32::from_le_bytes(length) & 0x0fff_ffff);
        if at > written {
            break;
        }
        complete += 1;
    }
    complete
}
