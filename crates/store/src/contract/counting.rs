//! Totals, and the list of executors.

use std::sync::Arc;
use std::time::Duration;

use model::{Age, Counts, End, ExecutorState, Health, Intent, Query, Report, Status};

use super::sample::{add_one, compile_failure, grow_older, new, run_failure, spec, success};
use super::worker::{CAPACITY, Worker};
use crate::{TaskStore, Totals};

/// Counts what a search finds, and compares it with the totals.
async fn check(store: &Arc<dyn TaskStore>) {
    let page = store
        .search(Query {
            limit: 1000,
            ..Query::default()
        })
        .await
        .unwrap();
    assert_eq!(page.next, None);
    let mut counts: Counts = Status::ALL.into_iter().map(|status| (status, 0)).collect();
    let mut held = 0;
    for brief in page.tasks {
        *counts.get_mut(&brief.status).unwrap() += 1;
        held += u64::from(brief.executor.is_some());
    }
    assert_eq!(store.totals().await.unwrap(), Totals { counts, held });
}

pub async fn totals_equal_reality(store: Arc<dyn TaskStore>) {
    let repeated = new(spec());
    store
        .add(vec![repeated.clone(), new(spec()), repeated.clone()])
        .await
        .unwrap();
    store.add(vec![repeated]).await.unwrap();
    check(&store).await;
    for _ in 0..10 {
        add_one(&*store).await;
    }
    let mut worker = Worker::new(&store, "e");
    let handouts: Vec<_> = worker
        .claim(8)
        .await
        .iter()
        .map(|assigned| assigned.handout)
        .collect();
    check(&store).await;
    worker.progress(handouts[0].task, Status::Compiling).await;
    worker.progress(handouts[1].task, Status::Running).await;
    check(&store).await;
    worker.finish(handouts[0], compile_failure()).await;
    worker.finish(handouts[1], run_failure()).await;
    worker.finish(handouts[2], success()).await;
    worker.end(handouts[3], End::Broken("no".into())).await;
    check(&store).await;
    store.cancel(handouts[4].task).await.unwrap();
    let waiting = add_one(&*store).await;
    store.cancel(waiting).await.unwrap();
    store.cancel(waiting).await.unwrap();
    check(&store).await;
    for _ in 0..3 {
        worker.die().await;
        check(&store).await;
        worker.claim(4).await;
        check(&store).await;
    }
    store.retire(Age(i64::MAX), Age(0), 3).await.unwrap();
    check(&store).await;
    let goodbye = Report {
        intent: Intent::Leave,
        ..worker.next_report()
    };
    worker.deliver(goodbye).await;
    check(&store).await;
}

pub async fn an_empty_store_counts_nothing(store: Arc<dyn TaskStore>) {
    check(&store).await;
    assert_eq!(store.executors().await.unwrap(), []);
    assert_eq!(store.live_sessions().await.unwrap(), []);
}

pub async fn executors_are_listed_with_what_they_hold(store: Arc<dyn TaskStore>) {
    for _ in 0..3 {
        add_one(&*store).await;
    }
    let (mut idle, mut busy) = (Worker::new(&store, "idle"), Worker::new(&store, "busy"));
    let mut report = idle.next_report();
    report.presence.slots = 7;
    idle.deliver(report).await;
    busy.claim(3).await;
    let states = store.executors().await.unwrap();
    let expected = |worker: &Worker, slots, tasks, state: &ExecutorState| ExecutorState {
        name: worker.name.clone(),
        session: worker.session,
        health: Health::Alive,
        slots,
        tasks,
        host: format!("host-of-{}", worker.name),
        version: "1".into(),
        capacity: Some(CAPACITY),
        since: state.since,
        report_time: state.report_time,
    };
    assert_eq!(
        states,
        [
            expected(&busy, 4, 3, &states[0]),
            expected(&idle, 7, 0, &states[1])
        ]
    );
    let mut report = idle.next_report();
    report.presence.version = "2".into();
    idle.deliver(report).await;
    let later = store.executors().await.unwrap().remove(1);
    assert_eq!((later.version.as_str(), later.since), ("2", states[1].since));
    assert!(later.report_time > states[1].report_time);
}

pub async fn executors_long_gone_are_forgotten(store: Arc<dyn TaskStore>) {
    let (mut gone, mut alive) = (Worker::new(&store, "gone"), Worker::new(&store, "alive"));
    gone.claim(0).await;
    alive.claim(0).await;
    let alive_since = store.age().await.unwrap();
    let gone_since = grow_older(&*store, Duration::from_secs(60)).await;
    store.expire(gone.seen()).await.unwrap();
    // How long it was there before does not count.
    for not_yet in [alive_since, gone_since] {
        assert_eq!(store.forget_executors(not_yet).await.unwrap(), 0);
    }
    assert_eq!(store.forget_executors(Age(i64::MAX)).await.unwrap(), 1);
    let names: Vec<_> = store
        .executors()
        .await
        .unwrap()
        .into_iter()
        .map(|state| state.name)
        .collect();
    assert_eq!(names, [alive.name]);
}
