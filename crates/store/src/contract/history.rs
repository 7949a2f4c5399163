//! Contract cases: the figures of minutes, and what a judicator reads for them.

use std::sync::Arc;
use std::time::Duration;

use model::{
    ActivityFigures, AttemptEnd, HistoryMinute, LoadSample, OutcomeReason, RunTimeHistogram, TaskStatus,
};
use uuid::Uuid;

use super::MAX_ATTEMPTS;
use super::fake_executor::FakeExecutor;
use super::fixtures::{add_task, add_task_with, get_task, success, tools};
use crate::{EndsWithoutResult, TaskStore, WrittenFigures};

fn written(minute: i64, writer: u128, added: u64) -> WrittenFigures {
    let mut run_times = RunTimeHistogram::default();
    run_times.record(Duration::from_millis(7));
    run_times.record(Duration::from_secs(1_000_000));
    WrittenFigures {
        minute: HistoryMinute(minute),
        writer: Uuid::from_u128(writer),
        figures: ActivityFigures {
            added,
            finished: [(TaskStatus::Success, 3), (TaskStatus::SystemError, added)].into(),
            failures: [(OutcomeReason::TimeLimit, 1)].into(),
            run_times,
            load: LoadSample {
                queued: 1 << 40,
                oldest_age: Duration::from_micros(3),
                slots_used: 5,
                slots: 6,
                executors: 7,
            }
            .into(),
        },
    }
}

pub async fn figures_are_read_as_they_were_written(store: Arc<dyn TaskStore>) {
    let (one, other) = (written(100, 1, 5), written(101, 2, 6));
    let nothing = WrittenFigures {
        figures: ActivityFigures::default(),
        ..written(102, 1, 0)
    };
    let all = vec![one.clone(), other.clone(), nothing.clone()];
    store.put_figures(all.clone()).await.unwrap();
    let check = async |minutes: std::ops::Range<i64>, expected: &[WrittenFigures]| {
        let range = HistoryMinute(minutes.start)..HistoryMinute(minutes.end);
        let found = store.figures(range).await.unwrap();
        assert_eq!(found, expected, "{minutes:?}");
    };
    check(0..1000, &all).await;
    check(100..102, &all[..2]).await;
    check(101..102, &all[1..2]).await;
    check(103..1000, &[]).await;
    check(i64::MIN..100, &[]).await;
    // Only whole minutes are removed, of all writers.
    store.put_figures(vec![written(101, 1, 9)]).await.unwrap();
    store.remove_figures(HistoryMinute(101)).await.unwrap();
    check(0..1000, &[written(101, 1, 9), other, nothing.clone()]).await;
    store.remove_figures(HistoryMinute(102)).await.unwrap();
    check(0..1000, &[nothing]).await;
}

pub async fn written_figures_replace_those_of_the_same_writer(store: Arc<dyn TaskStore>) {
    for added in [1, 2, 2] {
        store.put_figures(vec![written(100, 1, added)]).await.unwrap();
    }
    store.put_figures(vec![written(100, 2, 9)]).await.unwrap();
    let found = store
        .figures(HistoryMinute(100)..HistoryMinute(101))
        .await
        .unwrap();
    assert_eq!(found, [written(100, 1, 2), written(100, 2, 9)]);
}

pub async fn the_oldest_task_in_the_queue_is_found(store: Arc<dyn TaskStore>) {
    let check = async |expected| {
        let add_time = match expected {
            Some(id) => Some(get_task(&*store, id).await.add_time),
            None => None,
        };
        assert_eq!(store.oldest_queued().await.unwrap(), add_time);
    };
    check(None).await;
    // The oldest one has the lowest priority, and another needs tools.
    let oldest = add_task_with(&*store, |spec| spec.priority = -7).await;
    let needs_tools = add_task_with(&*store, |spec| {
        spec.language = Some(model::LanguageName::new("go").unwrap());
    })
    .await;
    let last = add_task(&*store).await;
    check(Some(oldest)).await;
    let mut executor = FakeExecutor::new(&store, "e");
    executor.claim(2).await;
    check(Some(needs_tools)).await;
    executor.tools = Some(tools(&["/go"]));
    executor.claim(1).await;
    check(None).await;
    // A task that is released waits again.
    executor.running.retain(|running| running.attempt_id.task != last);
    executor.claim(0).await;
    check(Some(last)).await;
    store.cancel(last).await.unwrap();
    check(None).await;
    executor.expire().await;
    check(Some(oldest)).await;
}

pub async fn ends_without_a_result_are_counted_once(store: Arc<dyn TaskStore>) {
    let before = store.ends_without_result();
    let check = |cancelled, system_errors| {
        let EndsWithoutResult {
            cancelled: all,
            system_errors: errors,
        } = store.ends_without_result();
        assert_eq!(
            (all - before.cancelled, errors - before.system_errors),
            (cancelled, system_errors)
        );
    };
    let (finished, held, broken) = (
        add_task(&*store).await,
        add_task(&*store).await,
        add_task(&*store).await,
    );
    let mut executor = FakeExecutor::new(&store, "e");
    let assigned = executor.claim(2).await;
    assert_eq!(assigned[0].attempt_id.task, finished);
    executor.finish(assigned[0].attempt_id, success()).await;
    check(0, 0);
    for id in [finished, held, held] {
        store.cancel(id).await.unwrap();
    }
    check(1, 0);
    let many = vec![add_task(&*store).await, held, add_task(&*store).await];
    assert_eq!(store.cancel_many(many.clone()).await.unwrap(), 2);
    assert_eq!(store.cancel_many(many).await.unwrap(), 0);
    check(3, 0);
    for _ in 0..MAX_ATTEMPTS {
        let attempt_id = executor.claim_one().await;
        assert_eq!(attempt_id.task, broken);
        executor
            .end_attempt(attempt_id, AttemptEnd::Broken("on purpose".into()))
            .await;
    }
    check(3, 1);
    // The last of the attempts is lost when the session expires.
    let lost = add_task(&*store).await;
    for _ in 0..MAX_ATTEMPTS {
        assert_eq!(executor.claim_one().await.task, lost);
        executor.expire().await;
    }
    check(3, 2);
}
