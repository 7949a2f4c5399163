//! The history: what calls commit is counted, and is there after a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{History, HistorySpan, OutcomeReason, StatusCounts, TaskQuery, TaskStatus};
use rpc::Calls;

use super::harness::{StoreFault, start};
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, add_group, new_id};

/// The sums over all periods, which do not depend on when a minute ends.
#[derive(Debug, Default, PartialEq, Eq)]
struct HistorySums {
    added: u64,
    finished: StatusCounts,
    failures: BTreeMap<OutcomeReason, u64>,
    with_result: u64,
}

fn sums(history: &History) -> HistorySums {
    let mut sums = HistorySums::default();
    for point in &history.points {
        sums.added += point.added;
        for (status, count) in &point.finished {
            *sums.finished.entry(*status).or_default() += count;
        }
        for (reason, count) in &point.failures {
            *sums.failures.entry(*reason).or_default() += count;
        }
        sums.with_result += point.run_time.map_or(0, |run_time| run_time.tasks);
    }
    sums
}

#[tokio::test]
async fn what_was_committed_is_in_the_history_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let process = SqliteJudicator::start(folder.path());
    let judicator = &process.judicator;
    let ids = add_group(judicator, "g", 7).await;
    let mut executor = ScriptedExecutor::new(judicator, "e");
    let attempts = executor.claim(3).await;
    executor.finish(&attempts[..2], 0).await;
    executor.finish(&attempts[2..], 7).await;
    judicator.cancel(ids[3]).await.unwrap();
    judicator.cancel(ids[3]).await.unwrap();
    let all = TaskQuery {
        user: Some(super::sqlite_harness::spec().user),
        ..TaskQuery::default()
    };
    assert_eq!(judicator.cancel_matching(all).await.unwrap().cancelled, 3);
    judicator.retry(ids[3], new_id()).await.unwrap();
    let check = |history: &History, added: u64| {
        let expected = HistorySums {
            added,
            finished: [
                (TaskStatus::Success, 2),
                (TaskStatus::RunFailed, 1),
                (TaskStatus::Cancelled, 4),
            ]
            .into(),
            failures: [(OutcomeReason::Exited, 1)].into(),
            with_result: 3,
        };
        assert_eq!(sums(history), expected);
    };
    for span in HistorySpan::ALL {
        check(&judicator.history(span).await.unwrap(), 8);
    }
    drop(executor);
    process.stop().await;

    // No write is due: the figures are saved because the judicator ends.
    let process = SqliteJudicator::start(folder.path());
    let judicator = &process.judicator;
    check(&judicator.history(HistorySpan::Hour).await.unwrap(), 8);
    add_group(judicator, "g", 2).await;
    check(&judicator.history(HistorySpan::Day).await.unwrap(), 10);
    process.stop().await;
}

#[tokio::test]
async fn the_load_is_sampled_and_the_queue_has_an_age() {
    let folder = tempfile::tempdir().unwrap();
    let process = SqliteJudicator::start(folder.path());
    add_group(&process.judicator, "g", 3).await;
    let mut executor = ScriptedExecutor::new(&process.judicator, "e");
    executor.claim(1).await;
    let stats = process.judicator.stats().await.unwrap();
    assert_eq!(stats.queued(), 2);
    assert!(
        stats.oldest_queued.unwrap() < Duration::from_secs(60),
        "{stats:?}"
    );
    drop(executor);
    process.stop().await;
    // The first sample of a judicator is taken when it starts.
    let process = SqliteJudicator::start(folder.path());
    let load = super::harness::with_deadline(async {
        loop {
            let history = process.judicator.history(HistorySpan::Hour).await.unwrap();
            let mut sampled = history.points.into_iter().filter_map(|point| point.load);
            if let Some(load) = sampled.rfind(|load| load.queued > 0) {
                break load;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!((load.queued, load.executors), (2, 1));
    assert!(load.slots > 0.0 && load.slots <= 4.0, "{load:?}");
    assert!(load.slots_used > 0.0 && load.slots_used <= 1.0, "{load:?}");
    assert!(load.oldest_age > Duration::ZERO, "{load:?}");
    process.stop().await;
}

#[tokio::test]
async fn a_store_without_figures_is_an_error_and_ends_nothing() {
    let test = start(StoreFault::None);
    assert!(test.judicator.history(HistorySpan::Hour).await.is_err());
    test.stop.cancel();
    test.tracker.close();
    super::harness::with_deadline(test.tracker.wait()).await;
    assert_eq!(test.store.supervisor.failures().current(), None);
}
